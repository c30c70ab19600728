"""Checks of this host, and compiling ahead of time."""
