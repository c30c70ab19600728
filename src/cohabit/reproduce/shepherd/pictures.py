"""The poster's figure from our runs, and explanatory figures, as plotly data."""

from __future__ import annotations

from typing import Any

import numpy as np

from cohabit.optimise import law, starts
from cohabit.optimise.schemes import outcome
from cohabit.optimise.search import Budget, default_swaps, search
from cohabit.optimise.tables import prepare
from cohabit.report.figures import Figure, bars, layout, line
from cohabit.reproduce.papers import Picture
from cohabit.reproduce.rows import contract
from cohabit.reproduce.shepherd.lab import NODES, benefit, summed
from cohabit.reproduce.shepherd.mixes import gain, gathered, kept
from cohabit.reproduce.shepherd.plan import MAIN, Plan
from cohabit.sim.streams import stream
from cohabit.trace.shepherd_programs import drawn

SCHEMES = ("place-only", "part-only", "shepherd")
NAMES = {
    "set_a": "set A", "hidden": "hidden", "measured_cost": "set A,<br>measured<br>cost",
    "scarce_a": "set A,<br>12.8 GB/s", "scarce_c": "set C,<br>12.8 GB/s", "real": "measured<br>curves",
    "real_ample": "measured<br>curves,<br>50 GB/s",
}  # fmt: skip
SHOWN = 6  # programs whose curves are drawn


def pictures(plan: Plan, results: dict[str, Any]) -> list[Picture]:
    """Return all figures."""
    found = [_figure_1(plan, results), _cases(plan, results), _ways(plan, results)]
    return [*found, _curves(plan), _surface(plan), _nodes(plan)]


def _case_name(plan: Plan, tag: str) -> str:
    return ("hidden" if plan.hidden else "set C") if tag == MAIN else NAMES[tag]


def _figure_1(plan: Plan, results: dict[str, Any]) -> Picture:
    mixes = gathered(plan, MAIN, results)[0]
    names = [f"mix {number + 1}" for number in range(len(mixes))] + ["mean", "poster's<br>mean"]
    series = {scheme: [gain(scheme)(one) for one in mixes] for scheme in SCHEMES}
    stated = {scheme: contract()[f"P13.{scheme.replace('-', '_')}_pct"].paper or 0.0 for scheme in SCHEMES}
    means = {scheme: [*values, float(np.mean(values)), stated[scheme]] for scheme, values in series.items()}
    words = (
        f"{len(mixes)} random mixes of 64 programs on eight nodes, as in the poster's Fig. 1: weighted speedup over "
        "the baseline (random placement, nothing divided). The first seed is drawn; the rows have the mean of all. In "
        "the poster the means are below 1 % (drawn as 0.5) for place-only, 27 % for part-only and 38 % for Shepherd."
    )
    figure = bars(names, means, "gain over baseline (%)", " %")
    return Picture("Weighted speedup of eight mixes", figure, words)


def _cases(plan: Plan, results: dict[str, Any]) -> Picture:
    gains = {
        scheme: [[gain(scheme)(one) for mixes in gathered(plan, tag, results) for one in mixes] for tag in plan.cases]
        for scheme in SCHEMES
    }
    series = {scheme: [float(np.mean(one)) for one in cases] for scheme, cases in gains.items()}
    whiskers = {scheme: [(min(one), max(one)) for one in cases] for scheme, cases in gains.items()}
    words = (
        "The same on other programs and machines: means over all mixes, whiskers from the worst mix to the best. How "
        "much is gained depends on the programs, that Shepherd gains most does not. On measured curves placement gains "
        "something even where the cache is not divided, as long as bandwidth is short."
    )
    names = [_case_name(plan, tag) for tag in plan.cases]
    figure = bars(names, series, "gain over baseline (%)", " %")
    for one in figure["data"]:
        ends = zip(one["y"], whiskers[one["name"]], strict=True)
        down, up = zip(*((mean - low, high - mean) for mean, (low, high) in ends), strict=True)
        one["error_y"] = {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 1.2}
    return Picture("Other programs, other machines", figure, words)


def _ways(plan: Plan, results: dict[str, Any]) -> Picture:
    tags = [tag for tag in (MAIN, "set_a", "hidden", "real") if tag in plan.cases]
    compared = {
        "ways of one's own, random placement": ("ways each", "part-only"),
        "clusters, random placement": ("ways part-only", "part-only"),
        "clusters, Shepherd's placement": ("ways shepherd", "shepherd"),
    }
    series = {
        label: [float(np.mean([kept(by, fine)(one) or 0.0 for one in gathered(plan, tag, results)])) for tag in tags]
        for label, (by, fine) in compared.items()
    }
    words = (
        "What real hardware keeps of the fine-grained gain with whole contiguous ways: 12 of which the upper two go "
        "together, as on a Xeon D-1540, or 11 on the machine of the measured curves. Ways of one's own for every job "
        "are too coarse; programs that share ways in clusters keep nearly all of it."
    )
    figure = bars([_case_name(plan, tag) for tag in tags], series, "share of the fine-grained gain (%)", " %")
    return Picture("Whole ways and clusters", figure, words)


def _curves(plan: Plan) -> Picture:
    suite = plan.cases[MAIN].suite(0)
    order = np.argsort(-starts.utility(prepare(suite)))
    data: list[Figure] = []
    for number, row in enumerate(order[np.linspace(0, len(order) - 1, SHOWN).astype(int)].tolist()):
        data.append(line(range(suite.buckets + 1), suite.mpki[row], suite.names[row], number))
    words = (
        "Misses against cache for six of the programs, from the one to which cache is worth most to the one to which "
        "it is worth least. A cliff is a working set that fits, or does not."
    )
    figure = layout(340, "buckets of 384 KB", "misses / 1,000 instructions", showlegend=True)
    return Picture("Miss curves", {"data": data, "layout": figure}, words)


def _surface(plan: Plan) -> Picture:
    suite = plan.cases[MAIN].suite(0)
    row = int(np.argmax(starts.utility(prepare(suite))))
    loads = np.linspace(0.0, 0.95, 39)
    stall = suite.cycles_per_miss[row] / 1000.0 * suite.mpki[row, 1:]
    ipc = 1.0 / (suite.cpi0[row] + stall[:, None] * np.array([law.latency(load) for load in loads])[None, :])
    data = [
        {
            "type": "heatmap",
            "x": (100.0 * loads).tolist(),
            "y": list(range(1, suite.buckets + 1)),
            "z": [[float(value) for value in line] for line in ipc],
            "colorscale": "Viridis",
            "colorbar": {"title": {"text": "IPC"}},
            "hovertemplate": "IPC %{z:.2f} with %{y} buckets, memory %{x:.0f} % busy<extra></extra>",
        }
    ]
    words = (
        f"The IPC surface of {suite.names[row]}: instructions per cycle against its cache and the load of memory. At "
        "the load of its node the surface becomes the curve by which the dynamic programme divides the cache."
    )
    figure = layout(360, "load of memory (%)", "cache (buckets)")
    return Picture("An IPC surface", {"data": data, "layout": figure}, words)


def _nodes(plan: Plan) -> Picture:
    """Draw the placement of one mix: what the jobs of every node gain from a divided cache, before and after."""
    rng = stream(plan.seed("picture"), "nodes")
    problem = prepare(drawn(plan.cases[MAIN].suite(0), rng, NODES))
    start = starts.random_start(problem, rng)
    found = search(problem, start, 1, Budget(default_swaps(len(problem.mix))))
    need = benefit(problem, rng)
    series = {
        label: sorted(summed(problem, need, place), reverse=True)
        for label, place in (("random", start), ("shepherd", found.place))
    }
    before, after = (outcome(problem, place, True).weighted_speedup for place in (start, found.place))
    words = (
        "What the programs of each node gain from a divided cache on average, summed over the node, for one mix; nodes "
        "from the most to the least. The search spreads those that gain most, so that they compete less. Weighted "
        f"speedup with divided caches: {before:.2f} at random, {after:.2f} placed by Shepherd."
    )
    names = [f"node {rank + 1}" for rank in range(NODES)]
    return Picture("Which programs compete", bars(names, series, "summed gain in speed"), words)
