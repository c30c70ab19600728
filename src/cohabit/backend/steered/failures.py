"""The ways in which a call to a resource manager can fail."""

from __future__ import annotations


class SlurmRefused(Exception):
    """Slurm answered and refused; the text says why."""


class SlurmAway(Exception):
    """Slurm did not answer: the effect of the call is unknown."""


class Forbidden(Exception):
    """A call that could change something, where changes are forbidden."""
