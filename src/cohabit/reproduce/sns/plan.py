"""The sizes of a reproduction: the paper's numbers with twenty seeds, or less for a quick run."""

from __future__ import annotations

from dataclasses import dataclass

from cohabit.reproduce.plans import PlanOf
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
    sensitivity_sequences: int = 36


FULL = Sizes()
QUICK = Sizes(
    sets=1, occupancy_sequences=18, variant_sequences=9, balance=10, shuffles=4, learners=3, trinity_jobs=300,
    trinity_seeds=1, sensitivity_sequences=8,
)  # fmt: skip


class Plan(PlanOf[Sizes]):
    """One reproduction."""

    paper, full, quick = "sns", FULL, QUICK

    @property
    def bench(self) -> Bench:
        """The programs."""
        if self.options.programs == HIDDEN:
            return Bench(HIDDEN, self.seed("hidden programs"))
        return Bench()
