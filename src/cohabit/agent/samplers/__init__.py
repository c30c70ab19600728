"""Samplers: what the machine's own counters say now, one file per source."""
