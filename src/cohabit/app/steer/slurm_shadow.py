"""Shadow mode: watch a Slurm for hours or days, then report what the policy would have done with the same jobs.

It has only a reader that refuses every call that could change something. Observations are kept in the place and
extended by the next run. The result is a simulation with the run times Slurm saw: jobs beside others run as fast as
alone in it, so a second simulation slows the jobs that would have shared.
"""

from __future__ import annotations

import asyncio
import math
import pwd
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from cohabit.app.advise.gains import gains
from cohabit.app.steer.deciding import cluster_of, policies_of
from cohabit.app.steer.shadow_report import ranges_by_name, write_shadow_report
from cohabit.app.steer.slurm_site import SlurmSite
from cohabit.backend.slurm.calls import ReadOnly
from cohabit.backend.slurm.reading import JobReader
from cohabit.backend.steered.contract import ManagerAway
from cohabit.backend.steered.shapes import Discovered, ManagerJob
from cohabit.backend.steered.translate import job_of, why_not
from cohabit.core.core import SchedulerCore
from cohabit.live.controller.place import Place, open_place
from cohabit.model.errors import InputError
from cohabit.model.job import Job
from cohabit.model.plan import Ranges
from cohabit.model.units import SECOND
from cohabit.report.intervals import Interval, bootstrap_interval
from cohabit.sim.runs import Outcome, TracedJob
from cohabit.sim.world import World
from cohabit.whole_files import replacing

SAVE_S = 30.0
LEAST_JOBS = 2
LEAST_BLOCKS = 3
SEED = 20190101  # of the resampling; arbitrary but fixed


class Sight(msgspec.Struct):
    """A job of Slurm as first and last seen."""

    job: Job
    ready_s: float  # since when it could have started
    start_s: float = 0.0
    end_s: float = 0.0  # 0: it has not ended yet
    nodes: tuple[str, ...] = ()
    left_to_slurm: str = ""  # why the policy would not have taken it
    watched: bool = False  # it was submitted while we watched; only such jobs count, others only take nodes

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
    seen, reader, saved_s, since_s = read_seen(kept), JobReader(calls), time.monotonic(), time.time()
    say(f"watching {len(found.names)} nodes of {', '.join(found.terms.partitions)}; nothing is changed")
    while True:
        try:
            for job in await reader.all():
                if job.partition in found.terms.partitions:
                    note(seen, job, found, since_s)
        except ManagerAway as error:
            say(f"Slurm does not answer; it is asked again: {error}")
        if until() or time.monotonic() - saved_s > SAVE_S:
            save_seen(kept, seen)
            saved_s = time.monotonic()
        if until():
            return seen
        await asyncio.sleep(site.table.poll_s)


def note(seen: dict[str, Sight], job: ManagerJob, found: Discovered, since_s: float) -> None:
    """Record what is new about a job. Slurm reuses numbers after millions of jobs: submission times tell them apart."""
    key = f"{job.name}@{job.submit_s:.0f}"
    if key not in seen:
        if not (job.waits or job.start_s):
            return  # cancelled before it began
        described = msgspec.structs.replace(job_of(job, found.terms), job_id=key, after=())
        watched = job.submit_s >= int(since_s)  # Slurm's clock has whole seconds
        seen[key] = Sight(described, 0.0, left_to_slurm=why_not(job, found.terms), watched=watched)
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
        raise InputError(f"cannot be read: {error}", str(path), "move it away to start again") from error


def save_seen(path: Path, seen: Mapping[str, Sight]) -> None:
    """Write the file, complete or not at all."""
    with replacing(path) as stream:
        stream.write(msgspec.json.encode(seen))


# ---- what would have been -------------------------------------------------------------------------------------------


def judge(
    site: SlurmSite, found: Discovered, seen: Mapping[str, Sight], slower: float, report: Path | None = None
) -> dict[str, Any]:
    """Compare both in numbers, and in a picture if there is a path for it.

    `slower`: the slowdown of jobs that share in the pessimistic case. `by_size` and `by_user` tell which jobs gain and
    which pay in that case. Only jobs count that were watched from their submission to their end. The others take their
    nodes when they took them under Slurm: jobs from before, and jobs that still run.
    """
    named = sorted(seen.items(), key=lambda one: one[1].ready_s)
    ran = [(name, sight) for name, sight in named if sight.ran and sight.watched]
    if len(ran) < LEAST_JOBS:
        where, more = str(Place(site.place).shadow), sum(one.ran for one in seen.values()) - len(ran)
        before = f"; {more} others were submitted before it began" if more else ""
        raise InputError(f"only {len(ran)} jobs were watched from submission to end{before}", where, "watch for longer")
    until_s = max(max(one.end_s, one.start_s) for one in seen.values())
    others = [
        (name, msgspec.structs.replace(one, ready_s=one.start_s, end_s=one.end_s or max(until_s, one.start_s + 1)))
        for name, one in named
        if one.start_s and not (one.ran and one.watched) and (one.ran or not one.end_s)
    ]
    everything = [*ran, *others]
    latency_s = _latency_s(ran, everything, len(found.names))
    everything = [
        *ran,
        *((name, msgspec.structs.replace(one, ready_s=one.start_s - latency_s)) for name, one in others),
    ]
    plain = replay(site, found, everything, {}, latency_s)
    shared = [name for name, _ in ran if not plain[name].exclusive]
    stretch = dict.fromkeys([name for name, one in plain.items() if not one.exclusive], 1 + slower)
    slowed = replay(site, found, everything, stretch, latency_s) if shared else plain
    truth = {name: Outcome(_us(one.start_s), _us(one.end_s)) for name, one in ran}
    cases = {"slurm": truth, "policy": plain, "policy_pessimistic": slowed}
    number = {name: at for at, name in enumerate(found.names)}
    if report is not None:
        own = {name: ranges_by_name(one.nodes, number) for name, one in ran}
        did = {name: _shared_under_slurm(truth[name], own[name]) for name, _ in ran}
        drawn = {"Slurm": did, site.policy.name: plain, f"{site.policy.name}, pessimistic": slowed}
        jobs = [(name, one.job, _us(one.ready_s)) for name, one in ran]
        write_shadow_report(report, drawn, jobs, [_user_name(one.job.user) for _, one in ran], found.cpus)
    busy = {"slurm": [(number[node], one.start_s, one.end_s) for _, one in ran for node in one.nodes if node in number]}
    for case in ("policy", "policy_pessimistic"):
        busy[case] = [
            (node, (one.start_us or 0) / SECOND, (one.end_us or 0) / SECOND)
            for one in (cases[case][name] for name, _ in ran)
            for first, count in one.nodes
            for node in range(first, first + count)
        ]
    difference = {
        case: {key: _difference(cases[case], truth, ran, key) for key in ("wait_s", "turnaround_s")}
        for case in ("policy", "policy_pessimistic")
    }
    return {
        "name": site.policy.name,
        "jobs": len(ran),
        "not_watched": sum(one.ran and not one.watched for one in seen.values()),
        "still_going": sum(not one.end_s for one in seen.values()),
        "left_to_slurm": sum(bool(one.left_to_slurm) for _, one in ran),
        "hours": round((max(one.end_s for _, one in ran) - ran[0][1].ready_s) / 3600, 3),
        "would_share": len(shared),
        "slower_pct": round(100 * slower, 1),
        "start_latency_s": latency_s,
        **{case: _summary(cases[case], ran, busy[case]) for case in cases},
        "difference": difference,
        **gains(
            np.array([one.job.processes for _, one in ran], np.float64),
            max(found.cpus),
            [_user_name(one.job.user) for _, one in ran],
            np.array(_values(truth, ran, "turnaround_s")),
            np.array(_values(slowed, ran, "turnaround_s")),
        ),
        "verdict": _verdict(len(shared), difference["policy_pessimistic"]["turnaround_s"]),
    }


def _shared_under_slurm(one: Outcome, nodes: Ranges) -> Outcome:
    """Return what Slurm did, with its nodes; it gave a job the cores that its processes need."""
    return replace(one, nodes=nodes, exclusive=False)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _latency_s(ran: Sequence[tuple[str, Sight]], everything: Sequence[tuple[str, Sight]], nodes: int) -> float:
    """Return how long Slurm itself took, at the median, to begin jobs that found idle nodes and an empty queue.

    Its clock has whole seconds. Without such a job: 0.
    """
    stays = np.array([(one.start_s, one.end_s, len(one.nodes)) for _, one in everything]).reshape(-1, 3)
    waits = np.array([(one.ready_s, one.start_s) for _, one in everything]).reshape(-1, 2)
    took = []
    for _, one in ran:
        at_s = one.ready_s
        busy = float(stays[(stays[:, 0] <= at_s) & (stays[:, 1] > at_s), 2].sum())  # shared ones count twice
        queued = bool(((waits[:, 0] <= at_s) & (waits[:, 1] > at_s)).sum() > 1)  # it is one of them
        if not queued and busy + len(one.nodes) <= nodes:
            took.append(one.start_s - at_s)
    return round(float(np.median(took)), 2) if took else 0.0


def _verdict(shared: int, turnaround: Mapping[str, float | None]) -> str:
    """Return what may be concluded, from the pessimistic case."""
    if not shared:
        return (
            "No job would have shared a node: nothing is gained by sharing here. A difference comes from the order of "
            "the queue alone."
        )
    low, high = turnaround["low"], turnaround["high"]
    if low is None or high is None:
        return (
            "That is too short a time for an interval (three stretches, each longer than the longest job is there): no "
            "gain is shown yet. Watch for longer."
        )
    if high < 0:
        return "A gain is shown, also if jobs that share are slower."
    return "A loss is shown." if low > 0 else "No gain is shown: the interval contains zero."


def replay(
    site: SlurmSite,
    found: Discovered,
    ran: Sequence[tuple[str, Sight]],
    stretch: Mapping[str, float],
    latency_s: float = 0.0,
) -> dict[str, Outcome]:
    """Simulate the same jobs under the policy; some of them with more work, all beginning so long after their order."""
    policies = policies_of(site, found, site.config.coupling)
    world = World(SchedulerCore(cluster_of(site.node, found, policies), policies), start_delay_us=_us(latency_s))
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
    """Return ours minus Slurm's with a 95 % interval: consecutive jobs are dependent, so whole blocks are resampled.

    A block is at least as long as any job was there; with fewer than three such blocks there is no interval.
    """
    differences = np.array(_values(case, ran, key)) - np.array(_values(truth, ran, key))
    ready_s = [one.ready_s for _, one in ran]
    longest_s = max(one.end_s - one.ready_s for _, one in ran)
    apart = int((max(ready_s) - min(ready_s)) / max(longest_s, 1.0))
    rows = np.array_split(differences, max(min(math.isqrt(len(differences)), apart), 1))
    low: float | None = None
    high: float | None = None
    if len(rows) >= LEAST_BLOCKS:
        told: Interval = bootstrap_interval([float(row.mean()) for row in rows], np.random.default_rng(SEED))
        low, high = (None if bound is None else round(float(bound), 2) for bound in (told.low, told.high))
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
