"""Samplers: the current values of the machine's own counters, one file per source."""
