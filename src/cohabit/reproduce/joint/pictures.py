"""The comparison as pictures: gains and broken bounds of every strategy beside each other, and each part's worth."""

from __future__ import annotations

from typing import Any

from cohabit.report.figures import Figure, bar, layout, level, line, safe
from cohabit.reproduce.joint import ablations, arrivals, traces
from cohabit.reproduce.joint.plan import CE_SAF, OURS, OURS_SAF, PLANNED, Plan
from cohabit.reproduce.joint.sequences import CATALOGUE, ERROR, FORM, HIDDEN, STRATEGIES, violations_pct
from cohabit.reproduce.papers import Picture
from cohabit.reproduce.sns import sequences
from cohabit.reproduce.sns.sequences import Sequence20, mean_gain
from cohabit.reproduce.sns.trinity import RATIOS, trace_file

COLOURS = {"ce-easy": 7, "cs": 0, "sns": 1, OURS.name: 2, CE_SAF.name: 5, OURS_SAF.name: 3, PLANNED.name: 4}
WORLDS = {CATALOGUE: "catalogue", HIDDEN: "hidden programs", ERROR: "profiles wrong by 20 %"}


def pictures(plan: Plan, results: dict[str, Any]) -> list[Picture]:
    """Return all figures."""
    found = [_gains(results), _violations(results), _sorted(results)]
    if trace_file(plan.options.shared) is not None:
        found.append(_trinity(plan, results))
    return [*found, _arrivals(plan, results), _parts(results)]


def _members(results: dict[str, Any], world: str) -> list[Sequence20]:
    return [one for members in sequences.gathered(world, results) for one in members]


def _of_worlds(results: dict[str, Any], statistic: Any) -> dict[str, dict[str, float]]:
    """Return a statistic by strategy and world."""
    found: dict[str, dict[str, float]] = {}
    for world, words in WORLDS.items():
        members = _members(results, world)
        for one in STRATEGIES[world]:
            name = one if isinstance(one, str) else one.name
            found.setdefault(name, {})[words] = statistic(name)(members)
    found[PLANNED.name] = {WORLDS[CATALOGUE]: statistic(PLANNED.name)(_members(results, FORM))}
    return found


def _grouped(values: dict[str, dict[str, float]], unit: str) -> list[Figure]:
    return [
        bar(
            name, list(values[name]), list(values[name].values()), number, "%{y:.1f} " + unit + f"<extra>{name}</extra>"
        )
        for name, number in COLOURS.items()
        if name in values
    ]


def _gains(results: dict[str, Any]) -> Picture:
    values = _of_worlds(results, mean_gain)
    figure = layout(380, "", "mean gain over CE (%)", showlegend=True, barmode="group", shapes=[level(0.0)])
    words = (
        "Mean turnaround of CE, one job per node in order of arrival, over that of every strategy: 20 jobs on eight "
        "nodes, with phases and 5 % profile error. Smallest area first gains by order alone, so it stands "
        "beside CE in that order."
    )
    return Picture("Turnaround against one job per node", {"data": _grouped(values, "%"), "layout": figure}, words)


def _violations(results: dict[str, Any]) -> Picture:
    values = _of_worlds(results, violations_pct)
    figure = layout(340, "", "runs beyond 1.1 times CE (%)", showlegend=True, barmode="group")
    words = "How many runs take more than 1.1 times as long as alone on whole nodes: what the gains above cost."
    return Picture("Runs that are slowed too much", {"data": _grouped(values, "% of runs"), "layout": figure}, words)


def _sorted(results: dict[str, Any]) -> Picture:
    members = _members(results, CATALOGUE)
    place = [100 * index / max(len(members) - 1, 1) for index in range(len(members))]
    curves = [
        line(place, sorted(1 + one.gain_pct(name) / 100 for one in members), name, COLOURS[name])
        for name in ("ce-easy", "cs", "sns", OURS.name)
    ]
    figure = layout(340, "sequences, sorted (%)", "gain over CE (times)", showlegend=True, shapes=[level(1.0)])
    words = "Sequences of the catalogue's programs, each curve sorted by itself. Below the dotted line CE is better."
    return Picture("How often it wins and loses", {"data": curves, "layout": figure}, words)


def _trinity(plan: Plan, results: dict[str, Any]) -> Picture:
    values: dict[str, dict[str, float]] = {}
    for nodes in traces.machines(plan):
        for ratio in RATIOS:
            where = f"{nodes:,} nodes, {ratio:g}"
            for name in ("cs", "sns", OURS.name):
                known = traces.compared(results, traces.gain_pct, nodes, name, ratio)
                values.setdefault(name, {})[where] = sum(one or 0.0 for one in known) / len(known)
    figure = layout(380, "", "gain over CE with EASY (%)", showlegend=True, barmode="group", shapes=[level(0.0)])
    words = (
        "Jobs of the LANL Trinity trace, 90 % or 50 % of them given programs that gain from spreading: mean turnaround "
        "of CE with EASY backfilling over that of each strategy, mean over draws."
    )
    return Picture("A real log on large machines", {"data": _grouped(values, "%"), "layout": figure}, words)


def _arrivals(plan: Plan, results: dict[str, Any]) -> Picture:
    members = [one for chosen in arrivals.gathered(plan, results) for one in chosen]
    names = ("ce", "cs", "sns", OURS.name)
    values = {
        name: {f"load {load:g}": arrivals.gain_pct(members, name, load) for load in arrivals.LOADS} for name in names
    }
    figure = layout(340, "", "gain over CE with EASY (%)", showlegend=True, barmode="group", shapes=[level(0.0)])
    traces_of = [
        bar(name, list(values[name]), list(values[name].values()), COLOURS.get(name, 6), "%{y:.1f} %") for name in names
    ]
    words = "Jobs that arrive over time, with requests as real users make them: mean turnaround against CE with EASY."
    return Picture("Arrivals and real estimates", {"data": traces_of, "layout": figure}, words)


def _parts(results: dict[str, Any]) -> Picture:
    chosen = ablations.strategies()[::-1]
    labels = [safe("cohabit" if one is OURS else ablations.PARTS[one.name][0]) for one in chosen]
    data = []
    for number, (world, where) in enumerate(ablations.WORLDS.items(), 2):
        members = ablations.members(results, world)
        gains = [mean_gain(one.name)(members) or 0.0 for one in chosen]
        data.append(bar(where, gains, labels, number, "%{x:+.1f} % over CE<extra>%{y}</extra>", orientation="h"))
    figure = layout(120 + 44 * len(labels), "mean gain over CE (%)", "", showlegend=True, barmode="group")
    words = (
        "The same sequences with one part of the policy switched off by its key; the topmost is the policy as it is."
    )
    return Picture("Parts taken away", {"data": data, "layout": figure}, words)
