"""Policies of this kind, one file each."""
