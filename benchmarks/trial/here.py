"""A trial on this machine: the controller of `cohabit up`, its launcher and real processes.

Before the first round the controller learns every kind of job as it does on its own: under `cohabit` with
`unknown = "alone"` each runs alone twice, once for its time and once for its curves, as far as they can be counted.
All policies are given what was learned; `cs` and `ce-easy` make no use of it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.trial.work import Kind, Ran, Say, TrialJob
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.machine import ProfilingConfig
from cohabit.app.serve.separation import Held, in_own_process
from cohabit.app.serve.serving import ServeConfig, Service
from cohabit.backend.local.nodes import VirtualNodes
from cohabit.backend.protocol import Launch
from cohabit.core.known_programs import all_known
from cohabit.live.controller.runs_as import LauncherConfig
from cohabit.model.errors import InputError
from cohabit.model.job import Job
from cohabit.model.profile import Profile
from cohabit.model.units import SECOND
from cohabit.store.json_form import write_json

LOOK_S = 0.1
LEARNING = PolicyConfig(name="cohabit", unknown="alone", scales=[1])


class Here:
    """This machine as some nodes."""

    def __init__(self, folder: Path, nodes: int, say: Say, from_nothing: bool = False) -> None:
        self.from_nothing = from_nothing
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

    def run(self, label: str, policy: PolicyConfig, jobs: Sequence[TrialJob]) -> list[Ran]:
        """Run a round under one policy."""
        found = self._serve(label, policy, jobs)
        return [Ran(*one) for one in found["ran"]]

    def _serve(self, label: str, policy: PolicyConfig, jobs: Sequence[TrialJob]) -> dict[str, Any]:
        known = str(self.profiles) if self.profiles.exists() else ""
        config = ServeConfig(
            self.folder / label,
            self.nodes,
            policy,
            profiling=ProfilingConfig(profiles=known),
            launcher=LauncherConfig(uids=(os.geteuid(),)),
        )

        def work(held: Held | None) -> dict[str, Any]:
            return asyncio.run(_round(config, held, jobs))

        found: dict[str, Any] = in_own_process(config, lambda _: None, work)
        if found["bad"]:
            raise InputError(f"job {found['bad'][0]}", f"trial, {label}", "run its command by hand")
        return found


async def _round(config: ServeConfig, held: Held | None, jobs: Sequence[TrialJob]) -> dict[str, Any]:
    """Submit every job when it is due; return what is known when the last has ended."""
    service = Service(config, held)
    await service.open()
    uid = -1 if held is None else 0
    environment = {key: os.environ[key] for key in ("HOME", "PATH", "PYTHONPATH", "COHABIT_CACHE") if key in os.environ}
    try:
        began_s = time.monotonic()
        for one in jobs:
            await asyncio.sleep(max(0.0, one.submit_s - (time.monotonic() - began_s)))
            job = Job(one.name, round(one.limit_s * SECOND), one.kind.cores, program=one.kind.name)
            await service.controller.submit(job, Launch(one.kind.command, environment, uid=uid))
        while (await service.controller.page(state="queued", limit=1)).jobs or (
            await service.controller.page(state="running", limit=1)
        ).jobs:
            await asyncio.sleep(LOOK_S)
        listed = (await service.controller.page(state="all", limit=len(jobs) + 1)).jobs
        known = await service.controller.ask(lambda core: list(all_known(core.state).values()))
        profiles = [msgspec.to_builtins(one) for by_size in known for one in by_size.values()]
    finally:
        await service.close()
    bad = [f"{one.record.job_id} ended as {one.state}" for one in listed if one.state != "done"]
    records = [one.record for one in listed]
    ran = [tuple(us / SECOND for us in (one.submit_us, one.start_us, one.end_us)) for one in records if not bad]
    return {"bad": bad, "ran": ran, "profiles": profiles}
