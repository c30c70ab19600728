"""Policies: one file each, found by name through registry.py. A policy reads the view and never a back end."""
