"""The status of a steered cluster: the manager's view, the controller's, and their differences. It changes nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from cohabit.app.steer.service import STATES, latency, our_view, policy_of, store_away
from cohabit.app.steer.site import Around, SteeredSite
from cohabit.backend.steered.contract import ManagerAway
from cohabit.backend.steered.holds import holder
from cohabit.backend.steered.lease import read_lease, switch_file
from cohabit.backend.steered.marks import HELD, RUN, is_back, read_mark
from cohabit.backend.steered.naming import Names, kept_names
from cohabit.backend.steered.shapes import ManagerJob
from cohabit.backend.steered.translate import has_come
from cohabit.live.controller.place import Place
from cohabit.model.errors import InputError

LOOKS, WRITTEN_S = 2, 1.0  # more looks at a difference; a controller writes a changed view so often
FITS = {"queued": ("held",), "starting": ("held", "waiting", "running"), "running": ("running",)}  # ours -> theirs


async def jobs_of(site: SteeredSite, around: Around) -> list[ManagerJob]:
    """Return all jobs of the manager; raise one sentence if it does not answer."""
    try:
        return await around.manager.jobs()
    except ManagerAway as error:
        raise InputError(f"{site.title} does not answer: {error}", site.word, "try again when it does") from error


async def status(site: SteeredSite) -> dict[str, Any]:
    """Return the manager's view and ours, and their differences. Changes nothing.

    The two are looked at one after the other, so a difference counts only if it is still there in later looks."""
    around = await site.look_around(only_read=True)
    at_s, ours, steered, disagree = await _looked(site, around)
    for _ in range(LOOKS):
        if not disagree:
            break
        await asyncio.sleep(max(site.table.poll_s, WRITTEN_S) + 0.5)
        at_s, ours, steered, again = await _looked(site, around)
        disagree = [one for one in again if one in disagree]
    theirs = _states(steered)
    lease = read_lease(site.lease)
    warnings = [*site.warnings(around), *filter(None, [store_away(site.place)])]
    counts = {word: sum(one == word for one in theirs.values()) for word in ("running", "held", "waiting")}
    return {
        site.word: around.says | counts,
        "cohabit": {state: sum(one == state for one in ours.values()) for state in STATES.values()},
        "policy": policy_of(site.place),
        "view_age_s": None if not at_s else round(time.time() - at_s, 1),
        "lease_left_s": None if lease is None else max(round(lease.until_s - time.time(), 1), 0.0),
        "switched_off": switch_file(site.lease).exists(),
        "latency": latency(site.place),
        "warnings": warnings,
        "disagreements": disagree,
    }


async def _looked(
    site: SteeredSite, around: Around
) -> tuple[float, dict[str, str], list[ManagerJob], list[dict[str, str]]]:
    """Return when our view was written, our jobs, the manager's, and where they differ."""
    terms = around.found.terms
    found, kept = await jobs_of(site, around), kept_names(Place(site.place).mates)
    called = {name: ours for ours, name in kept.items()}
    jobs = Names(terms).ours(job for job in found if job.name not in called)
    jobs |= {called[job.name]: replace(job, name=called[job.name]) for job in found if job.name in called}
    steered = [job for job in jobs.values() if job.partition in terms.partitions]
    theirs, (at_s, ours) = _states(steered), our_view(site.place)
    ours = {name: state for name, state in ours.items() if state != "queued" or not _is_given_back(jobs.get(name))}
    disagree = []
    for name, state in ours.items():
        there = theirs.get(name, "gone")
        if there not in FITS.get(state, (there,)):
            disagree.append({"job": name, "cohabit": state, site.word: there})
    unknown = (job.name for job in steered if job.name not in ours and job.held and _is_due(job))
    disagree += [{"job": name, "cohabit": "unknown", site.word: "held"} for name in unknown]
    return at_s, ours, steered, disagree


def _states(jobs: Iterable[ManagerJob]) -> dict[str, str]:
    there = (job for job in jobs if job.waits or job.runs)
    return {job.name: "running" if job.runs else "held" if job.held else "waiting" for job in there}


def _is_given_back(job: ManagerJob | None) -> bool:
    return job is not None and job.waits and is_back(job.mark)


def _is_due(job: ManagerJob) -> bool:
    """Return whether the controller ought to have the job: it is held for us, and nothing else keeps it."""
    mark = read_mark(job.mark)
    ours = mark is not None and mark.kind in (HELD, RUN)
    return (
        job.waits and ours and not (job.dependency or job.array_at_most or holder(job)) and has_come(job, time.time())
    )
