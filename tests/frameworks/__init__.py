"""Launchers with the real frameworks: what was asked for is what the processes find."""
