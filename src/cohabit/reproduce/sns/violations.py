"""S57: how many jobs SNS slows beyond 1.1 times CE, and what causes it: phases, profile error, or neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cohabit.reproduce.rows import Row, joined, own, stated
from cohabit.reproduce.sns import learning, sequences, throughput
from cohabit.reproduce.sns.lab import PROFILE_ERROR, ROUGH, Bench, Conditions
from cohabit.reproduce.sns.plan import FULL, Plan
from cohabit.reproduce.sns.sequences import Sequence20, Sequences, Statistic, violations_of_720
from cohabit.reproduce.tasks import Task

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
        found += sequences.tasks(plan, f"violations {name}", 1, sizes.variant_sequences, ("ce", "sns"), conditions)
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
    plain_claim = own("S57.violations_plain", "the same with phases and profile error off", violations_of_720)
    found = [
        plan.measured(stated("S57.violations_of_720", violations_of_720), rough, note, size, stream_name=_stream("v")),
        plan.measured(plain_claim, plain, stream_name=_stream("plain")),
    ]
    for name, sets in variants.items():
        cut = plan.shortened(len(sets[0]), FULL.variant_sequences, "sequences, counts as of 720 jobs")
        claim = own(f"S57.violations_{name}", f"SNS runs beyond 1.1x CE {_words(name)}", violations_of_720)
        found.append(plan.measured(claim, sets, cut, stream_name=_stream(name)))
    beyond, formula = "excess of those runs over 1.1x CE", joined("an excess is T / (1.1 T_CE) - 1 (N16)", SMALL)
    mean = own("S57.mean_excess_pct", f"mean {beyond}", excess(np.mean), 28.3, note=formula)
    largest = own("S57.max_excess_pct", f"largest {beyond}", excess(np.max), 125.9)
    return [
        *found,
        plan.measured(mean, rough, size, stream_name=_stream("mean")),
        plan.measured(largest, rough, size, stream_name=_stream("max")),
    ]


def _words(name: str) -> str:
    return VARIANTS[name][1] if name in VARIANTS else "with phases and profiles learned by the profiler itself"


def _stream(name: str) -> str:
    return f"violations {name}"


def excess(reduce: Callable[..., Any]) -> Statistic:
    """Return the mean or the largest excess of a set; None where no run is beyond."""

    def statistic(members: Sequences) -> float | None:
        found = np.concatenate([one.excesses_pct() for one in members])
        return float(reduce(found)) if len(found) else None

    return statistic
