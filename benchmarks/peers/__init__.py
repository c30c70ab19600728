"""Cohabit beside its peers, on the same jobs and the same machine in one run: `python -m benchmarks.peers`."""
