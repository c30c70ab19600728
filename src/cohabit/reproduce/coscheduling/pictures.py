"""The paper's figures 3 to 10 from our runs, as plotly data, with agree beside its four combinations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cohabit.report.figures import bars
from cohabit.reproduce.coscheduling.lab import LARGE, MACHINES, SMALL
from cohabit.reproduce.coscheduling.plan import AGREE, BASE, SCHEMES, Plan
from cohabit.reproduce.coscheduling.studies import (
    HOLD,
    LOAD,
    LOSS,
    PROPORTION,
    SLOWDOWN,
    SYNC,
    VALUES,
    WAIT,
    Metric,
    Set,
    gathered,
    value,
)
from cohabit.reproduce.papers import Picture

TITLES = {LARGE: "large machine", SMALL: "small machine"}
NAMES = {"HH": "hold, hold", "HY": "hold, yield", "YH": "yield, hold", "YY": "yield, yield", AGREE: "agree",
         BASE: "without"}  # fmt: skip
AXES = {WAIT: "mean wait (min)", SLOWDOWN: "mean slowdown", SYNC: "synchronisation time (min)",
        LOSS: "service-unit loss (% of node-hours)"}  # fmt: skip
PAPER = {
    (LOAD, WAIT): "Fig. 3: on the large machine less than 4, 10 and 42 minutes above its base of 61.",
    (LOAD, SLOWDOWN): "Fig. 4: the large machine's base is 6.1, the small one's 1.7, 12.5 and 37.1.",
    (LOAD, SYNC): "Fig. 5: with hold on the large machine under 10, nearly 50, above 150 minutes; yield takes longer.",
    (LOAD, LOSS): "Fig. 6: 0.46 to 4.6 % of the large machine, 3.5 to 4.9 % of the small one, none with yield.",
    (PROPORTION, WAIT): "Fig. 7: under 76 minutes up to 10 % of pairs, 187 with hold at 33 %.",
    (PROPORTION, SLOWDOWN): "Fig. 8: under 7.5 up to 10 % of pairs, 7.9 to 12.9 above, more under hold-hold.",
    (PROPORTION, SYNC): "Fig. 9: with hold 75 to 88 minutes on the large machine, less than with yield.",
    (PROPORTION, LOSS): "Fig. 10: 0.7 to 9.3 % of the large machine, 1 to 21 % of the small one, more with more pairs.",
}  # fmt: skip


def pictures(plan: Plan, results: dict[str, Any]) -> list[Picture]:
    """Return all figures, in the paper's order."""
    found = []
    for study in (LOAD, PROPORTION):
        sets = [one for part in gathered(plan, results, study) for one in part]
        for metric in (WAIT, SLOWDOWN, SYNC, LOSS):
            found += [_bars(sets, study, metric, machine) for machine in MACHINES]
    return found


def _bars(sets: Sequence[Set], study: str, metric: Metric, machine: str) -> Picture:
    chosen = [*SCHEMES, BASE] if metric in (WAIT, SLOWDOWN) else list(SCHEMES)
    if metric == LOSS:
        chosen = [name for name in SCHEMES if name == AGREE or name in HOLD[machine]]
    labels = [f"load {at:g}" if study == LOAD else f"{100 * at:g} % paired" for at in VALUES[study]]
    series = {
        NAMES[schemes]: [value(metric, machine, at, schemes)(sets) or 0.0 for at in VALUES[study]] for schemes in chosen
    }
    by = "load of the small machine" if study == LOAD else "proportion of paired jobs"
    axis = AXES[metric]
    words = (
        f"{PAPER[study, metric]} The first word of a name is the large machine's scheme, the second the small one's."
    )
    return Picture(f"{axis[0].upper()}{axis[1:]} by {by}: {TITLES[machine]}", bars(labels, series, axis), words)
