"""The paper's figures 3 to 10 from our runs, as plotly data, with agree beside its four combinations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cohabit.report.figures import Figure, colour, layout, safe
from cohabit.reproduce.coscheduling.lab import LARGE, MACHINES, SMALL
from cohabit.reproduce.coscheduling.plan import AGREE, BASE, LOADS, PROPORTIONS, SCHEMES, Plan
from cohabit.reproduce.coscheduling.studies import LOAD, LOCAL, PROPORTION, Set, gathered, minutes, number
from cohabit.reproduce.papers import Picture

TITLES = {LARGE: "large machine", SMALL: "small machine"}
NAMES = {"HH": "hold, hold", "HY": "hold, yield", "YH": "yield, hold", "YY": "yield, yield", AGREE: "agree",
         BASE: "without"}  # fmt: skip
WAIT, SLOWDOWN, SYNC, LOSS = "mean_wait_s", "mean_slowdown", "mean_sync_s", "held_share"
AXES = {WAIT: "mean wait (min)", SLOWDOWN: "mean slowdown", SYNC: "synchronisation time (min)",
        LOSS: "service-unit loss (% of node-hours)"}  # fmt: skip
PAPER = {
    (LOAD, WAIT): "Fig. 3: on the large machine less than 4, 10 and 42 minutes above its base of 61.",
    (LOAD, SLOWDOWN): "Fig. 4: the large machine's base is 6.1, the small one's 1.7, 12.5 and 37.1.",
    (
        LOAD,
        SYNC,
    ): "Fig. 5: with hold on the large machine under 10, nearly 50, above 150 minutes; yield takes longer.",
    (LOAD, LOSS): "Fig. 6: 0.46 to 4.6 % of the large machine, 3.5 to 4.9 % of the small one, none with yield.",
    (PROPORTION, WAIT): "Fig. 7: under 76 minutes up to 10 % of pairs, 187 with hold at 33 %.",
    (PROPORTION, SLOWDOWN): "Fig. 8: under 7.5 up to 10 % of pairs, 7.9 to 12.9 above, more under hold-hold.",
    (PROPORTION, SYNC): "Fig. 9: with hold 75 to 88 minutes on the large machine, less than with yield.",
    (
        PROPORTION,
        LOSS,
    ): "Fig. 10: 0.7 to 9.3 % of the large machine, 1 to 21 % of the small one, more with more pairs.",
}


def pictures(plan: Plan, results: dict[str, Any]) -> list[Picture]:
    """Return all figures, in the paper's order."""
    found = []
    for study in (LOAD, PROPORTION):
        sets = [one for part in gathered(plan, results, study) for one in part]
        for key in (WAIT, SLOWDOWN, SYNC, LOSS):
            found += [_bars(sets, study, key, machine) for machine in MACHINES]
    return found


def _bars(sets: Sequence[Set], study: str, key: str, machine: str) -> Picture:
    values = LOADS if study == LOAD else PROPORTIONS
    chosen = [*SCHEMES, BASE] if key in (WAIT, SLOWDOWN) else list(SCHEMES)
    if key == LOSS:
        chosen = [name for name in SCHEMES if name == AGREE or name[LOCAL[machine]] == "H"]
    labels = [f"load {one:g}" if study == LOAD else f"{100 * one:g} % paired" for one in values]
    data: list[Figure] = []
    for place, schemes in enumerate(chosen):
        heights = [_value(sets, key, machine, one, schemes) for one in values]
        data.append({
            "type": "bar", "name": safe(NAMES[schemes]), "x": labels, "y": heights,
            "marker": {"color": colour(place)}, "hovertemplate": f"%{{y:.3g}}<extra>{safe(NAMES[schemes])}</extra>",
        })  # fmt: skip
    figure = {"data": data, "layout": layout(360, "", AXES[key], barmode="group", showlegend=True)}
    by = "load of the small machine" if study == LOAD else "proportion of paired jobs"
    words = f"{PAPER[study, key]} The first word of a name is the large machine's scheme, the second the small one's."
    return Picture(f"{AXES[key][0].upper()}{AXES[key][1:]} by {by}: {TITLES[machine]}", figure, words)


def _value(sets: Sequence[Set], key: str, machine: str, value: float, schemes: str) -> float:
    if key in (WAIT, SYNC):
        return minutes(machine, key, value, schemes)(sets) or 0.0
    return number(machine, key, value, schemes, 100.0 if key == LOSS else 1.0)(sets) or 0.0
