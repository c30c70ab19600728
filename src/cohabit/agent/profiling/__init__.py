"""Curves and capacities of real programs and machines: the measurements, and the arithmetic of the curves."""
