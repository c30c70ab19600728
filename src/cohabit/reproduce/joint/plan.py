"""The sizes of the comparison, and the strategies that stand in it under their names."""

from __future__ import annotations

from dataclasses import dataclass

from cohabit.reproduce.plans import PlanOf
from cohabit.reproduce.sns.lab import HIDDEN, PROFILE_ERROR, Bench, Conditions, Strategy
from cohabit.sim.streams import stream

BUNDLE = "cohabit"
OURS = Strategy("cohabit", BUNDLE)
OURS_SAF = Strategy("cohabit, smallest area first", BUNDLE, (("order", "saf"),))
PLANNED = Strategy("cohabit, planned", BUNDLE, (("planned", True),))
CE_SAF = Strategy("ce, smallest area first", "ce", (("order", "saf"),))
OTHERS = ("ce", "ce-easy", "cs", "sns")  # what stands beside it everywhere
LARGE_MACHINES = (8192, 32768)
PROGRESS_S = 10.0  # period in which the speed of running jobs is measured: the guarantee goes by it
MEASURED = Conditions(phases=True, profile_noise=PROFILE_ERROR, progress_s=PROGRESS_S)


@dataclass(frozen=True)
class Sizes:
    """Numbers of repeats."""

    sets: int = 20  # of sequences of the catalogue's programs; one seed each
    sequences: int = 36
    jobs: int = 20
    hidden_sets: int = 20  # programs are drawn anew for every one
    hidden_sequences: int = 36
    error_sets: int = 20  # with 20 % profile error
    error_sequences: int = 36
    ablation_sequences: int = 36  # of the first set
    ablation_arrivals: int = 4  # workloads
    trinity_jobs: int = 0  # of the trace; 0: all
    trinity_draws: int = 20  # of programs for the jobs of the trace, on 4,096 nodes
    large_draws: int = 5  # on the larger machines
    beside_draws: int = 5  # of the strategies beside ours
    arrival_sets: int = 20
    arrivals: int = 4  # workloads of a set at each load, with the estimates of one log each
    arrival_jobs: int = 200
    mix_sets: int = 20  # of Shepherd's mixes
    mixes: int = 8
    queue_sets: int = 20  # of colocation's queues
    queues: int = 20
    queue_jobs: int = 50
    trees: int = 200
    searching: bool = True


FULL = Sizes()
QUICK = Sizes(
    sets=1, sequences=24, hidden_sets=5, hidden_sequences=5, error_sets=1, error_sequences=18, ablation_sequences=4,
    ablation_arrivals=1, trinity_jobs=1000, trinity_draws=1, large_draws=0, beside_draws=1, arrival_sets=1,
    arrival_jobs=80, mix_sets=1, queue_sets=1, queues=6, trees=40, searching=False,
)  # fmt: skip


class Plan(PlanOf[Sizes]):
    """One comparison."""

    paper, full, quick = "joint", FULL, QUICK

    @property
    def bench(self) -> Bench:
        """The main programs."""
        return Bench(HIDDEN, self.seed("main programs")) if self.hidden else Bench()

    def drawn(self, number: int) -> Bench:
        """Return the hidden programs of a set."""
        return Bench(HIDDEN, int(stream(self.seed("hidden programs"), f"set {number}").integers(0, 2**40)))
