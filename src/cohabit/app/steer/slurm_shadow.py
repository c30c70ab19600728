"""Shadow mode: watch a Slurm for hours or days, then report what the policy would have done with the same jobs.

It has only a reader that refuses every call that could change something. Observations are kept in the place and
extended by the next run. The result is a simulation with the run times Slurm saw: jobs beside others run as fast as
alone in it, so a second simulation slows the jobs that would have shared.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from cohabit.app.steer.slurm_site import SlurmSite
from cohabit.app.steer.steering import cluster_of, policies_of
from cohabit.backend.slurm.calls import ReadOnly
from cohabit.backend.slurm.reading import JobReader
from cohabit.backend.steered.contract import ManagerAway
from cohabit.backend.steered.shapes import Discovered, ManagerJob
from cohabit.backend.steered.translate import job_of, why_not
from cohabit.core.core import SchedulerCore
from cohabit.live.controller.place import Place, open_place
from cohabit.model.errors import InputError
from cohabit.model.job import Job
from cohabit.model.units import SECOND
from cohabit.report.intervals import Interval, bootstrap_interval
from cohabit.sim.runs import Outcome, TracedJob
from cohabit.sim.world import World
from cohabit.whole_files import replacing

SAVE_S = 30.0
LEAST_JOBS = 2
SEED = 20190101  # of the resampling; arbitrary but fixed


class Sight(msgspec.Struct):
    """A job of Slurm as first and last seen."""

    job: Job
    ready_s: float  # since when it could have started
    start_s: float = 0.0
    end_s: float = 0.0  # 0: it has not ended yet
    nodes: tuple[str, ...] = ()
    left_to_slurm: str = ""  # why the policy would not have taken it

    @property
    def ran(self) -> bool:
        """Return whether it began and ended during the observation."""
        return self.end_s > self.start_s > 0


class Verdict(NamedTuple):
    """The comparison of the policy with Slurm."""

    outcomes: Mapping[str, Outcome]
    ran: Sequence[tuple[str, Sight]]


async def watch(site: SlurmSite, until: Callable[[], bool], say: Callable[[str], None]) -> dict[str, Sight]:
    """Poll Slurm; return everything that was ever seen."""
    calls = ReadOnly(site.table.conf)
    found = await site.discover(calls)
    policies_of(site, found, site.config.coupling)  # an invalid policy is reported now, not after days
    kept = open_place(site.place).shadow
    seen, reader, saved_s = read_seen(kept), JobReader(calls), time.monotonic()
    say(f"watching {len(found.names)} nodes of {', '.join(found.terms.partitions)}; nothing is changed")
    while True:
        try:
            for job in await reader.all():
                if job.partition in found.terms.partitions:
                    note(seen, job, found)
        except ManagerAway as error:
            say(f"Slurm does not answer; it is asked again: {error}")
        if until() or time.monotonic() - saved_s > SAVE_S:
            save_seen(kept, seen)
            saved_s = time.monotonic()
        if until():
            return seen
        await asyncio.sleep(site.table.poll_s)


def note(seen: dict[str, Sight], job: ManagerJob, found: Discovered) -> None:
    """Record what is new about a job. Slurm reuses numbers after millions of jobs: submission times tell them apart."""
    key = f"{job.name}@{job.submit_s:.0f}"
    if key not in seen:
        if not (job.waits or job.start_s):
            return  # cancelled before it began
        described = msgspec.structs.replace(job_of(job, found.terms), job_id=key, after=())
        seen[key] = Sight(described, 0.0, left_to_slurm=why_not(job, found.terms))
    sight = seen[key]
    if job.start_s:
        sight.ready_s = max(job.submit_s, min(job.eligible_s or job.submit_s, job.start_s))
        sight.start_s, sight.nodes = job.start_s, job.nodes or sight.nodes
    sight.end_s = 0.0 if job.waits or job.runs else job.end_s


def read_seen(path: Path) -> dict[str, Sight]:
    """Return what earlier runs saw."""
    if not path.exists():
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Sight])
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"cannot be read: {error}", str(path), "move it away to begin anew") from error


def save_seen(path: Path, seen: Mapping[str, Sight]) -> None:
    """Write the file, complete or not at all."""
    with replacing(path) as stream:
        stream.write(msgspec.json.encode(seen))


# ---- what would have been -------------------------------------------------------------------------------------------


def judge(site: SlurmSite, found: Discovered, seen: Mapping[str, Sight], slower: float) -> dict[str, Any]:
    """Compare both in numbers; `slower`: the slowdown of jobs that share in the pessimistic case."""
    ran = sorted(((name, sight) for name, sight in seen.items() if sight.ran), key=lambda one: one[1].ready_s)
    if len(ran) < LEAST_JOBS:
        where = str(Place(site.place).shadow)
        raise InputError(f"only {len(ran)} jobs began and ended so far", where, "watch for longer")
    plain = replay(site, found, ran, {})
    shared = [name for name, one in plain.items() if not one.exclusive]
    slowed = replay(site, found, ran, dict.fromkeys(shared, 1 + slower)) if shared else plain
    truth = {name: Outcome(_us(one.start_s), _us(one.end_s)) for name, one in ran}
    cases = {"slurm": truth, "policy": plain, "policy_pessimistic": slowed}
    number = {name: at for at, name in enumerate(found.names)}
    busy = {"slurm": [(number[node], one.start_s, one.end_s) for _, one in ran for node in one.nodes if node in number]}
    for case in ("policy", "policy_pessimistic"):
        busy[case] = [
            (node, (one.start_us or 0) / SECOND, (one.end_us or 0) / SECOND)
            for one in cases[case].values()
            for first, count in one.nodes
            for node in range(first, first + count)
        ]
    return {
        "name": site.policy.name,
        "jobs": len(ran),
        "still_going": sum(not one.end_s for one in seen.values()),
        "left_to_slurm": sum(bool(one.left_to_slurm) for _, one in ran),
        "hours": round((max(one.end_s for _, one in ran) - ran[0][1].ready_s) / 3600, 3),
        "would_share": len(shared),
        "slower_pct": round(100 * slower, 1),
        **{case: _summary(cases[case], ran, busy[case]) for case in cases},
        "difference": {
            case: {key: _difference(cases[case], truth, ran, key) for key in ("wait_s", "turnaround_s")}
            for case in ("policy", "policy_pessimistic")
        },
    }


def replay(
    site: SlurmSite, found: Discovered, ran: Sequence[tuple[str, Sight]], stretch: Mapping[str, float]
) -> dict[str, Outcome]:
    """Simulate the same jobs under the policy; some of them with more work."""
    policies = policies_of(site, found, site.config.coupling)
    world = World(SchedulerCore(cluster_of(site, found, policies), policies))
    traced = []
    for name, one in ran:
        work_us = round(_us(one.end_s - one.start_s) * stretch.get(name, 1.0))
        job = msgspec.structs.replace(one.job, limit_us=max(one.job.limit_us, work_us))
        traced.append(TracedJob(job, _us(one.ready_s), work_us))
    world.add(traced)
    world.run()
    never = [name for name, one in world.outcomes.items() if one.end_us is None]
    if never:
        raise InputError(f"under this policy {len(never)} jobs would never have run, such as {never[0]}", "policy")
    return world.outcomes


def _summary(
    case: Mapping[str, Outcome], ran: Sequence[tuple[str, Sight]], busy: Sequence[tuple[int, float, float]]
) -> dict[str, float]:
    return {
        "mean_wait_s": round(float(np.mean(_values(case, ran, "wait_s"))), 2),
        "mean_turnaround_s": round(float(np.mean(_values(case, ran, "turnaround_s"))), 2),
        "node_hours": round(_covered_s(busy) / 3600, 4),
    }


def _values(case: Mapping[str, Outcome], ran: Sequence[tuple[str, Sight]], key: str) -> list[float]:
    found = []
    for name, sight in ran:
        at_us = case[name].start_us if key == "wait_s" else case[name].end_us
        assert at_us is not None
        found.append(at_us / SECOND - sight.ready_s)
    return found


def _difference(
    case: Mapping[str, Outcome], truth: Mapping[str, Outcome], ran: Sequence[tuple[str, Sight]], key: str
) -> dict[str, float | None]:
    """Return ours minus Slurm's with a 95 % interval: consecutive jobs are dependent, so whole blocks are resampled."""
    differences = np.array(_values(case, ran, key)) - np.array(_values(truth, ran, key))
    rows = np.array_split(differences, max(math.isqrt(len(differences)), 1))
    found: Interval = bootstrap_interval([float(row.mean()) for row in rows], np.random.default_rng(SEED))
    low, high = (None if bound is None else round(float(bound), 2) for bound in (found.low, found.high))
    return {"mean": round(float(differences.mean()), 2), "low": low, "high": high}


def _covered_s(busy: Sequence[tuple[int, float, float]]) -> float:
    """Return the node time with at least one job, over all nodes."""
    total, last_node, until_s = 0.0, -1, 0.0
    for node, start_s, end_s in sorted(busy):
        if node != last_node:
            last_node, until_s = node, start_s
        total += max(end_s - max(start_s, until_s), 0.0)
        until_s = max(until_s, end_s)
    return total


def _us(seconds: float) -> int:
    return round(seconds * SECOND)
