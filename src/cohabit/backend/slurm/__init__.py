"""Slurm as the one who executes: it keeps accounts, launching, limits and accounting; placement is decided here."""
