"""The sizes of a reproduction: the paper's half year and five trials, with four histories, or less for a quick run."""

from __future__ import annotations

from dataclasses import dataclass

from cohabit.reproduce.plans import PlanOf
from cohabit.reproduce.rush.control import History
from cohabit.reproduce.rush.lab import NODES


@dataclass(frozen=True)
class Sizes:
    """Numbers of repeats."""

    sets: int = 4  # histories with a model each, and trials with it
    trials: int = 5  # of each policy and experiment in a set
    days: int = 183  # of control jobs
    runs_per_day: float = 2.5
    jobs: int = 190  # of the larger experiments
    lessons: int = 2  # histories on which all learners are compared
    counted_nodes: int = NODES  # whose counters the control jobs' windows cover
    eliminating: bool = True  # whether columns are eliminated
    others: int = 2  # trials of experiments other than ADAA in a set
    brackets: int = 2  # trials of ADAA in a set with all other policies
    worlds: int = 1  # sets that also run in the other world
    spells: int = 5  # trials of ADAA in a set with every length of noise
    placed: int = 5  # and with noise in every kind of place
    shipped: bool = False  # whether the models that come with the program are used; then nothing is trained
    learner: str = ""  # the gate's; empty: whichever does best on applications left out (R12)


FULL = Sizes()
QUICK = Sizes(sets=1, trials=4, lessons=0, others=1, brackets=1, worlds=0, spells=1, placed=0, shipped=True)
NOT_HERE = "not judged by --quick, which uses models that come with the program: run the full form"


class Plan(PlanOf[Sizes]):
    """One reproduction."""

    paper, full, quick = "rush", FULL, QUICK

    def history(self, number: int) -> History:
        """The control jobs of a set."""
        sizes = self.sizes
        seed = self.seed("control jobs") * 1000 + number
        return History(seed, sizes.days, sizes.runs_per_day, sizes.counted_nodes)

    def models(self) -> str:
        """Return the note on models that were not trained here."""
        return "quick: the models come with the program, trained on other control runs" if self.sizes.shipped else ""

    def trial_seed(self, number: int, trial: int) -> int:
        """The weather and the queue of a trial, the same for every policy."""
        return self.seed("trials") * 10_000 + 100 * number + trial
