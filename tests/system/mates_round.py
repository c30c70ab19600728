"""Two controllers, two processes, real HTTP, a group of two real jobs; one controller may die at one boundary."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cohabit.app.serve.serving import verify_journal
from cohabit.live.controller.recovery import Verified
from cohabit.live.peers.keys import write_new_key
from cohabit.model.group import WAIT, Member, Terms, make_group
from cohabit.model.job import Job
from cohabit.model.units import SECOND
from tests.ports import free_ports
from tests.system.deadly_controller import Orders, config_of
from tests.system.deadly_rounds import (
    Controller,
    End,
    Nursery,
    Ran,
    doubled,
    ends_of,
    runs_of,
    sleeper,
    wait_for,
    well_ended,
)

DOMAINS = ("alpha", "beta")
RUN_S = 5.0  # more than twice the lease: who runs alone for longer than allowed must be seen
SLACK_US = SECOND  # from an order to the first line of a program, from the fuse to its last beat, on a busy machine
TERMS = Terms(
    lease_us=2 * SECOND, lead_us=SECOND // 2, late_us=SECOND // 5, round_trip_us=SECOND // 5, ask_us=SECOND // 2,
    retry_us=SECOND // 2, dead_after_us=600 * SECOND, when_dead=WAIT,
)  # fmt: skip


@dataclass
class Result:
    """What a round came to."""

    runs: dict[str, list[Ran]]  # by domain
    ends: dict[str, dict[tuple[str, int], End]]  # by domain
    starts: dict[str, int]  # how often each controller was started
    boundaries: dict[str, list[str]]  # those each of them passed
    replays: dict[str, Verified]  # of their journals

    @property
    def apart_us(self) -> int:
        """Between the first starts."""
        begins = [runs[0].begin_us for runs in self.runs.values()]
        return max(begins) - min(begins)


def play(
    nursery: Nursery,
    place: Path,
    die: tuple[str, str, int] | None = None,
    dead_s: float = 0.0,
    scheme: str = "hold",
    checkpoint_every: int = 2000,
    mutant: str = "",
) -> Result:
    """Both jobs to their end; `die`: (domain, kind of boundary, number). Asserts nothing but that it ends."""
    place.mkdir(parents=True, exist_ok=True)
    write_new_key(place / "key")
    log, ports = place / "log", dict(zip(DOMAINS, free_ports(2), strict=True))
    group = make_group("pair", [Member(name, f"job-{name}") for name in DOMAINS], TERMS)
    controllers = {}
    for name, other in (DOMAINS, DOMAINS[::-1]):
        job = Job(f"job-{name}", limit_us=60 * SECOND, nodes=1, mates=group)
        peers = {other: (f"http://127.0.0.1:{ports[other]}", str(place / "key"))}
        fate = die[1:] if die is not None and die[0] == name else None
        jobs = [(job, sleeper(log, RUN_S))]
        orders = Orders(str(place / name), 1, jobs, fate, name, ports[name], peers, scheme, checkpoint_every, mutant)
        controllers[name] = Controller(nursery, orders, dead_s)

    def over() -> bool:
        for controller in controllers.values():
            controller.keep_alive()
        return all(well_ended(place / name) for name in DOMAINS) and not left(place)

    try:
        assert wait_for(over, 180), said(place)
    finally:
        for controller in controllers.values():
            controller.kill()
    runs = runs_of(log)
    return Result(
        {name: runs.get(f"job-{name}", []) for name in DOMAINS},
        {name: ends_of(place / name) for name in DOMAINS},
        {name: controller.starts for name, controller in controllers.items()},
        {name: (place / name / "boundaries").read_text().splitlines() for name in DOMAINS},
        {name: replayed(place / name, name, scheme) for name in DOMAINS},
    )


def replayed(place: Path, name: str, scheme: str) -> Verified:
    """Whether the facts in a controller's journal lead to the orders written down beside them."""
    peers = {other: ("", "") for other in DOMAINS if other != name}
    return verify_journal(config_of(Orders(str(place), 1, domain=name, peers=peers, scheme=scheme)))


def broken(result: Result) -> list[str]:
    """Which promises a round broke."""
    found = [
        problem for name, runs in result.runs.items() if (problem := doubled(f"job-{name}", runs, result.ends[name]))
    ]
    for name, other in (DOMAINS, DOMAINS[::-1]):
        for run in result.runs[name]:
            alone = longest_alone_us(run, result.runs[other])
            if alone > TERMS.alone_us() + SLACK_US:
                found.append(f"{name} ran alone for {alone / SECOND:.2f} s")
    found += [f"{name}: replay differs: {one.difference}" for name, one in result.replays.items() if one.difference]
    bound = TERMS.apart_us() + SLACK_US
    pairs = [(one, two) for one in result.runs[DOMAINS[0]] for two in result.runs[DOMAINS[1]]]
    together = [pair for pair in pairs if abs(pair[0].begin_us - pair[1].begin_us) <= bound]
    if not any(one.whole or two.whole for one, two in together):
        found.append(f"no run that went to its end began together with its mate: {result.runs}")
    return found


def longest_alone_us(run: Ran, mates: list[Ran]) -> int:
    """The longest stretch of a run during which no mate ran and none had ended its whole run."""
    at_us, longest = run.begin_us, 0
    for mate in sorted(mates, key=lambda one: one.begin_us):
        if mate.last_us < at_us and not mate.whole:
            continue
        longest = max(longest, min(mate.begin_us, run.last_us) - at_us)
        at_us = max(at_us, run.last_us if mate.whole else mate.last_us)
    return max(longest, run.last_us - at_us)


def left(place: Path) -> list[str]:
    """Runs that are not settled."""
    return [
        name for domain in DOMAINS if (place / domain / "runs").exists() for name in os.listdir(place / domain / "runs")
    ]


def said(place: Path) -> str:
    """The ends of the controllers' logs, for whoever reads a failure."""
    return "\n".join(f"{name}:\n{(place / name / 'controller.log').read_text()[-2500:]}" for name in DOMAINS)
