"""Loops that close: run, measure, store, decide better; with real programs."""
