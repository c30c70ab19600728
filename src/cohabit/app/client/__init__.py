"""Asking a living scheduler."""
