"""Cohabit: a resource-aware job scheduler whose simulator and live system share one decision core."""

__version__ = "0.1.0"
