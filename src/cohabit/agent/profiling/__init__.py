"""Curves and capacities of real programs and machines: what is measured, and the arithmetic that makes curves of it."""
