"""Random scenes of two and three domains, each from its seed. Times are in milliseconds, so that no two things of
different domains happen in one instant by chance: what comes first then is nobody's promise."""

from __future__ import annotations

import random
import string

from tests.mates_conformance.scene import Domain, Job, Scene, Trouble

NAMES = ("alpha", "beta", "gamma")
SPAN_S = 1800.0  # in which jobs are submitted
SCHEMES = ("hold", "hold", "yield", "yield", "agree")


def random_scene(seed: int) -> Scene:
    """A scene; the same for the same seed."""
    chance = random.Random(seed)
    domains = tuple(_domain(chance, name) for name in NAMES[: chance.choice((2, 2, 3))])
    jobs = [_job(chance, one, f"{one.name[0]}{number}") for one in domains for number in range(chance.randint(3, 9))]
    for group in string.ascii_uppercase[: chance.randint(1, 5)]:
        near_s = _instant(chance, SPAN_S)
        members = domains if len(domains) == 2 or chance.random() < 0.5 else chance.sample(domains, 2)
        jobs += [_job(chance, one, f"{group}{one.name[0]}", group, near_s) for one in members]
    cancelled = [job for job in jobs if chance.random() < 0.04]
    trouble = [Trouble("cancel", job.domain, job.submit_s + _instant(chance, 900.0), job.name) for job in cancelled]
    jobs.sort(key=lambda job: job.submit_s)
    return Scene(f"random scene {seed}", domains, tuple(jobs), tuple(trouble), as_live=True)


def _domain(chance: random.Random, name: str) -> Domain:
    return Domain(
        name,
        chance.randint(4, 16),
        chance.choice(SCHEMES),
        release_s=chance.choice((300.0, 600.0, 1200.0)),
        min_hold_s=chance.choice((0.0, 60.0, 250.0)),
        max_held=chance.choice((1.0, 1.0, 1.0, 0.5)),
        max_yields=chance.choice((0, 0, 1, 3)),
        on_deadlock=chance.choice(("release", "release", "report", "ignore")),
        clock_offset_s=chance.choice((0.0, 0.0, 0.0, 12.345, -4321.098)),
    )


def _job(chance: random.Random, domain: Domain, name: str, group: str = "", near_s: float | None = None) -> Job:
    submit_s = _instant(chance, SPAN_S) if near_s is None else near_s + _instant(chance, 120.0)
    limit_s = float(chance.randint(60, 900))
    run_s = round(limit_s * chance.uniform(0.2, 1.1), 3)
    most = domain.nodes if chance.random() < 0.2 else max(domain.nodes // 2, 1)
    return Job(name, domain.name, round(submit_s, 3), chance.randint(1, most), run_s, limit_s, group)


def _instant(chance: random.Random, most_s: float) -> float:
    return round(chance.uniform(0.0, most_s), 3)
