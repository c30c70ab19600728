"""The paper's figures from our runs, as plotly data. Each caption says what to look at and what the paper shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cohabit.predict.estimators import FOREST, MLP
from cohabit.report.figures import Figure, bars, dotted, layout, level, line, marks, packed, safe
from cohabit.reproduce.colocation import learning, makespans, overhead
from cohabit.reproduce.colocation.lab import bench_of
from cohabit.reproduce.colocation.makespans import GREEDY, MLP_OPTIMAL, SAVING
from cohabit.reproduce.colocation.plan import Plan
from cohabit.reproduce.colocation.queues import INTENSITY, LEVELS, MODEL, ORACLE, SHARED, Queue
from cohabit.reproduce.papers import Picture

TITLES = {
    SHARED: "fifo-shared", INTENSITY: "distributed intensity", MODEL: "forest, optimal", MLP_OPTIMAL: "MLP, optimal",
    GREEDY: "forest, greedy", SAVING: "forest, saving (ours)", f"{ORACLE} saving": "true degradations, saving",
}  # fmt: skip
MOST_SHOWN_PCT = 300.0  # the colours of the heat map end here


def pictures(plan: Plan, results: dict[str, Any]) -> list[Picture]:
    """Return all figures, in the paper's order."""
    return [
        _heat_map(plan),
        _accuracy(plan, results),
        _against_truth(plan, results),
        _levels(plan, results),
        _per_queue(plan, results),
        _strategies(plan, results),
        _turnaround(plan, results),
        _times(results),
    ]


def _as_fifo(figure: Figure, at: float = 1.0) -> Figure:
    """Return the figure with a dotted line at the level of FIFO."""
    figure["layout"]["shapes"] = [level(at)]
    return figure


def _heat_map(plan: Plan) -> Picture:
    bench = bench_of(plan.bench())
    busy = np.array([vector.cpu_fraction for vector in bench.vectors])
    order = np.argsort(bench.degradations.mean(axis=1), kind="stable")
    names = [f"{safe(bench.names[place])} ({100 * busy[place]:.0f} %)" for place in order]
    shown = bench.degradations[np.ix_(order, order)]
    data = [
        {
            "type": "heatmap",
            "x": names,
            "y": names,
            "z": packed(shown),
            "zmin": 0,
            "zmax": MOST_SHOWN_PCT,
            "colorscale": "Viridis",
            "colorbar": {"title": {"text": "slowed by (%)"}},
            "hovertemplate": "%{y} slows by %{z:.0f} %<br>beside %{x}<extra></extra>",
        }
    ]
    bad = 100.0 * float((np.maximum(shown, shown.T) > 100).mean())
    words = (
        "How much each program (rows) slows beside each other one (columns), by the law of the simulated machine; the "
        "slowed ones from the least to the most sensitive, in brackets how busy each keeps the cores when alone. "
        f"{bad:.0f} % of the pairs slow one of the two by more than 100 %: these are better run one after the other."
    )
    every = {"dtick": 1, "tickfont": {"size": 9}}  # all 32 names, not every second one
    figure = {"data": data, "layout": layout(760, "beside", "slowed", xaxis=every | {"tickangle": -90}, yaxis=every)}
    return Picture("Which jobs slow each other", figure, words)


def _accuracy(plan: Plan, results: dict[str, Any]) -> Picture:
    lessons = learning.gathered(plan, results)
    parts = {
        "paired": "folds by pair (as the paper trains)",
        "grouped": "folds by application",
        "blind": "unseen suite",
    }
    series = {
        words: [float(np.mean([one["kinds"][kind][part]["r2"] or 0.0 for one in lessons])) for kind in learning.KINDS]
        for part, words in parts.items()
    }
    words = (
        "Share of the variance of degradation that models explain (the paper's Fig. 3 and text). Folds by pair know "
        "every application already and flatter all models; a new program is what folds by application and the unseen "
        "suite show. In the paper the MLP falls from above 0.9 to 0.43 and the forest from above 0.8 to 0.78."
    )
    names = [learning.TITLES[kind] for kind in learning.KINDS]
    return Picture("How well models predict", bars(names, series, "R squared"), words)


def _against_truth(plan: Plan, results: dict[str, Any]) -> Picture:
    first = learning.gathered(plan, results)[0]["kinds"]
    data: list[Figure] = []
    top = 0.0
    for number, kind in enumerate(learning.KINDS[:4]):
        asked = first[kind]["blind"]
        top = max(top, float(asked["truth"].max()))
        title, x, y = learning.TITLES[kind], packed(asked["truth"]), packed(asked["answer"])
        hover = f"true %{{x:.0f}} %, predicted %{{y:.0f}} %<extra>{title}</extra>"
        visible = True if kind in (FOREST, MLP) else "legendonly"
        data.append(marks(title, x, y, number, hover, size=5, marker={"opacity": 0.7}, visible=visible))
    diagonal = dotted(x0=0, y0=0, x1=top, y1=top)
    figure = layout(440, "measured degradation (%)", "predicted (%)", showlegend=True, shapes=[diagonal])
    words = (
        "Every ordered pair whose slowed program is of the unseen suite (Fig. 4). Points below the dotted line were "
        "promised too little, which is what brings bad pairs together; points below zero are impossible and count as "
        "zero. The legend switches the other two models on."
    )
    return Picture("Prediction against truth", {"data": data, "layout": figure}, words)


def _mean(queues: Sequence[Queue], policy: str, what: str = "x") -> float:
    return float(np.mean([one[policy][what] for one in queues]))


def _levels(plan: Plan, results: dict[str, Any]) -> Picture:
    found = {level: [one for part in makespans.gathered(plan, results, level) for one in part] for level in LEVELS}
    there = [level for level in LEVELS if found[level]]
    policies = (SHARED, MODEL, MLP_OPTIMAL, SAVING)
    series = {TITLES[policy]: [_mean(found[level], policy) for level in there] for policy in policies}
    words = (
        "Makespan against FIFO (dotted) on queues whose neighbours slow each other not at all, by less than 100 %, and "
        "by more (Fig. 5). In the paper fifo-shared has 0.6, 0.8 and 2; the models are below FIFO everywhere."
    )
    figure = _as_fifo(bars([f"queue_{level}" for level in there], series, "makespan, FIFO = 1"))
    return Picture("Queues of three levels of degradation", figure, words)


def _by_queue(plan: Plan, results: dict[str, Any], policies: Sequence[str]) -> Figure:
    """Makespan of every random queue of the first seed, and their mean."""
    queues = makespans.gathered(plan, results)[0]
    names = [f"{number + 1}" for number in range(len(queues))] + ["mean"]
    series = {TITLES[policy]: [one[policy]["x"] for one in queues] + [_mean(queues, policy)] for policy in policies}
    figure = _as_fifo(bars(names, series, "makespan, FIFO = 1"))
    axis = figure["layout"]["xaxis"]
    axis["title"]["text"], axis["type"] = "queue", "category"  # else "mean" is not a number and is left out
    return figure


def _per_queue(plan: Plan, results: dict[str, Any]) -> Picture:
    words = (
        "Makespan of every random queue of 50 programs against FIFO (dotted): the paper's Figs. 1 and 6. There "
        "fifo-shared is 13 % above FIFO on average, distributed intensity 10 %, and both models 15 % below, from 5 % "
        "to 26 %. The first seed is drawn; the rows have all."
    )
    figure = _by_queue(plan, results, (SHARED, INTENSITY, MODEL, MLP_OPTIMAL))
    return Picture("Makespan per queue", figure, words)


def _strategies(plan: Plan, results: dict[str, Any]) -> Picture:
    words = (
        "The same queues, paired greedily, optimally (Fig. 7: about equal in the paper too), and by seconds saved. "
        "Least degradation is not least makespan: it ignores how long jobs take. Weights in seconds put long jobs "
        "together and leave bad pairs apart without a threshold; predictions cost little against true degradations."
    )
    figure = _by_queue(plan, results, (GREEDY, MODEL, SAVING, f"{ORACLE} saving"))
    return Picture("Greedy, optimal, saving", figure, words)


def _turnaround(plan: Plan, results: dict[str, Any]) -> Picture:
    queues = [one for part in makespans.gathered(plan, results) for one in part]
    policies = (SHARED, INTENSITY, MODEL, GREEDY, SAVING)
    parts = {"pct": "makespan", "turnaround_pct": "mean turnaround", "p95_pct": "95th percentile of turnaround"}
    series = {words: [_mean(queues, policy, what) for policy in policies] for what, words in parts.items()}
    words = (
        "Makespan and turnaround against FIFO. The paper wants turnaround not to grow and gives no number. A job that "
        "shares runs longer but begins sooner."
    )
    figure = _as_fifo(bars([TITLES[policy] for policy in policies], series, "against FIFO (%)", " %"), 0.0)
    return Picture("Turnaround beside makespan", figure, words)


def _times(results: dict[str, Any]) -> Picture:
    took = results["overhead"]
    lines = {
        FOREST: "predict, forest",
        MLP: "predict, MLP",
        "optimal": "pair, optimal",
        "saving": "pair, saving (ours)",
        "greedy sorted": "pair, greedy with sorting",
        "greedy": "pair, greedy",
    }
    data: list[Figure] = []
    for number, (key, label) in enumerate(lines.items()):
        times = [took[f"{key} {count}"] for count in overhead.COUNTS]
        hover = f"%{{x}} jobs: %{{y:.3g}} ms<extra>{label}</extra>"
        data.append(line(overhead.COUNTS, times, label, number, mode="lines+markers", hovertemplate=hover))
    words = (
        "Processor time to predict all pairs and to pair them (Fig. 8). In the paper optimal pairs of 150 jobs take up "
        "to 10 s, greedy ones 0.15 ms, and the forest predicts much more slowly than the MLP."
    )
    figure = layout(360, "jobs in the queue", "milliseconds", showlegend=True, yaxis={"type": "log"})
    return Picture("What a decision costs", {"data": data, "layout": figure}, words)
