"""What this host offers, and compiling ahead of time."""
