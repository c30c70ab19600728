"""Fig. 2 to 4, 6, 12 and 13: single programs, from their profiles. Fig. 5 and 7 need numbers the paper's text lacks."""

from __future__ import annotations

from cohabit.model.profile import demand, stream_gbs
from cohabit.model.program import profile_of
from cohabit.report.figures import DASHES, bar, layout, level, line, safe
from cohabit.reproduce.papers import Picture
from cohabit.reproduce.sns.lab import Bench

FOUR = ("MG", "CG", "EP", "BFS")
SCALES = (1, 2, 4, 8)


def pictures(bench: Bench) -> list[Picture]:
    """The machine and the programs; with hidden programs all of them instead of the paper's four."""
    shown = FOUR if all(name in bench.programs for name in FOUR) else tuple(bench.programs)
    return [_stream(bench), _per_node(bench, shown), _sensitivity(bench, shown), _needs(bench), _speedups(bench)]


def _stream(bench: Bench) -> Picture:
    cores = list(range(1, bench.node.cores + 1))
    total = [stream_gbs(bench.node, one) for one in cores]
    per_core = [gbs / one for gbs, one in zip(total, cores, strict=True)]
    traces = [line(cores, total, "all cores together", 1), line(cores, per_core, "per core", 0, dash="dash")]
    plan = layout(300, "active cores", "GB/s (logarithmic)", showlegend=True)
    plan["yaxis"] |= {"type": "log", "dtick": "D2"}
    words = (
        "Fig. 3: what so many cores can draw from one node's memory. Put in: three points are stated, the rest assumed."
    )
    return Picture("Memory bandwidth of one node", {"data": traces, "layout": plan}, words)


def _per_node(bench: Bench, shown: tuple[str, ...]) -> Picture:
    ways = bench.node.ways
    traces = []
    for number, scale in enumerate((1, 2)):
        gbs = [bench.programs[name].bandwidth_at(scale, ways, ways) for name in shown]
        names, label = [safe(name) for name in shown], f"{scale} node{'s' * (scale > 1)}"
        traces.append(bar(label, names, gbs, number, "%{y:.3g} GB/s<extra>%{x}</extra>"))
    plan = layout(300, "program, 16 processes", "GB/s per node (logarithmic)", showlegend=True, barmode="group")
    plan["yaxis"] |= {"type": "log", "dtick": 1}
    words = (
        "Fig. 4: bandwidth each node delivers to a program that runs alone. Put in; MG draws 112.0 on one node and "
        "67.6 on each of two."
    )
    return Picture("Bandwidth of single programs", {"data": traces, "layout": plan}, words)


def _sensitivity(bench: Bench, shown: tuple[str, ...]) -> Picture:
    ways = list(range(2, bench.node.ways + 1))
    traces = [
        line(
            ways,
            [bench.programs[name].ipc_at(1, one, bench.node.ways) for one in ways],
            name,
            number,
            dash=DASHES[number % 4],
        )
        for number, name in enumerate(shown)
    ]
    plan = layout(320, "cache ways", "speed over speed with all ways", showlegend=True)
    plan["yaxis"] |= {"range": [0, 1.05]}
    plan["shapes"] = [level(0.9)]
    words = (
        "Fig. 6: speed with fewer cache ways. Where a curve crosses the dotted line is what SNS books for alpha 0.9: "
        "in the paper 3 ways for MG, 10 for CG and 18 for BFS. Put in."
    )
    return Picture("How much cache a program needs", {"data": traces, "layout": plan}, words)


def _needs(bench: Bench) -> Picture:
    names, ways, gbs = [], [], []
    for name, program in bench.programs.items():
        wanted = demand(profile_of(program, bench.node), 1, 16, 0.9, bench.node)
        if wanted is not None:
            names.append(safe(name))
            ways.append(wanted.ways)
            gbs.append(wanted.bandwidth_gbs)
    traces = [
        bar("cache ways", names, ways, 0, offsetgroup="a"),
        bar("GB/s (right)", names, gbs, 3, yaxis="y2", offsetgroup="b"),
    ]
    plan = layout(320, "program, 16 processes on one node", "cache ways", showlegend=True, barmode="group")
    plan["margin"]["r"] = 64
    plan["yaxis2"] = {
        "overlaying": "y",
        "tickmode": "auto",
        "side": "right",
        "title": {"text": "GB/s"},
        "showgrid": False,
        "rangemode": "tozero",
    }
    words = "Fig. 12: what SNS books for a program on one node to keep 90 % of its speed. Put in through the profiles."
    return Picture("What SNS books", {"data": traces, "layout": plan}, words)


def _speedups(bench: Bench) -> Picture:
    names = [safe(name) for name in bench.programs]
    traces = []
    for number, scale in enumerate(SCALES[1:]):
        speeds = [one.speedup_at(scale) if scale in one.scales else None for one in bench.programs.values()]
        traces.append(bar(f"{scale} nodes", names, speeds, number, "%{y:.2f} times one node<extra>%{x}</extra>"))
    plan = layout(320, "program, 16 processes", "speed over one node", showlegend=True, barmode="group")
    plan["yaxis"] |= {"range": [0.5, 1.5]}
    plan["shapes"] = [level(1)]
    words = (
        "Fig. 2 and 13: speed of exclusive runs spread over more nodes. Put in. Programs without bars cannot span "
        "nodes."
    )
    return Picture("Gain from spreading", {"data": traces, "layout": plan}, words)
