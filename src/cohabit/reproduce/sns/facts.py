"""Fig. 2 to 7, 12 and 13: what the paper states of single programs. Calibration, and checks between its numbers.

These rows show that the catalogue agrees with the paper; they are not results and claim nothing.
"""

from __future__ import annotations

from typing import Any

from cohabit.model.profile import COMPACT, NEUTRAL, SCALING, classify, demand, stream_gbs
from cohabit.model.program import profile_of
from cohabit.reproduce.rows import CALIBRATED, CHECK, Expected, Row, missing, row
from cohabit.reproduce.sns.lab import Bench
from cohabit.reproduce.sns.plan import Plan
from cohabit.reproduce.tasks import Task

ABOUT_HIDDEN = "the programs are hidden ones; this row is about a program of the paper by name"
STREAM = {1: 18.80, 2: 37.17, 28: 118.26}
SOLO_GBS = {"MG": 112.0, "CG": 42.9, "EP": 0.09, "BFS": 0.12}
WAYS = {"MG": 3, "CG": 10, "BFS": 18, "EP": 2, "HC": 2}
SCALE_8 = ("MG", "LU", "TS", "BW")
NEUTRALS = ("EP", "WC", "NW", "HC")


Fact = tuple[Expected, float | None, str]  # what it is about, its value in the catalogue, and a note


def tasks(plan: Plan) -> list[Task]:
    """Return nothing: all is known."""
    return []


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Return all rows."""
    if plan.hidden:
        return [missing(about, ABOUT_HIDDEN) for about, _, _ in _facts(Bench())] + _classes(plan.bench, hidden=True)
    return [row(about, value, note, n_seeds=0) for about, value, note in _facts(plan.bench)] + _classes(plan.bench)


def _stated(name: str, claim: str, paper: float, value: float, note: str = "", slack: float = 0.005) -> Fact:
    """Return a row for an input: it must equal the paper's number, to the last digit the paper gives."""
    return Expected(name, claim, paper, paper - slack, paper + slack, CALIBRATED), value, note


def _facts(bench: Bench) -> list[Fact]:
    return [*_stream(bench), *_bandwidth(bench), *_ways(bench), *_spreading(bench)]


def _stream(bench: Bench) -> list[Fact]:
    """Fig. 3."""
    node = bench.node
    found = []
    for cores, gbs in STREAM.items():
        words = f"Fig 3: STREAM with {cores} core{'s' * (cores > 1)}"
        found.append(_stated(f"S43.stream_{cores}_gbs", words, gbs, stream_gbs(node, cores)))
    per_core = stream_gbs(node, 28) / 28
    each, share = "Fig 3: GB/s per core with all 28", "Fig 3: that as a share of one core alone"
    found += [
        (Expected("S43.stream_per_core_28_gbs", each, 4.22, 4.21, 4.23, CHECK), per_core, ""),
        (
            Expected("S43.per_core_share_pct", share, 22.45, 22.4, 22.5, CHECK),
            100 * per_core / stream_gbs(node, 1),
            "",
        ),
    ]
    return found


def _bandwidth(bench: Bench) -> list[Fact]:
    """Fig. 4."""
    programs, ways = bench.programs, bench.node.ways
    alone = {name: programs[name].bandwidth_at(1, ways, ways) for name in SOLO_GBS}
    mg = programs["MG"]
    by_rule = mg.bandwidth_gbs.at(ways) * mg.speedup_at(2) / 2
    rises = programs["BFS"].bandwidth_at(2, ways, ways) / alone["BFS"]
    two, total = "Fig 4: MG on two nodes, each, by the scale rule", "MG on two nodes together, by the scale rule"
    more = "Fig 4: BFS draws more per node when spread (times)"
    pinned = "before the value is pinned to 67.6; +-3 %"
    return [
        *(
            _stated(f"S44.{name.lower()}_gbs", f"Fig 4: {name} alone with 16 processes", gbs, alone[name])
            for name, gbs in SOLO_GBS.items()
        ),
        (Expected("S44.mg_two_nodes_gbs", two, 67.6, 65.57, 69.63, CHECK), by_rule, pinned),
        (Expected("S44.mg_two_nodes_total_gbs", total, 135.2, 131.1, 139.3, CHECK), 2 * by_rule, "+-3 %"),
        (Expected("S44.bfs_rises_x", more, None, 1.0, None, CALIBRATED), rises, ""),
    ]


def _ways(bench: Bench) -> list[Fact]:
    """Fig. 6 and 12."""
    found = []
    for name, ways in WAYS.items():
        note = "section 6.1 says CG needs almost all ways, section 2 says 10 (N2)" if name == "CG" else ""
        words = f"Fig 6/12: ways for 90 % of {name}'s speed"
        found.append(_stated(f"S45.{name.lower()}_ways", words, ways, _needed(bench, name) or 0.0, note))
    about = Expected("S45.nw_ways", "Fig 12: NW needs almost all ways", None, 15, 20, CALIBRATED)
    return [*found, (about, _needed(bench, "NW"), "")]


def _needed(bench: Bench, name: str) -> float | None:
    """Return the ways for 90 % of a program's speed."""
    wanted = demand(profile_of(bench.programs[name], bench.node), 1, 16, 0.9, bench.node)
    return None if wanted is None else wanted.ways


def _spreading(bench: Bench) -> list[Fact]:
    """Fig. 5, 7 and 13."""
    programs = bench.programs
    gain = 100 * (programs["CG"].speedup_at(2) - 1)
    spreads = [max(programs[name].speedup.values()) / min(programs[name].speedup.values()) for name in NEUTRALS]
    known = max((programs[name].communication for name in ("MG", "CG", "EP")), default=-1.0)
    within, slower = "Fig 13: EP, WC, NW and HC stay within 5 %", "Fig 13: BFS is slower on two nodes"
    talk = "Fig 7: communication of MG, CG and EP on one node"
    lost = "the catalogue has no communication shares: the figure is lost and the text gives a bound only"
    found = [_stated("S49.cg_gain_pct", "Fig 13: CG's gain at its ideal scale, 2", 13, gain, slack=0.5)]
    for name in SCALE_8:
        words = f"Fig 13: {name} gains over 30 % on 8 nodes"
        about = Expected(f"S49.{name.lower()}_gain_pct", words, 30, 30, None, CALIBRATED)
        found.append((about, 100 * (programs[name].speedup_at(8) - 1), ""))
    found += [
        (Expected("S52.neutral_spread_pct", within, 5, 0, 5, CALIBRATED), 100 * (max(spreads) - 1), ""),
        (Expected("S52.bfs_speedup_2", slower, 1, 0, 1, CALIBRATED), programs["BFS"].speedup_at(2), ""),
        (
            Expected("S46.communication_pct", talk, 10, 0, 10, CALIBRATED),
            100 * known if known >= 0 else None,
            "" if known >= 0 else lost,
        ),
    ]
    return found + _traffic(bench)


def _traffic(bench: Bench) -> list[Fact]:
    """Fig. 5, whose miss rates the text does not state: what a program reads from memory for the same work."""
    ways = bench.node.ways
    unstated = "the text states no miss rates; memory traffic per unit of work stands for them"
    found: list[Fact] = []
    for name, low, high, words in (
        ("MG", None, 1, "misses less"),
        ("CG", None, 1, "misses no more"),
        ("BFS", 1, None, "misses far more"),
    ):
        program = bench.programs[name]
        spread = 2 * program.bandwidth_at(2, ways, ways) / program.speedup_at(2)
        about = Expected(
            f"S46.{name.lower()}_traffic_x", f"Fig 5: {name} {words} on two nodes (times)", None, low, high, CALIBRATED
        )
        found.append((about, spread / program.bandwidth_at(1, ways, ways), unstated))
    little = Expected("S46.ep_traffic_gbs", "Fig 5: EP misses hardly ever (GB/s)", None, 0, 1, CALIBRATED)
    return [*found, (little, bench.programs["EP"].bandwidth_at(1, ways, ways), unstated)]


def _classes(bench: Bench, hidden: bool = False) -> list[Row]:
    kinds = [classify(profile_of(program, bench.node), bench.node).kind for program in bench.programs.values()]
    note = "hidden programs have the paper's numbers of each class" if hidden else "GAN and RNN count as compact (N6)"
    return [
        row(
            Expected(f"S48.{kind}_programs", f"{kind} programs among the twelve", count, count, count, CALIBRATED),
            kinds.count(kind),
            note,
            n_seeds=0,
        )
        for kind, count in ((SCALING, 5), (NEUTRAL, 4), (COMPACT, 3))
    ]
