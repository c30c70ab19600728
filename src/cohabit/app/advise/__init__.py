"""Advice from logs of a site."""
