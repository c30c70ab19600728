"""What a restored core has of a job, for a back end that finds out what became of it."""

from __future__ import annotations

from typing import NamedTuple


class Expected(NamedTuple):
    """A job the core has, after a restart."""

    attempt: int
    active: bool  # it counts on a run of it
    limit_us: int = 0  # as it knows it
    confirmed: bool = False  # that run had begun
