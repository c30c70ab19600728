"""Fig. 2 to 4, 6, 12 and 13: single programs, from their profiles. Fig. 5 and 7 need numbers the paper's text lacks."""

from __future__ import annotations

from cohabit.model.profile import demand, stream_gbs
from cohabit.model.program import profile_of
from cohabit.report.figures import Figure, colour, layout, safe
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
    traces: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": cores,
            "y": total,
            "name": "all cores together",
            "line": {"color": colour(1), "width": 2},
        },
        {
            "type": "scatter",
            "mode": "lines",
            "x": cores,
            "y": [gbs / one for gbs, one in zip(total, cores, strict=True)],
            "name": "per core",
            "line": {"color": colour(0), "width": 2, "dash": "dash"},
        },
    ]
    plan = layout(300, "active cores", "GB/s (logarithmic)", showlegend=True)
    plan["yaxis"] |= {"type": "log", "dtick": "D2"}
    words = (
        "Fig. 3: what so many cores can draw from one node's memory. Put in: three points are stated, the rest assumed."
    )
    return Picture("Memory bandwidth of one node", {"data": traces, "layout": plan}, words)


def _per_node(bench: Bench, shown: tuple[str, ...]) -> Picture:
    ways = bench.node.ways
    traces: list[Figure] = [
        {
            "type": "bar",
            "name": f"{scale} node{'s' * (scale > 1)}",
            "x": [safe(name) for name in shown],
            "y": [bench.programs[name].bandwidth_at(scale, ways, ways) for name in shown],
            "marker": {"color": colour(number)},
            "hovertemplate": "%{y:.3g} GB/s<extra>%{x}</extra>",
        }
        for number, scale in enumerate((1, 2))
    ]
    plan = layout(300, "program, 16 processes", "GB/s per node (logarithmic)", showlegend=True, barmode="group")
    plan["yaxis"] |= {"type": "log", "dtick": 1}
    words = (
        "Fig. 4: bandwidth each node delivers to a program that runs alone. Put in; MG draws 112.0 on one "
        "node and 67.6 "
        "on each of two."
    )
    return Picture("Bandwidth of single programs", {"data": traces, "layout": plan}, words)


def _sensitivity(bench: Bench, shown: tuple[str, ...]) -> Picture:
    ways = list(range(2, bench.node.ways + 1))
    traces: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": safe(name),
            "x": ways,
            "y": [bench.programs[name].ipc_at(1, one, bench.node.ways) for one in ways],
            "line": {"color": colour(number), "width": 2, "dash": ("solid", "dash", "dot", "dashdot")[number % 4]},
        }
        for number, name in enumerate(shown)
    ]
    plan = layout(320, "cache ways", "speed over speed with all ways", showlegend=True)
    plan["yaxis"] |= {"range": [0, 1.05]}
    plan["shapes"] = [
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": 0.9,
            "y1": 0.9,
            "line": {"color": "@muted", "width": 1.5, "dash": "dot"},
        }
    ]
    words = (
        "Fig. 6: speed with fewer cache ways. Where a curve crosses the dotted line is what SNS books for "
        "alpha 0.9: in "
        "the paper 3 ways for MG, 10 for CG and 18 for BFS. Put in."
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
    traces: list[Figure] = [
        {
            "type": "bar",
            "name": "cache ways",
            "x": names,
            "y": ways,
            "marker": {"color": colour(0)},
            "offsetgroup": "a",
        },
        {
            "type": "bar",
            "name": "GB/s (right)",
            "x": names,
            "y": gbs,
            "marker": {"color": colour(3)},
            "yaxis": "y2",
            "offsetgroup": "b",
        },
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
    names = list(bench.programs)
    traces: list[Figure] = [
        {
            "type": "bar",
            "name": f"{scale} nodes",
            "x": [safe(name) for name in names],
            "y": [
                bench.programs[name].speedup_at(scale) if scale in bench.programs[name].scales else None
                for name in names
            ],
            "marker": {"color": colour(number)},
            "hovertemplate": "%{y:.2f} times one node<extra>%{x}</extra>",
        }
        for number, scale in enumerate(SCALES[1:])
    ]
    plan = layout(320, "program, 16 processes", "speed over one node", showlegend=True, barmode="group")
    plan["yaxis"] |= {"range": [0.5, 1.5]}
    plan["shapes"] = [
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": 1,
            "y1": 1,
            "line": {"color": "@muted", "width": 1.5, "dash": "dot"},
        }
    ]
    words = (
        "Fig. 2 and 13: speed of exclusive runs spread over more nodes. Put in. Programs without bars cannot "
        "span nodes."
    )
    return Picture("Gain from spreading", {"data": traces, "layout": plan}, words)
