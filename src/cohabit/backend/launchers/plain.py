"""A plain command: executed once, on the first node, with what the job was given in its environment.

It spans nodes only if the program does that itself (COHABIT_HOSTS says where). Thread counts are set only on request:
a program bound to its cores counts them by itself.
"""

from __future__ import annotations

from cohabit.backend.launchers.contract import (
    Placement,
    Prepared,
    Request,
    Site,
    checked,
    job_environment,
    thread_environment,
)


def prepare(request: Request, placement: Placement, site: Site) -> Prepared:
    """Return the command unchanged."""
    placement = checked(request, placement)
    environment = job_environment(request, placement, "plain")
    if request.threads:
        environment |= thread_environment(request, request.threads)
    notes: tuple[str, ...] = ()
    if len(placement.nodes) > 1:
        notes = ("a plain command runs on the first of its nodes only; a framework would use them all",)
    return Prepared(request.command, environment, notes=notes)
