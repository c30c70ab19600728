"""Frozen data every other room speaks in. Imports only the standard library, numpy and msgspec."""
