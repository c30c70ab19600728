"""The sizes of a reproduction: the paper's month with its ten repeats, or a few days out of it for a quick run."""

from __future__ import annotations

from dataclasses import dataclass

from cohabit.reproduce.coscheduling.lab import Cell
from cohabit.reproduce.plans import PlanOf
from cohabit.trace.coupled_machines import INTREPID_JOBS

LOADS = (0.25, 0.5, 0.75)
MEDIUM, HIGH = 0.5, 0.75
PROPORTIONS = (0.025, 0.05, 0.1, 0.2, 0.33)
COMBINATIONS = ("HH", "HY", "YH", "YY")  # the large machine first
AGREE, BASE = "AA", "base"
SCHEMES = (*COMBINATIONS, AGREE)


@dataclass(frozen=True)
class Sizes:
    """Numbers of repeats."""

    sets: int = 10  # as in the paper: every case ten times
    jobs: int = INTREPID_JOBS  # on the large machine; the other's span is the same
    paired_jobs: int = INTREPID_JOBS  # the same in the proportion study, whose many pairs take most of the time
    deadlocks: int = 20  # seeds without release
    deadlock_jobs: int = INTREPID_JOBS
    others: int = 3  # seeds of our additions: other arrivals, other cluster side, bounded hold
    months: bool = True  # whether real logs are run for a month, else for some days
    filled: bool = False  # made jobs: a stretch of the month that begins on filled machines (filled.py)


FULL = Sizes()
QUICK = Sizes(
    sets=1, jobs=1_000, paired_jobs=300, deadlocks=3, deadlock_jobs=3_000, others=1, months=False, filled=True
)


class Plan(PlanOf[Sizes]):
    """One reproduction."""

    paper, full, quick = "coscheduling", FULL, QUICK

    def load_cell(self, number: int, load: float, schemes: str) -> Cell:
        """A case of the load study."""
        return Cell(self._seed("load", number), self.sizes.jobs, schemes, load=load, filled=self.sizes.filled)

    def proportion_cell(self, number: int, proportion: float, schemes: str) -> Cell:
        """A case of the proportion study."""
        seed = self._seed("proportion", number)
        return Cell(seed, self.sizes.paired_jobs, schemes, proportion=proportion, filled=self.sizes.filled)

    def _seed(self, study: str, number: int) -> int:
        return self.seed(study) * 1000 + number

    def note(self) -> str:
        """Return the note of a row from a shortened study."""
        days, paired = (round(30 * jobs / INTREPID_JOBS, 1) for jobs in (self.sizes.jobs, self.sizes.paired_jobs))
        begun = ", begun on filled machines," if self.sizes.filled else ""
        length = f"{days:g} days ({paired:g} in the proportion study)"
        short = "" if self.sizes.jobs == FULL.jobs else f"quick: {length}{begun} instead of a month"
        few = self.shortened(self.sizes.sets, FULL.sets, "repeats")
        return "; ".join(words for words in (short, few) if words)
