"""Play a scene under real resource managers, at the pace of the wall clock: two Slurms, or a Slurm and a Grid Engine.

Their jobs are real programs that note when they begin and end. What the managers themselves need to start a job, and
how often they are asked, makes the grain of this clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.backend.coupled.sides import Side, couple, why
from tests.backend.slurm.steering import until
from tests.mates_conformance.scene import Course, Domain, Job, Played, Scene, Terms, Trouble
from tests.mates_conformance.simulated import settings

LEAD_S, LEASE_S = 1.0, 8.0
GRAIN_S = 15.0  # of two managers and a chain of two starts, on a machine that does much else
APART_S, INSTANT_S = 2.0, 4.0  # mates begin so near to each other; what is so near to each other may change places
NODES = 2  # of every manager of the fixtures
TERMS = Terms(lead_s=LEAD_S, lease_s=LEASE_S, ask_s=1.0, retry_s=2.0, dead_after_s=600.0, overlap_s=-1.0)
PATIENCE_S = 240.0
OWN_KEYS = ("scheme", "release_s", "min_hold_s", "max_held", "max_yields", "on_deadlock")


def scenes() -> list[Scene]:
    """What of the paper two nodes can show, in seconds. Real limits are ten minutes, so nothing is backfilled."""
    found = [_figure_2(), *(_combination(one, other) for one in ("hold", "yield") for other in ("hold", "yield"))]
    return [*found, _cancelled(), _dies()]


def _domains(**keys: object) -> tuple[Domain, Domain]:
    return Domain("alpha", NODES, **keys), Domain("beta", NODES, **keys)  # type: ignore[arg-type]


def _job(name: str, submit_s: float, nodes: int, run_s: float, group: str = "") -> Job:
    domain = {"a": "alpha", "b": "beta"}[name[0]]
    return Job(name, domain, submit_s, nodes, run_s, 600.0, group)


def _figure_2() -> Scene:
    jobs = (
        _job("a1", 0.0, 2, 20.0, "one"),
        _job("b2", 4.0, 2, 20.0, "two"),
        _job("a2", 8.0, 2, 20.0, "two"),
        _job("b1", 12.0, 2, 20.0, "one"),
    )
    domains = _domains(release_s=60.0, min_hold_s=30.0)
    starts = dict.fromkeys(("a1", "b1"), 12.0 + LEAD_S) | dict.fromkeys(("a2", "b2"), 32.0 + 2 * LEAD_S)
    return Scene("figure 2", domains, jobs, terms=TERMS, starts=starts, deadlock=True)


def _combination(alpha: str, beta: str) -> Scene:
    """As schemes.py has it: first alpha is ready and has another job, then beta."""
    jobs = (
        _job("bx", 0.0, 2, 25.0),
        _job("a1", 3.0, 1, 10.0, "one"),
        _job("b1", 6.0, 2, 10.0, "one"),
        _job("ac", 9.0, 2, 5.0),
        _job("ay", 60.0, 2, 25.0),
        _job("b2", 63.0, 1, 10.0, "two"),
        _job("a2", 66.0, 2, 10.0, "two"),
        _job("bd", 69.0, 2, 5.0),
    )
    starts: dict[str, float | None] = dict.fromkeys(("a1", "b1"), 25.0 + LEAD_S)
    starts |= dict.fromkeys(("a2", "b2"), 85.0 + LEAD_S)
    starts |= {"ac": 35.0 + LEAD_S if alpha == "hold" else 9.0, "bd": 95.0 + LEAD_S if beta == "hold" else 69.0}
    domains = Domain("alpha", NODES, alpha), Domain("beta", NODES, beta)
    return Scene(f"{alpha}/{beta}", domains, jobs, terms=TERMS, starts=starts)


def _cancelled() -> Scene:
    jobs = (_job("bx", 0.0, 2, 25.0), _job("a1", 3.0, 1, 10.0, "one"), _job("b1", 6.0, 2, 10.0, "one"))
    trouble = (Trouble("cancel", "beta", 12.0, "b1"),)
    return Scene("a mate is cancelled", _domains(), jobs, trouble, TERMS, starts={"a1": 12.0, "b1": None})


def _dies() -> Scene:
    """beta's controller is dead when b1 could start; its manager goes on."""
    jobs = (_job("bx", 0.0, 2, 15.0), _job("a1", 3.0, 1, 10.0, "one"), _job("b1", 6.0, 2, 10.0, "one"))
    trouble = (Trouble("dead", "beta", 11.0, until_s=45.0),)
    starts = {"a1": 45.0 + LEAD_S, "b1": 45.0 + LEAD_S}
    return Scene("a controller dies", _domains(), jobs, trouble, TERMS, starts=starts)


def play_managed(scene: Scene, sides: Sequence[Side], folder: Path, program: Path) -> tuple[Scene, Played]:
    """What happens, and the scene with the instants at which its acts were really done: a manager takes its time."""
    lines = ["\n".join(settings({key: getattr(one, key) for key in OWN_KEYS})) for one in scene.domains]
    couple(sides, folder / "key", LEASE_S, program, lines)
    for side in sides:
        side.site.write_text(side.site.read_text().replace('name = "ce"', 'name = "ce-easy"'))
        side.attach()
    mark = {side.name: len((side.folder / "attach.log").read_text()) for side in sides}
    tag = f"{scene.name.replace(' ', '-').replace('/', '-')}-{time.time_ns() // 10**9}-"
    stage = _Stage({side.name: side for side in sides}, tag)
    done = stage.play(scene)
    waits = [job for job in scene.jobs if scene.starts.get(job.name, 0.0) is not None]
    here = {side.name: side for side in sides}
    until(lambda: all(here[job.domain].said(tag + job.name, "end") for job in waits), PATIENCE_S, why(list(sides)))
    played = Played({job.name: stage.course(job) for job in scene.jobs})
    for side in sides:
        said = (side.folder / "attach.log").read_text()[mark[side.name] :]
        if "deadlock between groups: " in said:
            played.deadlocks.append((0.0, side.name, said.partition("deadlock between groups: ")[2].splitlines()[0]))
    return done, played


class _Stage:
    """Does what the scene says, when it says so."""

    def __init__(self, sides: dict[str, Side], tag: str) -> None:
        self.sides, self.tag, self.numbers = sides, tag, dict[str, str]()
        self.began_s = time.time()

    def play(self, scene: Scene) -> Scene:
        """All acts, in their order; return the scene as it was done."""
        jobs, trouble = list(scene.jobs), list(scene.trouble)
        acts: list[tuple[float, Callable[[], None]]] = []
        for at, job in enumerate(jobs):
            acts.append((job.submit_s, lambda at=at, job=job: jobs.__setitem__(at, self._submit(job))))  # type: ignore[misc]
        for at, one in enumerate(trouble):
            side = self.sides[one.domain]
            if one.what == "cancel":
                acts.append((one.at_s, lambda side=side, one=one: side.cancel(self.numbers[one.job])))  # type: ignore[misc]
            elif one.until_s is not None:
                acts.append((one.at_s, lambda side=side: side.detach(hard=True)))  # type: ignore[misc]
                acts.append((one.until_s, lambda at=at, one=one: trouble.__setitem__(at, self._return(one))))  # type: ignore[misc]
        for at_s, act in sorted(acts, key=lambda act: act[0]):
            time.sleep(max(self.began_s + at_s - time.time(), 0.0))
            act()
        return replace(scene, jobs=tuple(jobs), trouble=tuple(trouble))

    def course(self, job: Job) -> Course:
        """What its program noted; only its last run counts."""
        said = {word: self.sides[job.domain].said(self.tag + job.name, word) for word in ("begin", "end")}
        if not said["end"]:
            return Course(status="cancelled")
        return Course(said["begin"][-1] - self.began_s, said["end"][-1] - self.began_s, status="done")

    def _submit(self, job: Job) -> Job:
        mates = self.tag + job.group if job.group else ""
        number = self.sides[job.domain].submit_job(self.tag + job.name, job.run_s, mates, job.nodes)
        self.numbers[job.name] = number
        return replace(job, submit_s=time.time() - self.began_s)

    def _return(self, one: Trouble) -> Trouble:
        self.sides[one.domain].attach()
        return replace(one, until_s=time.time() - self.began_s)
