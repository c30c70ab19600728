"""Slurm as the executing system: it keeps accounts, launching, limits and accounting; placement is decided here."""
