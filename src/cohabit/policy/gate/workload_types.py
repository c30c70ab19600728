"""The kind of work of a job: compute, network or io, as its owner says or as its program's profile shows (RUSH R16).

Both thresholds are assumed; the owner can override them at submission. Without measurements nothing is guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cohabit.core.view import View
    from cohabit.model.profile import ScaleProfile

IO_BYTES = 10e6  # per second and process: a program that reads and writes more counts as bound by storage
IO_COUNTERS = ("io_read_bytes_mean", "io_write_bytes_mean")
NETWORK_SHARE = 0.2  # of its time: a program that communicates for longer counts as bound by the network


def workload_type(row: int, view: View) -> str:
    """Return the type its owner states, else the type its profile at the usual scale shows; empty if unknown."""
    job = view.job(row)
    if job.workload_type:
        return job.workload_type
    profile = view.profile(job.program, job.processes, job.profile_owner)
    one = None if profile is None else profile.at_scale(1)
    return "" if profile is None or one is None else shown_by(one, profile.processes)


def shown_by(one: ScaleProfile, processes: int) -> str:
    """Return io by bytes moved, network by the share of time spent communicating, compute where both are small.

    Without counters storage cannot be excluded, so only a large share of communication says anything.
    """
    if sum(one.counters.get(name, 0.0) for name in IO_COUNTERS) > IO_BYTES * processes:
        return "io"
    if one.communication >= NETWORK_SHARE:
        return "network"
    return "compute" if one.counters else ""
