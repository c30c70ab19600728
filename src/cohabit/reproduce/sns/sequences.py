"""Experiments 4 and 5 (Fig. 14 to 16): random sequences of 20 jobs on 8 nodes under CE, CS and SNS.

A set is 36 sequences from one seed, as many as the paper has. All strategies see the same jobs, all submitted at once.
The fair baseline, CE with EASY backfilling, runs beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cohabit.model.profile import Profile
from cohabit.report.paper_metrics import alpha_violations, geometric_mean, normalised_run_time, throughput_per_s
from cohabit.reproduce.sns.lab import PLAIN, Bench, Conditions, Floats, Strategy, Times, simulate, times_of
from cohabit.reproduce.sns.plan import Plan
from cohabit.reproduce.tasks import Task
from cohabit.sim.streams import stream
from cohabit.trace.mix import generate_sequence, scaling_ratio

CHUNK = 6  # sequences in one task
STRATEGIES = ("ce", "cs", "sns")
RATIOS = (0.4, 0.8)  # S53
VIOLATION = 1.1  # S68


@dataclass(frozen=True)
class Sequence20:
    """One sequence: its scaling ratio, and its result under every strategy."""

    ratio: float
    times: dict[str, Times]

    @cached_property
    def _throughputs(self) -> dict[str, float]:
        return {name: throughput_per_s(one.turnaround_s) or 0.0 for name, one in self.times.items()}

    @cached_property
    def _run_times(self) -> dict[str, Floats]:
        return {name: normalised_run_time(one.run_s, self.times["ce"].run_s) for name, one in self.times.items()}

    @cached_property
    def _mean_run_times(self) -> dict[str, float]:
        return {name: geometric_mean(each) or 0.0 for name, each in self._run_times.items()}

    def throughput(self, strategy: str) -> float:
        """S64."""
        return self._throughputs[strategy]

    def gain_pct(self, strategy: str, over: str = "ce") -> float:
        """Throughput of one strategy over another's, in percent."""
        return 100 * (self.throughput(strategy) / self.throughput(over) - 1)

    def run_times(self, strategy: str) -> Floats:
        """S65: run times against CE, job by job."""
        return self._run_times[strategy]

    def mean_run_time(self, strategy: str) -> float:
        """S65: their geometric mean."""
        return self._mean_run_times[strategy]

    def makespan_s(self, strategy: str) -> float:
        """From the common submission to the last end."""
        return float(self.times[strategy].turnaround_s.max())

    @cached_property
    def _violations(self) -> dict[str, int]:
        alone = self.times["ce"].run_s
        return {name: int(alpha_violations(one.run_s, alone).sum()) for name, one in self.times.items()}

    def violations(self, strategy: str = "sns") -> int:
        """S68: jobs beyond 1.1 times their CE run."""
        return self._violations[strategy]

    def excesses_pct(self) -> Floats:
        """Return the excess of each violation over 1.1 times CE (N16)."""
        ratios = self.run_times("sns")
        return 100 * (ratios[ratios > VIOLATION] / VIOLATION - 1)


Sequences = Sequence[Sequence20]
Statistic = Callable[[Sequences], float | None]


def run_sequences(
    bench: Bench,
    seed: int,
    set_number: int,
    numbers: Sequence[int],
    jobs: int,
    strategies: Sequence[str | Strategy] = STRATEGIES,
    conditions: Conditions = PLAIN,
    profiles: tuple[Profile, ...] | None = None,
) -> list[Sequence20]:
    """These sequences of a set; runs in a worker."""
    found = []
    for number in numbers:
        rng = stream(seed, f"sequence {number} of set {set_number}")
        workload = generate_sequence(rng, bench.programs, jobs, ratio=RATIOS, nodes=8)
        world_seed = int(stream(seed, f"world {number} of set {set_number}").integers(0, 2**40))
        times = {
            one if isinstance(one, str) else one.name: times_of(
                simulate(bench, one, workload, conditions, seed=world_seed, profiles=profiles)
            )
            for one in strategies
        }
        assert all(one.finished for one in times.values()), "a job did not finish"
        found.append(Sequence20(scaling_ratio(workload, bench.programs, bench.node), times))
    return found


def tasks(
    plan: Plan,
    name: str,
    sets: int,
    count: int,
    strategies: Sequence[str] = STRATEGIES,
    conditions: Conditions = PLAIN,
) -> list[Task]:
    """Return the sets of a plan, `count` sequences each; `name` is the key of the answers."""
    benches = [plan.bench] * sets
    return chunked(name, benches, count, plan.sizes.jobs, plan.seed("sequences"), strategies, conditions)


def chunked(
    name: str,
    benches: Sequence[Bench],
    count: int,
    jobs: int,
    seed: int,
    strategies: Sequence[str | Strategy],
    conditions: Conditions,
    run_s: float = 0.1,
) -> list[Task]:
    """Return one set of `count` sequences per bench, in chunks; `run_s`: roughly what one run costs."""
    found = []
    for number, bench in enumerate(benches):
        for first in range(0, count, CHUNK):
            numbers = list(range(first, min(first + CHUNK, count)))
            arguments = {
                "bench": bench,
                "seed": seed,
                "set_number": number,
                "numbers": numbers,
                "jobs": jobs,
                "strategies": strategies,
                "conditions": conditions,
            }
            cost = run_s * len(numbers) * len(strategies) * (2.0 if conditions.phases else 1.0)
            found.append(Task(f"{name} {number}.{first}", run_sequences, arguments, cost))
    return found


def gathered(name: str, results: dict[str, list[Sequence20]]) -> list[list[Sequence20]]:
    """The sets of that name, in order."""
    sets: dict[int, dict[int, list[Sequence20]]] = {}
    for key, answer in results.items():
        if key.startswith(name + " "):
            number, first = key.removeprefix(name + " ").split(".")
            sets.setdefault(int(number), {})[int(first)] = answer
    return [[one for first in sorted(chunks) for one in chunks[first]] for _, chunks in sorted(sets.items())]


# ---- statistics of one set ------------------------------------------------------------------------------------------


def mean_gain(strategy: str, over: str = "ce") -> Statistic:
    """Mean throughput gain, in percent."""
    return lambda members: sum(one.gain_pct(strategy, over) for one in members) / len(members)


def extreme_gain(strategy: str, over: str = "ce", largest: bool = True) -> Statistic:
    """The largest or the smallest gain."""
    return lambda members: float((max if largest else min)(one.gain_pct(strategy, over) for one in members))


def count_of_36(test: Callable[[Sequence20], bool]) -> Statistic:
    """Return the number of sequences that meet a condition, scaled to 36."""
    return lambda members: 36 * sum(map(test, members)) / len(members)


def mean_gain_where(test: Callable[[Sequence20], bool], strategy: str, over: str) -> Statistic:
    """Return the mean gain over the sequences that meet a condition; None if there are none."""

    def statistic(members: Sequences) -> float | None:
        gains = [one.gain_pct(strategy, over) for one in members if test(one)]
        return float(np.mean(gains)) if gains else None

    return statistic


def violations_of_720(members: Sequences) -> float:
    """Return the number of jobs beyond 1.1 times CE, scaled to 720."""
    jobs = sum(len(one.times["sns"].run_s) for one in members)
    return 720 * sum(one.violations() for one in members) / jobs


def beats_cs(one: Sequence20) -> bool:
    """Return whether SNS has the higher throughput."""
    return one.throughput("sns") > one.throughput("cs")
