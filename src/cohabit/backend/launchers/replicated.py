"""Replicated sequential programs: so many copies of one program, each on cores of its own, each with its index.

COHABIT_RANK counts them from 0 to COHABIT_PROCESSES - 1. The copies are independent: one that fails does not stop the
others, all must end, and the worst status is the job's.
"""

from __future__ import annotations

from cohabit.backend.launchers.contract import (
    Placement,
    Prepared,
    Request,
    Site,
    checked,
    job_environment,
    processes_of,
    thread_environment,
)
from cohabit.backend.launchers.crew_plan import Member, Plan, beyond, reach, run_crew


def prepare(request: Request, placement: Placement, site: Site) -> Prepared:
    """Return one worker of the crew per copy."""
    placement = checked(request, placement)
    threads = request.threads or 1
    copies = processes_of(request, placement, threads)
    environment = job_environment(request, placement, "replicated", len(copies)) | thread_environment(request, threads)
    workers = []
    for copy in copies:
        remote = reach(placement.nodes[copy.node], site)
        own = {"COHABIT_RANK": str(copy.rank), "COHABIT_NODE": str(copy.node)}
        workers.append(
            Member(f"copy {copy.rank}", request.command, beyond(environment, request, remote) | own, copy.cores, remote)
        )
    return run_crew(request, site, Plan(tuple(workers)), environment, ())
