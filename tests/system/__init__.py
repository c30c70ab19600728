"""Whole programs against the real world: processes, networks, kill -9."""
