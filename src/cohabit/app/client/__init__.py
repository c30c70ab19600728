"""The client of a running scheduler."""
