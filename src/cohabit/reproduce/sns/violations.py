"""S57: how many jobs SNS slows beyond 1.1 times CE, and what causes it: phases, profile error, or neither."""

from __future__ import annotations

from typing import Any

import numpy as np

from cohabit.reproduce.rows import Expected, Row, expected, joined, row_over_sets
from cohabit.reproduce.sns import learning, sequences, throughput
from cohabit.reproduce.sns.lab import PROFILE_ERROR, ROUGH, Bench, Conditions
from cohabit.reproduce.sns.plan import FULL, Plan
from cohabit.reproduce.sns.sequences import Sequence20, Sequences, violations_of_720
from cohabit.reproduce.tasks import Task
from cohabit.sim.streams import stream

VARIANTS = {
    "phases_only": (Conditions(phases=True), "with phases and exact profiles"),
    "error_only": (Conditions(profile_noise=PROFILE_ERROR), "without phases but profiles off by 5 %"),
    "error_20": (Conditions(phases=True, profile_noise=0.2), "with phases and profiles off by 20 %"),
    "occupancy": (
        Conditions("occupancy", phases=True, profile_noise=PROFILE_ERROR),
        "with phases and 5 % error under the second contention model",
    ),
}
LEARNED = "learned_profiles"
SMALL = (
    "the simulated machine has no cause for larger ones: ways are divided, bandwidth is booked, and a burst is at most "
    "60 % above the mean; the test bed also had shared networks, daemons and framework overheads"
)


def tasks(plan: Plan) -> list[Task]:
    """Each cause alone; the plain and the rough world are run for throughput anyway."""
    sizes, bench, seed = plan.sizes, plan.bench, plan.seed("sequences")
    found = []
    for name, (conditions, _) in VARIANTS.items():
        found += sequences.tasks(
            f"violations {name}", bench, seed, 1, sizes.variant_sequences, sizes.jobs, ("ce", "sns"), conditions
        )
    for first in range(0, sizes.variant_sequences, sequences.CHUNK):
        numbers = list(range(first, min(first + sequences.CHUNK, sizes.variant_sequences)))
        arguments = {"bench": bench, "seed": seed, "numbers": numbers, "jobs": sizes.jobs}
        found.append(Task(f"violations {LEARNED} 0.{first}", with_learned_profiles, arguments, 2.0))
    return found


def with_learned_profiles(bench: Bench, seed: int, numbers: list[int], jobs: int) -> list[Sequence20]:
    """Sequences for a scheduler that profiled the programs itself, in a world with phases: biased by them."""
    profiles = learning.learned_profiles(bench, seed, ROUGH)
    return sequences.run_sequences(bench, seed, 0, numbers, jobs, ("ce", "sns"), ROUGH, profiles)


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """The paper's count, the same without each cause, and how far beyond."""
    rough = sequences.gathered(throughput.ROUGH_SETS, results)
    plain = sequences.gathered(throughput.PLAIN_SETS, results)
    variants = {name: sequences.gathered(f"violations {name}", results) for name in (*VARIANTS, LEARNED)}
    counts = {name: violations_of_720(sets[0]) for name, sets in variants.items()}
    off = float(np.mean([violations_of_720(members) for members in plain]))
    said = ", ".join(f"{_words(name)} {count:.0f}" for name, count in counts.items())
    size = plan.shortened(len(rough[0]), FULL.rough_sequences, "sequences of a set, counts as of 720 jobs")
    note = f"of 720 jobs: without phases and error {off:.0f}, {said}"
    found = [
        row_over_sets(expected("S57.violations_of_720"), rough, violations_of_720, _rng(plan, "v"), joined(note, size))
    ]
    found.append(
        row_over_sets(
            Expected("S57.violations_plain", "the same with phases and profile error off", None), plain,
            violations_of_720, _rng(plan, "plain"),
        )
    )  # fmt: skip
    for name, sets in variants.items():
        cut = plan.shortened(len(sets[0]), FULL.variant_sequences, "sequences, counts as of 720 jobs")
        about = Expected(f"S57.violations_{name}", f"SNS runs beyond 1.1x CE {_words(name)}")
        found.append(row_over_sets(about, sets, violations_of_720, _rng(plan, name), cut))
    found.append(
        row_over_sets(
            Expected("S57.mean_excess_pct", "mean excess of those runs over 1.1x CE", 28.3), rough, _mean_excess,
            _rng(plan, "mean"), joined("an excess is T / (1.1 T_CE) - 1 (N16)", SMALL, size),
        )
    )  # fmt: skip
    found.append(
        row_over_sets(
            Expected("S57.max_excess_pct", "largest excess of those runs over 1.1x CE", 125.9), rough, _max_excess,
            _rng(plan, "max"), size,
        )
    )  # fmt: skip
    return found


def _words(name: str) -> str:
    return VARIANTS[name][1] if name in VARIANTS else "with phases and profiles learned by the profiler itself"


def _excesses(members: Sequences) -> np.ndarray:
    return np.concatenate([one.excesses_pct() for one in members])


def _mean_excess(members: Sequences) -> float | None:
    found = _excesses(members)
    return float(found.mean()) if len(found) else None


def _max_excess(members: Sequences) -> float | None:
    found = _excesses(members)
    return float(found.max()) if len(found) else None


def _rng(plan: Plan, name: str) -> np.random.Generator:
    return stream(plan.seed("bootstrap"), f"violations {name}")
