"""What a restored core knows of a job, for a back end that finds out its state."""

from __future__ import annotations

from typing import NamedTuple


class Expected(NamedTuple):
    """A job of the core after a restart."""

    attempt: int
    active: bool  # the core expects a run of it
    limit_us: int = 0  # as the core knows it
    confirmed: bool = False  # that run had begun
