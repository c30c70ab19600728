"""How much of everything is run: the paper's numbers with twenty seeds, or less of it where it must be quick."""

from __future__ import annotations

from dataclasses import dataclass

from cohabit.reproduce.papers import Options
from cohabit.reproduce.seeds import experiment_seed
from cohabit.reproduce.sns.lab import HIDDEN, Bench


@dataclass(frozen=True)
class Sizes:
    """Numbers of repeats."""

    sets: int = 20  # of sequences, each of the paper's size; one seed each
    sequences: int = 36
    jobs: int = 20
    rough_sequences: int = 36  # of each set, with phases and profile error, and in the other conditions
    occupancy_sequences: int = 36
    variant_sequences: int = 36  # of the first set only: single causes of violations, ablations
    balance: int = 20  # sequences whose bandwidth is recorded
    shuffles: int = 20  # orders of every mix of two programs
    learners: int = 20  # times the profiler starts from nothing
    trinity_jobs: int = 0  # of the trace; 0: all
    trinity_seeds: int = 20  # draws of programs for the jobs of the trace
    trinity_filters: tuple[str, ...] = ("cores", "nodes")
    sensitivity_sequences: int = 36


FULL = Sizes()
QUICK = Sizes(
    sets=1, occupancy_sequences=18, variant_sequences=9, balance=10, shuffles=4, learners=3, trinity_jobs=300,
    trinity_seeds=1, sensitivity_sequences=8,
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """One reproduction."""

    options: Options

    @property
    def sizes(self) -> Sizes:
        """How much."""
        if isinstance(self.options.sizes, Sizes):
            return self.options.sizes
        return QUICK if self.options.quick else FULL

    def seed(self, experiment: str) -> int:
        """The seed of an experiment."""
        return experiment_seed(self.options.seed, self.options.salt, f"sns/{experiment}")

    @property
    def bench(self) -> Bench:
        """The programs."""
        if self.options.programs == HIDDEN:
            return Bench(HIDDEN, self.seed("hidden programs"))
        return Bench()

    @property
    def hidden(self) -> bool:
        """Whether the programs are unknown ones."""
        return self.options.programs == HIDDEN

    def shortened(self, done: object, full: object, what: str) -> str:
        """What a note says of an experiment that was cut short."""
        return "" if done == full else f"quick: {done} instead of {full} {what}"
