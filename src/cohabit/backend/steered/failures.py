"""What a call to a resource manager can come to besides an answer."""

from __future__ import annotations


class SlurmRefused(Exception):
    """Slurm answered, and the answer is no; the text says why."""


class SlurmAway(Exception):
    """Slurm did not answer: whether the call had an effect is not known."""


class Forbidden(Exception):
    """A call that could change something, where nothing may be changed."""
