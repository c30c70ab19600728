"""A running controller on this machine: its place, its account, its journal."""
