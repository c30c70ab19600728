"""Measuring programs and machines."""
