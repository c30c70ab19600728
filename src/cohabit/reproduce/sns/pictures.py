"""The paper's figures from our runs, as plotly data. Each caption says what to look at and what the paper shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cohabit.report.figures import Figure, bar, colour, layout, level, line, marks, packed, safe
from cohabit.reproduce.papers import Picture
from cohabit.reproduce.sns import ablations, balance, example, mixes, program_pictures, sequences, throughput, trinity
from cohabit.reproduce.sns.plan import Plan
from cohabit.reproduce.sns.sequences import Sequence20

NAMES = {"ce": "CE (whole nodes)", "cs": "CS (shared by cores)", "sns": "SNS (spread and share)"}
COLOURS = {"ce": 7, "cs": 0, "sns": 1}


def pictures(plan: Plan, results: dict[str, Any]) -> list[Picture]:
    """Return all figures, in the paper's order."""
    found = [] if plan.hidden else [_schedule(results[f"{example.NAME} share"])]
    found += program_pictures.pictures(plan.bench)
    members = [one for members in sequences.gathered(throughput.PLAIN_SETS, results) for one in members]
    found += [_ratios(members), _sorted_gains(members), _run_times(members)]
    found += _bandwidth(balance.matrices(plan, results))
    found.append(_mixes(plan, results))
    if trinity.trace_file(plan.options.shared) is not None:
        found.append(_breakdown(plan, results))
    return [*found, _ablations(plan, results)]


def _schedule(answer: dict[str, Any]) -> Picture:
    traces: list[Figure] = []
    labels = []
    for policy, nodes in (("ce", 3), ("sns", 2)):
        labels += [f"{policy.upper()} node {node}" for node in range(nodes)]
    for number, program in enumerate(example.NAMES):
        starts, lengths, places = [], [], []
        for policy in ("ce", "sns"):
            for name, node, start, end in answer[policy]["bars"]:
                if name == program:
                    starts.append(start)
                    lengths.append(end - start)
                    places.append(f"{policy.upper()} node {node}")
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": program,
                "x": lengths,
                "base": starts,
                "y": places,
                "offsetgroup": str(number),
                "marker": {"color": colour(number)},
                "hovertemplate": program + " from %{base:.0f} s for %{x:.0f} s<extra>%{y}</extra>",
            }
        )
    plan = layout(360, "seconds", "", showlegend=True, barmode="group", bargap=0.25)
    plan["yaxis"] |= {"categoryorder": "array", "categoryarray": labels[::-1]}
    words = (
        "Fig. 1: three programs of 16 processes on three nodes of their own (CE) and together on two (SNS). MG runs "
        "five times. Each bar is one program on one node; under SNS bars lie side by side because nodes are shared."
    )
    return Picture("Three jobs on two nodes instead of three", {"data": traces, "layout": plan}, words)


def _ratios(members: Sequence[Sequence20]) -> Picture:
    traces: list[Figure] = []
    x, size = packed(np.array([one.ratio for one in members])), 7 if len(members) < 100 else 4
    for policy, symbol in (("cs", 4), ("sns", 0)):
        y = packed(np.array([1 + one.gain_pct(policy) / 100 for one in members]))
        hover = f"scaling ratio %{{x:.2f}}<br>%{{y:.3f}} times CE<extra>{policy.upper()}</extra>"
        look = {"symbol": symbol, "opacity": 0.75}
        traces.append(marks(NAMES[policy], x, y, COLOURS[policy], hover, size=size, marker=look))
    plan = layout(
        360,
        "scaling ratio (share of core-hours by programs that gain from spreading)",
        "throughput over CE",
        showlegend=True,
        shapes=[level(1.0)],
    )
    words = (
        "Fig. 14: each mark is one sequence of 20 jobs; above the dotted line is better than CE. The paper's means are "
        "1.137 for CS and 1.198 for SNS."
    )
    return Picture("Throughput of random job sequences", {"data": traces, "layout": plan}, words)


def _sorted_gains(members: Sequence[Sequence20]) -> Picture:
    place = np.linspace(0, 100, len(members)).tolist()
    traces = [
        line(
            place,
            sorted(1 + one.gain_pct("sns", over) / 100 for one in members),
            f"SNS over {over.upper()}",
            number,
            dash=dash,
            hovertemplate="%{y:.3f}<extra>SNS over " + over.upper() + "</extra>",
        )
        for over, number, dash in (("ce", 1, "solid"), ("cs", 0, "dash"))
    ]
    plan = layout(340, "sequences, sorted (%)", "relative throughput", showlegend=True, shapes=[level(1.0)])
    words = (
        "Fig. 15: the same sequences sorted by gain, each curve by itself. Where a curve is below the dotted line SNS "
        "loses: in the paper once against CE and in 10 of 36 against CS."
    )
    return Picture("How often SNS wins and loses", {"data": traces, "layout": plan}, words)


def _run_times(members: Sequence[Sequence20]) -> Picture:
    ordered = sorted(members, key=lambda one: one.mean_run_time("sns"))
    place = np.linspace(0, 100, len(ordered)).tolist()
    traces = []
    for policy in ("cs", "sns"):
        curves = (
            ("mean", "solid", [one.mean_run_time(policy) for one in ordered]),
            ("slowest job", "dot", [float(one.run_times(policy).max()) for one in ordered]),
            ("fastest job", "dash", [float(one.run_times(policy).min()) for one in ordered]),
        )
        traces += [
            line(place, values, f"{policy.upper()} {name}", COLOURS[policy], dash=dash) for name, dash, values in curves
        ]
    plan = layout(380, "sequences, sorted by SNS's mean (%)", "run time over CE", showlegend=True, shapes=[level(1.0)])
    words = (
        "Fig. 16: run times of single jobs against their run alone (CE = 1): the mean of each sequence, its slowest "
        "and its fastest job. In the paper SNS's mean is below CS's everywhere, and the slowest job under CS takes 3.5 "
        "times as long."
    )
    return Picture("What sharing does to single jobs", {"data": traces, "layout": plan}, words)


def _bandwidth(matrices: list[dict[str, Any]]) -> list[Picture]:
    top = max(float(cells.max()) for cells in matrices[0].values())
    found = []
    for policy in ("ce", "sns"):
        cells = matrices[0][policy]
        trace: Figure = {
            "type": "heatmap",
            "z": packed(cells),
            "x0": 0.25,
            "dx": 0.5,
            "y0": 0,
            "dy": 1,
            "zmin": 0,
            "zmax": top,
            "colorscale": [[0, "@heat0"], [0.5, "@heat1"], [1, "@heat2"]],
            "colorbar": {"title": {"text": "GB/s"}, "thickness": 12},
            "hovertemplate": "node %{y}, minute %{x:.1f}: %{z:.0f} GB/s<extra></extra>",
        }
        plan = layout(270, "minutes", "node")
        plan["yaxis"] |= {"dtick": 1, "autorange": "reversed"}
        words = (
            f"Fig. 17: memory bandwidth of each node in episodes of 30 s, one random sequence under {policy.upper()}. "
            + (
                "Dark cells are nodes at their limit, pale ones are idle."
                if policy == "ce"
                else "The same jobs, same colours."
            )
        )
        found.append(Picture(f"Memory bandwidth over time: {NAMES[policy]}", {"data": [trace], "layout": plan}, words))
    edges = np.arange(0, 121, 12)
    traces: list[Figure] = []
    for policy in ("ce", "sns"):
        counts = np.mean([np.histogram(one[policy], edges)[0] for one in matrices], axis=0)
        ranges = [f"{low} to {low + 12}" for low in edges[:-1]]
        hover = f"%{{y:.0f}} episodes<extra>{policy.upper()}</extra>"
        traces.append(bar(NAMES[policy], ranges, counts.tolist(), COLOURS[policy], hover))
    plan = layout(320, "GB/s of a node in an episode", "episodes per sequence", showlegend=True, barmode="group")
    shares = {
        policy: [100 * float(np.mean(np.stack([test(one[policy]) for one in matrices]))) for test in (_idle, _full)]
        for policy in ("ce", "sns")
    }
    words = (
        f"Fig. 18: how many of the 480 node-episodes fall into each interval, mean of {len(matrices)} sequences. The "
        "paper saw fewer near-peak and fewer near-idle episodes under SNS. Here episodes below 12 GB/s go from "
        f"{shares['ce'][0]:.0f} % under CE to {shares['sns'][0]:.0f} % under SNS, those above 96 GB/s from "
        f"{shares['ce'][1]:.0f} % to {shares['sns'][1]:.0f} %."
    )
    return [*found, Picture("Episodes by bandwidth", {"data": traces, "layout": plan}, words)]


def _idle(cells: Any) -> Any:
    return cells < 12


def _full(cells: Any) -> Any:
    return cells >= 96


def _mixes(plan: Plan, results: dict[str, Any]) -> Picture:
    sets = mixes.points(plan, results)
    traces = []
    for number, (key, name) in enumerate((("run", "run time"), ("wait", "wait"), ("turnaround", "turnaround"))):
        curve = mixes.average(sets, key)
        traces.append(
            line(
                list(curve),
                list(curve.values()),
                name,
                number,
                mode="lines+markers",
                hovertemplate="scaling ratio %{x:.1f}: %{y:.2f} of CE<extra>" + name + "</extra>",
            )
        )
    scaling, other = mixes.pair(plan.bench)
    figure = layout(350, "scaling ratio", "mean over CE's", showlegend=True, shapes=[level(1.0)])
    words = (
        f"Fig. 19: 30 jobs of 28 processes of {safe(scaling)} (gains from spreading) and {safe(other)} (does not) in "
        f"eleven proportions, mean of {len(sets)} orders. Below the dotted line is better than CE. At 0 both are the "
        "same; near 1, jobs that spread early leave no whole nodes, so others wait: the paper saw that beyond 0.75."
    )
    return Picture("How the mix of jobs matters", {"data": traces, "layout": figure}, words)


def _breakdown(plan: Plan, results: dict[str, Any]) -> Picture:
    labels, runs, waits = [], [], []
    for ratio in trinity.RATIOS:
        for nodes in trinity.NODES:
            (ce,) = trinity.answers(plan, results, "main", nodes, "ce")
            sns = trinity.answers(plan, results, "main", nodes, f"sns {ratio:g}")
            for name, points in (("CE", [ce]), ("SNS", sns)):
                labels.append(f"{nodes // 1024}K, {ratio:g}: {name}")
                runs.append(float(np.mean([one["run"] for one in points])) / ce["turnaround"])
                waits.append(float(np.mean([one["wait"] for one in points])) / ce["turnaround"])
    traces = [
        bar(name, labels, values, number, f"%{{y:.3f}} of CE's turnaround<extra>{name}</extra>")
        for number, (name, values) in enumerate((("running", runs), ("waiting", waits)))
    ]
    figure = layout(
        400,
        "nodes and scaling ratio",
        "mean time over CE's turnaround",
        showlegend=True,
        barmode="stack",
        shapes=[level(1.0)],
    )
    jobs = int(trinity.answers(plan, results, "main", 4096, "ce")[0]["jobs"])
    words = (
        f"Fig. 20: {jobs:,} jobs of the LANL Trinity trace on machines of three sizes, 90 % or 50 % of them given "
        "programs that gain from spreading. Bars are mean run and wait, in units of CE's mean turnaround; CE's bars "
        "end at 1."
    )
    return Picture("Large machines: run and wait", {"data": traces, "layout": figure}, words)


def _ablations(plan: Plan, results: dict[str, Any]) -> Picture:
    found = ablations.summary(plan, results)
    names = [words for words, *_ in found.values()]
    gains = [gain for _, gain, _, _ in found.values()]
    labels = [safe(name) for name in names[::-1]]
    trace = bar("", gains[::-1], labels, 1, "%{x:+.1f} % over CE<extra>%{y}</extra>", orientation="h")
    figure = layout(90 + 26 * len(names), "mean throughput gain over CE (%)", "")
    words = (
        "What each part is worth: the same sequences with one thing about SNS changed. The first bar is SNS as it is "
        "(alpha 0.9, beta 2)."
    )
    return Picture("Parts taken away", {"data": [trace], "layout": figure}, words)
