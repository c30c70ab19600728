"""The sizes of a reproduction: the paper's twenty queues with twenty seeds, or less for a quick run."""

from __future__ import annotations

from dataclasses import dataclass

from cohabit.predict.estimators import TREES, TREES_IN_SEARCH
from cohabit.reproduce.colocation.lab import CATALOGUE, HIDDEN, Bench
from cohabit.reproduce.plans import PlanOf


@dataclass(frozen=True)
class Sizes:
    """Numbers of repeats."""

    sets: int = 20  # of queues, each of the paper's size; one seed each
    queues: int = 20
    jobs: int = 50
    levelled: int = 3  # queues of every level of degradation in a set
    other_queues: int = 20  # in the second contention model and in worlds without and with total contention
    learners: int = 20  # times all models are judged, with folds
    blind: int = 20  # times the paper's two are tested on the unseen suite
    populations: int = 20  # sets of programs drawn anew
    former_populations: int = 20  # and from each of the abandoned priors
    population_queues: int = 5
    trees: int = TREES
    fold_trees: int = TREES
    searching: bool = True  # whether parameters are searched for
    sensitivity_queues: int = 20
    timings: int = 5
    timed_trees: int = TREES  # of the forest whose speed is measured


FULL = Sizes()
QUICK = Sizes(
    sets=1, levelled=2, other_queues=1, learners=1, blind=3, populations=1, former_populations=1, population_queues=2,
    trees=TREES_IN_SEARCH, fold_trees=20, searching=False, sensitivity_queues=3, timings=2,
)  # fmt: skip


class Plan(PlanOf[Sizes]):
    """One reproduction."""

    paper, full, quick = "colocation", FULL, QUICK

    @property
    def sensitivity(self) -> bool:
        """Return whether assumptions are varied: on request, and always in full runs."""
        return self.options.sensitivity or not self.options.quick

    def bench(self, number: int = 0) -> Bench:
        """The programs of a set; hidden ones differ in every set."""
        if self.hidden:
            return Bench(HIDDEN, self.seed("hidden programs"), number)
        return Bench(CATALOGUE)

    def drawn(self, number: int, kind: str = HIDDEN) -> Bench:
        """Programs from the priors, or from other priors by name, whatever the main ones are."""
        return Bench(kind, self.seed("other programs"), number)
