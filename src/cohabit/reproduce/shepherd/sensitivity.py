"""Rule 5.6.7: every assumed parameter 50 % up and down, and the catalogue's other sets; do the signs survive?

The claims: shepherd above part-only, part-only above baseline, and the gap larger than place-only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cohabit.reproduce.rows import CHECK, Expected, Row, joined, row
from cohabit.reproduce.shepherd.lab import Case, run_set
from cohabit.reproduce.shepherd.mixes import gain, gap
from cohabit.reproduce.shepherd.plan import FULL, Plan
from cohabit.reproduce.tasks import Task
from cohabit.trace.shepherd_programs import SET_C

PARAMETERS = ("cost per miss", "cpi without misses", "bandwidth", "misses", "working sets")
FACTORS = {"down": 0.5, "up": 1.5}
SETS = {"B": 25.0, "D": 30.0, "E": 30.0, "G": 40.0}  # and the bandwidth they were made for


def cases() -> dict[str, tuple[str, Case]]:
    """Return all cases by name."""
    found = {
        f"{name.replace(' ', '_')}_{way}": (f"{name} x {factor:g}", Case(SET_C, factors=((name, factor),)))
        for name in PARAMETERS
        for way, factor in FACTORS.items()
    }
    for name, gbs in SETS.items():
        found[f"set_{name.lower()}"] = (f"set {name} at {gbs:g} GB/s", Case(name, gbs))
    return found


def tasks(plan: Plan) -> list[Task]:
    """Return one task per set of mixes."""
    count = plan.sizes.sensitivity_mixes
    same = {"seed": plan.seed("sensitivity"), "number": 0, "mixes": count, "swaps": plan.sizes.swaps, "parts": ()}
    return [
        Task(f"sensitivity {name}", run_set, {"case": case, **same}, 0.2 * count) for name, (_, case) in cases().items()
    ]


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Return how many of the three signs survive each change."""
    found = []
    for name, (words, _) in cases().items():
        mixes = results[f"sensitivity {name}"]
        part, place, shepherd = (
            float(np.mean([gain(scheme)(one) for one in mixes])) for scheme in ("part-only", "place-only", "shepherd")
        )
        signs = [shepherd > part, part > 0.0, gap(mixes) > place]
        note = joined(
            f"part-only {part:+.1f} %, place-only {place:+.1f} %, shepherd {shepherd:+.1f} %",
            "" if all(signs) else "synergy is not claimed here: placement alone gains more than the gap",
            plan.shortened(len(mixes), FULL.sensitivity_mixes, "mixes"),
        )
        about = Expected(f"P-sensitivity.{name}", f"signs that survive of 3: {words}", None, 2.0, 3.0, CHECK)
        found.append(row(about, float(sum(signs)), note))
    return found
