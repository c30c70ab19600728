"""Readers, importers and generators of jobs: from traces to workloads. Must not know a policy or a simulator."""
