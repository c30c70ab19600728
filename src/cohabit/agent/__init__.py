"""The node: launching programs, binding them to cores, measuring them. Imports the model only."""
