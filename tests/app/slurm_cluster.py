"""The real Slurm of tests lives in cohabit.testing.slurm_cluster."""

from __future__ import annotations

from cohabit.testing.slurm_cluster import missing, slurm_cluster

__all__ = ["missing", "slurm_cluster"]
