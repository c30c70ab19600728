"""Orders the core gives, in the imperative. Every one carries (job, attempt), so giving it twice does no harm."""

from __future__ import annotations

import msgspec


class _Command(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    pass


class StartJob(_Command, frozen=True):
    """Run the job on these nodes, given as (first, count) ranges; stop it at its limit."""

    job_id: str
    attempt: int
    nodes: tuple[tuple[int, int], ...]
    limit_us: int


class CancelJob(_Command, frozen=True):
    """Stop a run, or tell its owner that it will never happen."""

    job_id: str
    attempt: int
    reason: str = ""


class WakeAt(_Command, frozen=True):
    """Call again at this instant even if nothing happens."""

    at_us: int


Command = StartJob | CancelJob | WakeAt
