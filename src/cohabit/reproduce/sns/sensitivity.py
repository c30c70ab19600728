"""Rule 5.6.7: every assumed parameter 50 % up and down; a claim whose sign does not survive is withdrawn.

The claims: SNS has more throughput than CE; SNS beats CS in most sequences; SNS's mean run time is below CS's in most.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cohabit.reproduce.rows import CHECK, Expected, Row, joined, row
from cohabit.reproduce.sns import sequences
from cohabit.reproduce.sns.lab import PLAIN, ROUGH, Conditions
from cohabit.reproduce.sns.plan import FULL, Plan
from cohabit.reproduce.sns.throughput import below_cs
from cohabit.reproduce.tasks import Task

PARAMETERS: dict[str, tuple[str, Conditions]] = {
    "q": ("cache pressure of a core (q)", PLAIN),
    "ways_exponent": ("exponent of ways at a scale (0.7)", PLAIN),
    "latency_slope": ("slope of memory latency", PLAIN),
    "latency_knee": ("knee of memory latency", PLAIN),
    "mu": ("memory-bound fraction of every program", PLAIN),
    "age_limit_runs": ("age limit", PLAIN),
    "phase_amplitude": ("amplitude of phases", ROUGH),
    "profile_noise": ("profile error", ROUGH),
    "curve_run_cost": ("cost of a curve run", ROUGH),
}
FACTORS = {"down": 0.5, "up": 1.5}


def cases() -> dict[str, tuple[str, Conditions]]:
    """Every parameter, down and up, and the world it matters in; the unchanged worlds for comparison."""
    found: dict[str, tuple[str, Conditions]] = {
        "unchanged": ("nothing changed", PLAIN),
        "unchanged_rough": ("nothing changed, phases and error on", ROUGH),
    }
    for name, (words, world) in PARAMETERS.items():
        for way, factor in FACTORS.items():
            conditions = Conditions(world.contention, world.phases, world.profile_noise, ((name, factor),))
            found[f"{name}_{way}"] = (f"{words} x {factor:g}", conditions)
    return found


def tasks(plan: Plan) -> list[Task]:
    """Return all cases on the sequences of the first set, if the user asks for them."""
    found = []
    for name, (_, conditions) in cases().items() if plan.options.sensitivity else ():
        count = plan.sizes.sensitivity_sequences
        found += sequences.tasks(plan, f"sensitivity {name}", 1, count, conditions=conditions)
    return found


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Return how many of the three signs survive each change."""
    found = []
    for name, (words, _) in cases().items() if plan.options.sensitivity else ():
        (members,) = sequences.gathered(f"sensitivity {name}", results)
        sns, cs = (float(np.mean([one.gain_pct(strategy) for one in members])) for strategy in ("sns", "cs"))
        beats, below = (sum(map(test, members)) / len(members) for test in (sequences.beats_cs, below_cs))
        note = joined(
            f"SNS {sns:+.1f} % over CE, CS {cs:+.1f} %, SNS beats CS in {100 * beats:.0f} % of sequences and has the "
            f"shorter run time in {100 * below:.0f} %",
            plan.shortened(len(members), FULL.sensitivity_sequences, "sequences"),
        )
        about = Expected(f"S-sensitivity.{name}", f"claims whose sign survives with {words} (of 3)", None, 3, 3, CHECK)
        found.append(row(about, sum((sns > 0, beats > 0.5, below > 0.5)), note))
    return found
