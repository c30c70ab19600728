"""What runs on a node: launching programs, binding them to cores, measuring them. Imports the model only."""
