"""Play a scene as `cohabit simulate` does: a scenario file with job tables, read, checked and run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from cohabit.app.scenario.reading import read_scenario
from cohabit.app.simulate.coupling import prepare_domains, run_domains
from cohabit.core.core import SchedulerCore
from cohabit.model.command import Command
from cohabit.model.event import Event
from cohabit.model.records import STATUS_NAMES, RunTable
from tests.mates_conformance.scene import Course, Domain, Played, Scene

WAITING = "still waiting"
LATENCY_S = 0.001


def write_scenario(scene: Scene, folder: Path) -> Path:
    """The scenario, as a user would write it."""
    often = ("ask_s", "retry_s")
    terms = {key: value for key, value in asdict(scene.terms).items() if scene.as_live or key not in often}
    terms |= {"latency_s": LATENCY_S} if scene.as_live else {}
    lines = ["[coupling]", *settings(terms)]
    for window in scene.windows:
        lines += ["[[coupling.window]]", *settings(asdict(window))]
    for domain in scene.domains:
        lines += ["[[domain]]", *settings(asdict(domain) | {"nodes": None}), f"cluster = {domain.nodes}"]
        lines += [f'jobs = "{domain.name}.csv"', f'policy = "{scene.policy}"']
        for trouble in scene.trouble:
            if trouble.domain == domain.name:
                said = {key: value for key, value in asdict(trouble).items() if value not in (None, "")}
                lines += ["[[domain.trouble]]", *settings(said | {"domain": None})]
        (folder / f"{domain.name}.csv").write_text(_table(scene, domain))
    path = folder / "scene.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def settings(table: dict[str, object]) -> list[str]:
    """Lines of TOML; without what is None."""
    return [f"{key} = {json.dumps(value)}" for key, value in table.items() if value is not None]


def _table(scene: Scene, domain: Domain) -> str:
    rows = [
        f"{job.name},,{job.nodes},{job.submit_s},{job.run_s},{job.limit_s},{job.group}"
        for job in scene.jobs
        if job.domain == domain.name
    ]
    return "\n".join(["job_id,program,processes,submit_s,run_s,limit_s,group", *rows]) + "\n"


def play_simulated(scene: Scene, folder: Path) -> Played:
    """What the simulator says will happen."""
    prepared = prepare_domains(read_scenario(write_scenario(scene, folder)))
    played = Played({})
    watched = {domain.name: _Watch(domain.name, played).look for domain in scene.domains}
    run = run_domains(prepared, observe=watched)
    for table in run.tables.values():
        played.courses |= _courses(table)
    return played


class _Watch:
    """Notes when a domain names a deadlock."""

    def __init__(self, domain: str, played: Played) -> None:
        self.domain, self.played, self.known = domain, played, ""

    def look(self, now_us: int, events: list[Event], commands: list[Command], core: SchedulerCore) -> None:
        """After every step of its core."""
        found = "" if core.state.coupled is None else core.state.coupled.deadlock
        if found and not self.known:
            self.played.deadlocks.append((now_us / 1e6, self.domain, found))
        self.known = found


def _courses(table: RunTable) -> dict[str, Course]:
    ready_s: Sequence[float] = table.workload.extra["first_ready_s"].tolist()
    found = {}
    for row, name in enumerate(table.workload.job_id.tolist()):
        status, reason = STATUS_NAMES[table.status[row]], table.reasons[table.reason[row]] if table.reasons else ""
        ran = table.start_us[row] >= 0 and table.nodes[row] > 0
        course = Course(status="waiting" if reason.startswith(WAITING) else status)
        if ran:
            course.start_s, course.end_s = float(table.start_us[row] / 1e6), float(table.end_us[row] / 1e6)
        course.ready_s = None if np.isnan(ready_s[row]) else float(ready_s[row])
        found[str(name)] = course
    return found
