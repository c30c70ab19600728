"""Traces in, workloads out: readers, importers and generators of jobs. Never knows a policy or a simulator."""
