"""A trial on this machine: the controller of `cohabit up`, its launcher and real processes.

Before the first round the controller learns every kind of job as it does on its own: under `cohabit` with
`unknown = "alone"` each runs alone twice, once for its time and once for its curves, as far as they can be counted.
All policies are given what was learned; `cs` and `ce-easy` make no use of it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.trial.work import Kind, Ran, Say, TrialJob
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.machine import ProfilingConfig, TelemetryConfig
from cohabit.app.serve.separation import Held, in_own_process
from cohabit.app.serve.serving import ServeConfig, Service
from cohabit.backend.local.nodes import VirtualNodes
from cohabit.backend.protocol import Launch
from cohabit.core.core import SchedulerCore
from cohabit.core.known_programs import all_known
from cohabit.live.controller.runs_as import LauncherConfig
from cohabit.model.errors import InputError
from cohabit.model.job import Job
from cohabit.model.profile import Profile
from cohabit.model.units import SECOND
from cohabit.store.json_form import write_json

LOOK_S = 0.1
Beside = Callable[[], AbstractContextManager[None]]  # what goes on while the jobs of a round run
LEARNING = PolicyConfig(name="cohabit", unknown="alone", scales=[1])


class Here:
    """This machine as some nodes."""

    def __init__(
        self, folder: Path, nodes: int, say: Say, from_nothing: bool = False, telemetry: TelemetryConfig | None = None
    ) -> None:
        self.from_nothing, self.telemetry = from_nothing, telemetry
        self.tallies: dict[str, dict[str, int]] = {}  # of the gates of the last round, by gate
        self.folder, self.nodes, self.say = folder, nodes, say
        group = VirtualNodes(nodes).cluster().groups[0]
        self.node_cores, self.cores = group.cores, group.cores * nodes
        self.most_copies = self.cores
        self.profiles = folder / "profiles.json"

    @property
    def words(self) -> str:
        """Return what it is."""
        return f"this machine as {self.nodes} nodes of {self.node_cores} cores"

    @contextmanager
    def prepared(self, kinds: Sequence[Kind]) -> Iterator[None]:
        """Learn the kinds."""
        if self.from_nothing:
            yield
            return
        runs = sum(2 * one.seconds for one in kinds)
        self.say(f"learning {len(kinds)} kinds of jobs, each alone, about {runs:.0f} s ...")
        jobs = [
            TrialJob(f"{one.name}-{turn}", one, 0.0, max(60.0, 10 * one.seconds)) for one in kinds for turn in range(2)
        ]
        found = self._serve("learning", LEARNING, jobs)
        write_json(msgspec.convert(found["profiles"], list[Profile]), self.profiles)
        self.profiles.chmod(0o644)
        yield

    def run(
        self, label: str, policy: PolicyConfig, jobs: Sequence[TrialJob], beside: Beside = nullcontext
    ) -> list[Ran]:
        """Run a round under one policy; `beside` is entered when the first job is submitted."""
        found = self._serve(label, policy, jobs, beside)
        self.tallies = found["tallies"]
        return [Ran(*one) for one in found["ran"]]

    def _serve(
        self, label: str, policy: PolicyConfig, jobs: Sequence[TrialJob], beside: Beside = nullcontext
    ) -> dict[str, Any]:
        known = str(self.profiles) if self.profiles.exists() else ""
        config = ServeConfig(
            self.folder / label,
            self.nodes,
            policy,
            profiling=ProfilingConfig(profiles=known),
            launcher=LauncherConfig(uids=(os.geteuid(),)),
            telemetry=self.telemetry,
        )

        def work(held: Held | None) -> dict[str, Any]:
            return asyncio.run(_round(config, held, jobs, beside))

        found: dict[str, Any] = in_own_process(config, lambda _: None, work)
        if found["bad"]:
            raise InputError(f"job {found['bad'][0]}", f"trial, {label}", "run its command by hand")
        return found


async def _round(config: ServeConfig, held: Held | None, jobs: Sequence[TrialJob], beside: Beside) -> dict[str, Any]:
    """Submit every job when it is due; return what is known when the last has ended."""
    service = Service(config, held)
    await service.open()
    uid = -1 if held is None else 0
    environment = {key: os.environ[key] for key in ("HOME", "PATH", "PYTHONPATH", "COHABIT_CACHE") if key in os.environ}
    try:
        if config.telemetry is not None:
            await asyncio.sleep(config.telemetry.window_s + 2 * config.telemetry.every_s)  # until a window has come
        with beside():
            await _ran(service, jobs, environment, uid)
        listed = (await service.controller.page(state="all", limit=len(jobs) + 1)).jobs
        known = await service.controller.ask(lambda core: list(all_known(core.state).values()))
        profiles = [msgspec.to_builtins(one) for by_size in known for one in by_size.values()]
        tallies = await service.controller.ask(_tallies)
    finally:
        await service.close()
    bad = [f"{one.record.job_id} ended as {one.state}" for one in listed if one.state != "done"]
    records = {one.record.job_id: one.record for one in listed}
    ended = [] if bad else [records[one.name] for one in jobs]
    ran = [tuple(us / SECOND for us in (one.submit_us, one.start_us, one.end_us)) for one in ended]
    return {"bad": bad, "ran": ran, "profiles": profiles, "tallies": tallies}


async def _ran(service: Service, jobs: Sequence[TrialJob], environment: dict[str, str], uid: int) -> None:
    """Submit every job when it is due, and wait for the last to end."""
    began_s, pages = time.monotonic(), service.controller.page
    for one in jobs:
        await asyncio.sleep(max(0.0, one.submit_s - (time.monotonic() - began_s)))
        kind, limit_us = one.kind, round(one.limit_s * SECOND)
        job = Job(one.name, limit_us, kind.cores, program=kind.name, workload_type=kind.workload_type)
        await service.controller.submit(job, Launch(kind.command, environment, uid=uid))
    while (await pages(state="queued", limit=1)).jobs or (await pages(state="running", limit=1)).jobs:
        await asyncio.sleep(LOOK_S)


def _tallies(core: SchedulerCore) -> dict[str, dict[str, int]]:
    """Return what the gates have counted."""
    remembered = {gate.name: core.state.memory.get(gate.name, {}) for gate in core.policies.gates}
    return {name: {key: n for key, n in memory.items() if isinstance(n, int)} for name, memory in remembered.items()}
