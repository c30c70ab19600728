"""Scenario files: reading them, and names turned into jobs, programs and policies."""
