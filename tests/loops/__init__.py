"""Loops that close: run, measure, store, decide better."""
