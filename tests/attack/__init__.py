"""Attacks on a controller that runs as root, replayed from two ordinary accounts with real processes."""
