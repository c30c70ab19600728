"""Coscheduling on coupled systems (ICPP 2011) in the simulated world."""
