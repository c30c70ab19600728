"""Persistent data: profiles of programs, in a database or as one JSON file. Imports the model only."""
