"""Play a scene on live controllers: their journals, loops and dispatchers, signed messages over HTTP between them, site
files as users write them. Only the clock (leaping.py) and the nodes (machines.py) are the scene's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path

from cohabit.app.serve.serving import policies_of
from cohabit.app.serve.site_file import Site, read_site
from cohabit.app.steer.service import Neighbours
from cohabit.backend.protocol import Launch
from cohabit.live.controller import controller as controllers
from cohabit.live.controller.clock import BootClock, Epoch
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.journal import Journal, open_journal
from cohabit.live.controller.recovery import restore
from cohabit.live.controller.refusals import WrongState
from cohabit.live.peers.keys import write_new_key
from cohabit.model import codec
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import HoldJob
from cohabit.model.errors import InputError
from cohabit.model.job import Job as Submitted
from cohabit.model.peer import Message
from tests.mates_conformance.leaping import LeapingLoop, leap, owner
from tests.mates_conformance.machines import Machines
from tests.mates_conformance.scene import Course, Domain, Played, Scene
from tests.mates_conformance.simulated import settings
from tests.ports import free_ports

BASE_US = 20_000 * 86_400 * 1_000_000  # midnight: releases fall into the same instants as on a simulated clock
OVER = ("done", "failed", "killed", "cancelled", "lost")
LOOK_S = 60.0  # how often it is asked whether all jobs are over
ROOM_S = 3600.0  # between two looks at the disk: no scene is about full disks


class SceneClock(BootClock):
    """The loop's time, from midnight on, `ahead_us` of true time."""

    def __init__(self, loop: LeapingLoop, ahead_us: int, same: bool) -> None:
        super().__init__(Epoch("scene", ahead_us), same)
        self._loop = loop

    def now_us(self) -> int:
        """Return the present instant."""
        return self.epoch.base_us + round(self._loop.time() * 1e6)


class LiveDomain:
    """One domain: what survives its controller, and its controller."""

    def __init__(self, loop: LeapingLoop, scene: Scene, domain: Domain, site: Path) -> None:
        self.loop, self.scene, self.domain, self.path = loop, scene, domain, site
        self.ahead_us = BASE_US + round(domain.clock_offset_s * 1e6)
        jobs = {job.name: job for job in scene.jobs if job.domain == domain.name}
        mine = [one for one in scene.trouble if one.domain == domain.name]
        refuse = {one.job: one.at_s for one in mine if one.what == "refuse"}
        self.machines = Machines(jobs, refuse, self.ahead_us)
        self.alive = asyncio.Event()
        self.posted = 0
        self.controller: Controller
        self.journal: Journal
        self.neighbours: Neighbours
        self.site: Site

    async def open(self) -> None:
        """Begin, or begin again: from its site file and its journal."""
        owner.set(self.domain.name)
        self.site = read_site(self.path)
        config = self.site.config
        policies = policies_of(config)
        cluster = Cluster((NodeGroup(self.domain.nodes, 1),))
        self.journal = open_journal(config.place / "journal.sqlite")
        restored = restore(self.journal, cluster, policies)
        clock = SceneClock(self.loop, self.ahead_us, not restored.fresh)
        self.posted = 0
        self.neighbours = Neighbours(config, lambda message: self.controller.hear(message))
        self.controller = Controller(self.journal, restored, clock, self.machines.reconnect(), self._post)
        await self.neighbours.links.open()
        await self.controller.start()
        await self.neighbours.listen()
        self.alive.set()

    async def die(self) -> None:
        """Stop in the middle; nobody is told, no checkpoint is written."""
        self.alive.clear()
        await self.neighbours.close()
        await asyncio.gather(*self.loop.kill(self.domain.name), return_exceptions=True)
        self.journal.close()

    async def close(self) -> None:
        """Stop in good order."""
        await self.controller.stop()
        await self.neighbours.close()

    def under_way(self) -> bool:
        """Whether a message has not arrived yet."""
        if not self.alive.is_set():
            return False
        return self.posted > sum(sent + dropped for sent, dropped, _ in self.neighbours.links.standing().values())

    async def demand(self, what: Callable[[], Awaitable[None]]) -> None:
        """As a user who tries again when the controller is back."""
        await self.alive.wait()
        await what()

    def submission(self, name: str) -> tuple[Submitted, Launch]:
        """A job of the site file."""
        return next((job, launch) for job, launch in self.site.jobs if job.job_id == name)

    def _post(self, domain: str, message: Message) -> None:
        self.posted += 1
        self.neighbours.links.post(domain, message)


def write_sites(scene: Scene, folder: Path) -> dict[str, Path]:
    """The site files of all domains."""
    ports = dict(zip((one.name for one in scene.domains), free_ports(len(scene.domains)), strict=True))
    write_new_key(folder / "key")
    paths = {}
    for domain in scene.domains:
        path = folder / domain.name / "site.toml"
        path.parent.mkdir()
        path.write_text("\n".join(_site(scene, domain, ports)) + "\n")
        paths[domain.name] = path
    return paths


def _site(scene: Scene, domain: Domain, ports: dict[str, int]) -> list[str]:
    own = asdict(domain) | {"nodes": None, "clock_offset_s": None, "listen": f"127.0.0.1:{ports[domain.name]}"}
    lines = [f"nodes = {domain.nodes}", "[policy]", f'name = "{scene.policy}"', "[domain]", *settings(own)]
    for other in scene.domains:
        if other is not domain:
            url = f"http://127.0.0.1:{ports[other.name]}"
            lines += [f"[peer.{other.name}]", f'url = "{url}"', 'key = "../key"']
    for group, members in scene.groups.items():
        names = {name: job.name for name, job in members.items()}
        if domain.name not in names:
            continue
        lines += [f"[group.{group}]", *settings(asdict(scene.terms))]
        lines += [f"members = {{ {', '.join(f'{one} = {json.dumps(job)}' for one, job in names.items())} }}"]
        for window in scene.windows:
            if {window.first, window.second} <= set(names):
                lines += [f"[[group.{group}.window]]", *settings(asdict(window))]
    for job in scene.jobs:
        if job.domain == domain.name:
            about = {"name": job.name, "limit": f"{job.limit_s}s", "nodes": job.nodes, "processes": job.nodes}
            lines += ["[[job]]", *settings(about | {"group": job.group or None}), 'command = ["true"]']
    return lines


def play_live(scene: Scene, folder: Path) -> Played:
    """What happens under live controllers."""
    room_s, controllers.ROOM_S = controllers.ROOM_S, ROOM_S
    try:
        return leap(lambda loop: _played(loop, scene, folder))
    finally:
        controllers.ROOM_S = room_s


async def _played(loop: LeapingLoop, scene: Scene, folder: Path) -> Played:
    sites = write_sites(scene, folder)
    domains = {one.name: LiveDomain(loop, scene, one, sites[one.name]) for one in scene.domains}
    played, named = Played({}), _Named(loop, domains)
    loop.under_way = lambda: any(one.under_way() for one in domains.values())
    log = logging.getLogger(controllers.__name__)
    log.addHandler(named)
    try:
        for one in domains.values():
            await asyncio.create_task(one.open())
        acts = _acts(scene, domains)
        began = [asyncio.create_task(_at(at_s, act)) for at_s, act in acts]
        last_s = max(at_s for at_s, _ in acts)
        while loop.time() < scene.until_s and not (loop.time() > last_s and await _all_over(domains)):
            await asyncio.sleep(LOOK_S)
        for task in began:
            await task
        for one in domains.values():
            played.courses |= await _courses(one)
        for one in domains.values():
            await one.close()
    finally:
        log.removeHandler(named)
    for one in domains.values():
        for name, ready_s in _ready(one).items():
            played.courses[name].ready_s = ready_s
    played.deadlocks = named.found
    return played


def _acts(scene: Scene, domains: dict[str, LiveDomain]) -> list[tuple[float, Callable[[], Awaitable[None]]]]:
    """Who does what, and when."""
    acts: list[tuple[float, Callable[[], Awaitable[None]]]] = []
    for job in scene.jobs:
        here = domains[job.domain]
        acts.append((job.submit_s, lambda here=here, name=job.name: here.demand(lambda: _submit(here, name))))  # type: ignore[misc]
    for one in scene.trouble:
        here = domains[one.domain]
        if one.what == "cancel":
            acts.append((one.at_s, lambda here=here, one=one: here.demand(lambda: _cancel(here, one.job))))  # type: ignore[misc]
        elif one.until_s is not None:
            acts += [(one.at_s, here.die), (one.until_s, lambda here=here: asyncio.create_task(here.open()))]  # type: ignore[misc]
    return acts


async def _submit(here: LiveDomain, name: str) -> None:
    await here.controller.submit(*here.submission(name))


async def _cancel(here: LiveDomain, name: str) -> None:
    with contextlib.suppress(WrongState):  # it is over: as the owner is told
        await here.controller.cancel(name)


async def _at(at_s: float, act: Callable[[], Awaitable[None]]) -> None:
    await asyncio.sleep(at_s - asyncio.get_running_loop().time())
    try:
        await act()
    except InputError as error:
        raise AssertionError(f"at {at_s:g} s: {error}") from error


async def _all_over(domains: dict[str, LiveDomain]) -> bool:
    for one in domains.values():
        if not one.alive.is_set():
            return False
        names = [job.name for job in one.scene.jobs if job.domain == one.domain.name]
        states = await one.controller.states(names)
        if any(states.get(name) not in OVER for name in names):
            return False
    return True


async def _courses(one: LiveDomain) -> dict[str, Course]:
    """What its nodes did, and what its controller says of it."""
    names = [job.name for job in one.scene.jobs if job.domain == one.domain.name]
    states = await one.controller.states(names)
    found = {}
    for name in names:
        runs = [run for run in one.machines.runs.values() if run.job == name and run.status != "stopped"]
        state = states.get(name, "waiting")
        course = Course(status=state if state in OVER or state == "running" else "waiting")
        if runs:
            course.start_s, course.end_s = runs[-1].start_s, runs[-1].end_s
        found[name] = course
    return found


def _ready(one: LiveDomain) -> dict[str, float]:
    """When its core first kept nodes for a job with mates, by its journal; else when it started."""
    journal, found = open_journal(one.site.config.place / "journal.sqlite"), {}
    for batch in journal.batches(after=0):
        for command in codec.decode_commands(batch.commands or codec.encode([])):
            if isinstance(command, HoldJob):
                found.setdefault(command.job_id, (batch.now_us - one.ahead_us) / 1e6)
    journal.close()
    for run in one.machines.runs.values():
        if any(job.name == run.job and job.group for job in one.scene.jobs):
            found.setdefault(run.job, run.start_s)
    return found


class _Named(logging.Handler):
    """Keeps what the controllers log of deadlocks."""

    def __init__(self, loop: LeapingLoop, domains: dict[str, LiveDomain]) -> None:
        super().__init__(logging.WARNING)
        self._loop, self._domains = loop, domains
        self.found: list[tuple[float, str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line of the log."""
        text = record.getMessage()
        if text.startswith("deadlock between groups: "):
            self.found.append((self._loop.time(), owner.get(), text.partition(": ")[2]))
