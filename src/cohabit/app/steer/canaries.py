"""Canaries before a start on a steered Slurm: the network of the chosen nodes is measured right before a job starts.

Between the core's order to start a job and its start, a small job of the same user runs on exactly these nodes: RUSH's
ring and all-reduce (agent/canary/ranks.py), by srun. What its ranks waited becomes telemetry of these nodes, and the
core is asked anew: its gate then judges with a canary. The nodes are kept for the job meanwhile, so the time is charged
to the schedule (R51). A canary that fails delays nothing: it is said, and the job starts without.
"""

from __future__ import annotations

import asyncio
import logging
import pwd
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from cohabit.agent.canary import ranks
from cohabit.agent.canary.running import REDUCE_ROUNDS, RING_ROUNDS
from cohabit.app.doctor.needs import canary_columns
from cohabit.app.steer.cluster_telemetry import ClusterTelemetry, ClusterTelemetryTable
from cohabit.app.steer.site import HandIn, SteeredSite
from cohabit.backend.protocol import Backend, BackendError, Launch, Run
from cohabit.backend.steered.backend import SteeredBackend
from cohabit.backend.steered.contract import ManagerAway, ManagerRefused
from cohabit.backend.steered.marks import Before, run_mark
from cohabit.backend.steered.submitting import Extra
from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import PolicySet
from cohabit.model.command import Command, StartJob
from cohabit.model.errors import InputError
from cohabit.model.event import Event
from cohabit.model.job import Job
from cohabit.model.telemetry import CANARY_TIMES, STATS
from cohabit.model.units import microseconds

NAME = "cohabit-canary"
LOOK_S = 0.5
ANEW = "a canary has measured its nodes; the decision is made again with that"
_SAID = re.compile(r"cohabit:canary:([-+0-9.e,]+)")
# Rank 0 tells the controller by the comment of its own job: no folder need be shared, and no port be open.
_TELL = """
import os, subprocess, tempfile
with tempfile.TemporaryDirectory() as folder:
    out = Path(folder) / "waits"
    main(*map(int, sys.argv[1:4]), out)
    if out.exists():
        columns = zip(*json.loads(out.read_text())["waits_s"])
        found = ",".join(f"{x:.6g}" for one in columns for x in (min(one), max(one), sum(one) / len(one)))
        job = os.environ["SLURM_JOB_ID"]
        subprocess.run(["scontrol", "update", f"JobId={job}", f"Comment=cohabit:canary:{found}"], check=True)
"""
log = logging.getLogger(__name__)
Ask = Callable[[Callable[[SchedulerCore], Job | None]], Awaitable[Job | None]]


def program() -> str:
    """Return the program of a rank, which needs Python, mpi4py and numpy on the nodes and nothing of ours."""
    measuring, _, _ = Path(ranks.__file__).read_text(encoding="utf-8").partition('\nif __name__ == "__main__":')
    return measuring + _TELL


def features_in(comment: str) -> dict[str, float] | None:
    """Return the nine numbers that a canary has written; None if there are none."""
    found = _SAID.search(comment)
    try:
        numbers = [float(one) for one in found.group(1).split(",")] if found is not None else []
    except ValueError:
        return None
    names = [f"{name}.{stat}" for name in CANARY_TIMES for stat in STATS]
    return dict(zip(names, numbers, strict=True)) if len(numbers) == len(names) else None


class CanaryBackend:
    """A back end that sends a canary before every start. `bind` gives it the core and the telemetry, before `open`."""

    def __init__(self, inner: SteeredBackend, hand_in: HandIn, table: ClusterTelemetryTable) -> None:
        self.inner, self._hand_in, self._table, self._program = inner, hand_in, table, program()
        self._ask: Ask | None = None
        self._telemetry: ClusterTelemetry | None = None
        self._without: dict[frozenset[int], float] = {}  # where one has failed, and when

    def bind(self, ask: Ask, telemetry: ClusterTelemetry) -> None:
        """Set what it asks and tells."""
        self._ask, self._telemetry = ask, telemetry

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def open(self) -> None:
        """Open the back end."""
        await self.inner.open()

    def events(self) -> AsyncIterator[Event]:
        """Yield the events of the back end."""
        return self.inner.events()

    async def observe(self) -> list[Run]:
        """Return the runs of the back end."""
        return await self.inner.observe()

    async def settled(self, job_id: str, attempt: int) -> None:
        """Pass this on."""
        await self.inner.settled(job_id, attempt)

    async def close(self) -> None:
        """Close the back end."""
        await self.inner.close()

    async def execute(self, command: Command, launch: Launch | None = None) -> None:
        """Pass a command on; a start on nodes without a recent canary sends one, and is decided again."""
        if isinstance(command, StartJob) and self._telemetry is not None:
            nodes = [node for first, count in command.nodes for node in range(first, first + count)]
            if not self._telemetry.has_canary(nodes) and not self._has_failed(nodes):
                await self._send(command.job_id, nodes)
        await self.inner.execute(command, launch)

    def _has_failed(self, nodes: Sequence[int]) -> bool:
        at_s = self._without.get(frozenset(nodes))
        return at_s is not None and time.monotonic() - at_s < self._table.canary_lasts_s

    async def _send(self, job_id: str, nodes: Sequence[int]) -> None:
        """Measure these nodes for a job; BackendError if that succeeded: the core is to decide with the result."""
        assert self._ask is not None and self._telemetry is not None
        names = [self.inner.found.names[node] for node in nodes]

        def described(core: SchedulerCore) -> Job | None:
            row = core.state.rows.get(job_id)
            return None if row is None else core.state.spec(row)

        job = await self._ask(described)
        if job is None:
            return
        begun_s = time.monotonic()
        try:
            found = await self._measured(job, names)
        except (ManagerAway, ManagerRefused, InputError, KeyError) as error:
            found, why = None, str(error)
        else:
            why = "it ended without a result: try `cohabit measure canary` there"
        took_s = time.monotonic() - begun_s
        if found is None:
            self._without[frozenset(nodes)] = time.monotonic()
            log.warning("job %s starts without a canary on %s: %s", job_id, ",".join(names), why)
            return
        log.info("a canary for job %s on %s took %.1f s", job_id, ",".join(names), took_s)
        await self._telemetry.canary(nodes, found)
        raise BackendError(ANEW, 1)

    async def _measured(self, job: Job, names: Sequence[str]) -> dict[str, float] | None:
        """Run the ring and the all-reduce on these nodes as the job's user; None: no result within the time."""
        backend, table, count = self.inner, self._table, max(len(names), 2)
        limit_us = microseconds(table.canary_limit_s)
        small = Job(NAME, limit_us, count, len(names), user=job.user, partition=job.partition, account=job.account)
        numbers = (round(table.canary_mb * 1e6), RING_ROUNDS, REDUCE_ROUNDS)
        words = (table.canary_python, "-c", self._program, *map(str, numbers))
        gid = pwd.getpwuid(job.user).pw_gid
        launch = Launch(words, {}, "/", "/dev/null", framework="mpi", processes=count, uid=job.user, gid=gid)
        async with backend.alone:  # no look may take it for a job of ours
            number = await self._hand_in(small, launch, Extra(NAME), {})
            backend.watcher.left.add(number)
            backend.watcher.canaries.add(number)
        await backend.manager.place(number, names, 1, run_mark(1, Before(len(names), len(names), 1, count)))
        await backend.manager.release([number])
        return await self._result(number)

    async def _result(self, number: str) -> dict[str, float] | None:
        until_s = time.monotonic() + self._table.canary_limit_s
        while True:
            await asyncio.sleep(LOOK_S)
            job = await self.inner.manager.job(number)
            if job is None or not (job.waits or job.runs):
                return None if job is None else features_in(job.comment)
            if time.monotonic() > until_s:
                await self.inner.manager.cancel(number)
                return None


def refuse_mismatch(site: SteeredSite, policies: PolicySet) -> None:
    """Refuse canaries that no gate asks for, or that this policy leaves no room for."""
    if site.telemetry is None or not site.telemetry.canary:
        return
    where = f"{site.word} site, telemetry.canary"
    if not canary_columns(policies):
        what = "no model of a gate asks for what canaries measure"
        raise InputError(what, where, "train one with canaries (docs/variability.md), or leave canary out")
    if not policies.placer.exclusive:
        what = f"policy {site.policy.name} lets jobs share nodes, and a canary needs them for itself"
        raise InputError(what, where, "use a policy that gives out whole nodes, or leave canary out")


def of_backend(backend: SteeredBackend, hand_in: HandIn, table: ClusterTelemetryTable | None) -> Backend:
    """Return the back end, with canaries if the site file wants them."""
    return CanaryBackend(backend, hand_in, table) if table is not None and table.canary else backend
