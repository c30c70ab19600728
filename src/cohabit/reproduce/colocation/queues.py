"""Queues of 50 programs under every policy, through the scheduler: random ones (I23), and queues whose neighbours
slow each other not at all, somewhat or badly (I22). Nothing here judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.model.mix import Floats, Ints
from cohabit.model.profile import Profile
from cohabit.policy.degradation import KnownPairs, PredictedPairs
from cohabit.predict.estimators import FOREST, MLP
from cohabit.reproduce.colocation.lab import Bench, Outcome, Policy, bench_of, measure, profiles, run_queue
from cohabit.reproduce.colocation.models import blind_answers, data_of, score_of, trained
from cohabit.sim.streams import stream

RANDOM = "random"
LOW, MEDIUM, HIGH = LEVELS = ("low", "medium", "high")
NOISE_PCT = 4.5  # times of repeated runs deviate by up to this much: below it a degradation counts as 0 %
BREAK_EVEN_PCT = 100.0
FIFO, SHARED, INTENSITY = "fifo", "fifo-shared", "distributed-intensity"
METHODS = ("greedy", "optimal", "saving")
ORACLE, THRESHOLD_0 = "oracle", f"{FOREST} threshold-0"
MODEL = f"{FOREST} optimal"  # the paper's own combination
REFILL = "refill"  # at the end of a policy's name: jobs that wait may join one whose partner has ended
Queue = dict[str, Any]  # policy -> result


@dataclass(frozen=True)
class Work:
    """Queues of one set of programs; policies have names such as "fifo" and "oracle saving"."""

    bench: Bench
    seed: int
    number: int
    levels: tuple[tuple[str, int, tuple[str, ...]], ...]  # level (or "random"), number of queues, policies
    jobs: int
    trees: int
    searching: bool
    blind: bool = False  # whether the blind scores of the models are computed too
    others: tuple[tuple[str, Policy], ...] = ()  # further policies by the names they have in `levels`


EVERY = (
    FIFO,
    SHARED,
    INTENSITY,
    *(f"{source} {method}" for source in (FOREST, ORACLE) for method in METHODS),
    f"{MLP} greedy",
    f"{MLP} optimal",
    THRESHOLD_0,
    f"{FOREST} optimal {REFILL}",
    f"{FOREST} saving {REFILL}",
)
MAIN = (FIFO, SHARED, INTENSITY, MODEL)
BY_LEVEL = (FIFO, SHARED, MODEL, f"{MLP} optimal", f"{FOREST} saving", f"{ORACLE} optimal")


def run_set(work: Work) -> dict[str, Any]:
    """All queues by level; an empty list where no queue of that level can be made of these programs."""
    bench = bench_of(work.bench)
    known = measure(bench, work.seed + work.number)
    told = profiles(bench, known)
    learn, asked = data_of(bench, known)
    others = dict(work.others)
    sources: dict[str, Any] = {ORACLE: KnownPairs(bench.names, bench.degradations)}
    found: dict[str, Any] = {}
    for kind in (FOREST, MLP):
        if work.blind or any(kind in policy for _, _, policies in work.levels for policy in policies):
            model = trained(learn, kind, work.seed, work.trees, work.searching)
            sources[kind] = PredictedPairs(model)
            found[f"blind {kind}"] = score_of(blind_answers(model, learn, asked)) if work.blind else None
    for level, count, policies in work.levels:
        queues = [
            _queue(bench, level, work.jobs, stream(work.seed, f"queue {level} {work.number} {number}"))
            for number in range(count)
        ]
        chosen = {name: others[name] if name in others else _policy(name, sources) for name in policies}
        found[level] = [_under_all(bench, places, chosen, told) for places in queues if places is not None]
    return found


def _under_all(bench: Bench, places: Ints, policies: Mapping[str, Policy], told: Sequence[Profile]) -> Queue:
    outcomes = {name: run_queue(bench, places, one, told) for name, one in policies.items()}
    return {name: _figures(one, outcomes[FIFO]) for name, one in outcomes.items()}


def _queue(bench: Bench, level: str, jobs: int, rng: np.random.Generator) -> Ints | None:
    if level == RANDOM:
        return rng.integers(0, len(bench.names), jobs)
    return levelled(bench.degradations, level, jobs, rng)


def allowed(degradations: Floats, level: str) -> NDArray[np.bool_]:
    """Return which jobs may be neighbours in a queue of this level, by the larger of their mutual slowdowns (N15)."""
    weight = np.maximum(degradations, degradations.T)
    low, high = weight <= NOISE_PCT, weight > BREAK_EVEN_PCT
    return {LOW: low, MEDIUM: ~low & ~high, HIGH: high}[level]


def levelled(degradations: Floats, level: str, jobs: int, rng: np.random.Generator) -> Ints | None:
    """Return random programs of which all neighbours have the level; None where no two programs have it."""
    able = allowed(degradations, level)
    starts = np.flatnonzero(able.any(axis=1))
    if not len(starts):
        return None
    places = [int(rng.choice(starts))]
    while len(places) < jobs:
        places.append(int(rng.choice(np.flatnonzero(able[places[-1]]))))
    return np.array(places)


def _policy(name: str, sources: dict[str, Any]) -> Policy:
    if name in (FIFO, SHARED, INTENSITY):
        return Policy(name)
    if name == THRESHOLD_0:
        return Policy("pair-optimal", sources[FOREST], 0.0)
    source, method, *refill = name.split()
    return Policy(f"pair-{method}", sources[source], refill=refill == [REFILL])


def _figures(one: Outcome, fifo: Outcome) -> dict[str, float]:
    """Return figures relative to FIFO, in percent; `x` is the ratio itself."""
    assert one.finished, "a job of the queue did not run to its end"
    own, alone = one.turnaround_s, fifo.turnaround_s
    return {
        "x": one.makespan_s / fifo.makespan_s,
        "pct": 100.0 * (one.makespan_s / fifo.makespan_s - 1.0),
        "turnaround_pct": 100.0 * (float(own.mean()) / float(alone.mean()) - 1.0),
        "p95_pct": 100.0 * (float(np.quantile(own, 0.95)) / float(np.quantile(alone, 0.95)) - 1.0),
        "pairs": float(one.together),
        "slowed_pct": one.slowed_pct,
        "makespan_s": one.makespan_s,
    }
