"""The sizes of a reproduction: the poster's eight mixes with twenty seeds, or less for a quick run."""

from __future__ import annotations

from dataclasses import dataclass

from cohabit.reproduce.plans import PlanOf, shared_file
from cohabit.reproduce.shepherd.lab import HIDDEN, MEASURED_COST, REAL, Case
from cohabit.trace.shepherd_programs import SET_A, SET_C

CURVES = "data/cache-ways/pbbcache_metrics.csv"
MAIN = "main"
SCARCE_GBS, AMPLE_GBS = 12.8, 50.0


@dataclass(frozen=True)
class Sizes:
    """Numbers of repeats."""

    sets: int = 20  # of mixes, each of the poster's size; one seed each
    mixes: int = 8
    other_sets: int = 20  # of the other programs and machines
    swaps: int = 0  # of every search; 0: the default
    sensitivity_mixes: int = 8
    online_events: int = 2000
    optima: int = 20


FULL = Sizes()
QUICK = Sizes(sets=3, other_sets=1, sensitivity_mixes=3, online_events=500, optima=5)


class Plan(PlanOf[Sizes]):
    """One reproduction."""

    paper, full, quick = "shepherd", FULL, QUICK

    @property
    def curves(self) -> str:
        """Return the file of measured curves, if there is one."""
        path = shared_file(CURVES, self.options.shared)
        return "" if path is None else str(path)

    @property
    def cases(self) -> dict[str, Case]:
        """Every machine and set of programs, by the tag of its rows."""
        hidden = Case(HIDDEN, seed=self.seed("hidden programs"))
        found = {
            MAIN: hidden if self.hidden else Case(SET_C),
            "set_a": Case(SET_A),
            "hidden": hidden,
            "measured_cost": Case(MEASURED_COST),
            "scarce_a": Case(SET_A, SCARCE_GBS),
            "scarce_c": Case(SET_C, SCARCE_GBS),
        }
        if self.curves:
            found["real"] = Case(REAL, path=self.curves)
            found["real_ample"] = Case(REAL, AMPLE_GBS, path=self.curves)
        return found
