"""Sequences of 20 jobs on 8 nodes, as in Spread-n-Share's evaluation, with phases and 5 % profile error.

Three worlds: the catalogue's programs, hidden ones drawn anew for every set, and profiles that are wrong by 20 %. Gains
are over CE in its own order; what another order brings by itself stands beside it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cohabit.reproduce.joint.plan import CE_SAF, FULL, MEASURED, OTHERS, OURS, OURS_SAF, PLANNED, Plan, Sizes
from cohabit.reproduce.rows import Claim, Row, joined, own, stated
from cohabit.reproduce.sns import sequences
from cohabit.reproduce.sns.lab import Conditions, Strategy
from cohabit.reproduce.sns.sequences import Sequence20, Sequences, Statistic, count_of_36, extreme_gain, mean_gain
from cohabit.reproduce.tasks import Task

CATALOGUE, HIDDEN, ERROR = "catalogue", "hidden", "error20"
WORLDS: dict[str, tuple[str, Conditions]] = {
    CATALOGUE: ("programs of the catalogue", MEASURED),
    HIDDEN: ("hidden programs, drawn anew for every set", MEASURED),
    ERROR: ("profiles wrong by 20 %", replace(MEASURED, profile_noise=0.2)),
}
STRATEGIES: dict[str, tuple[str | Strategy, ...]] = {
    CATALOGUE: (*OTHERS, CE_SAF, OURS, OURS_SAF),
    HIDDEN: (*OTHERS, OURS),
    ERROR: ("ce", "sns", OURS),
}
FORM = "planned"  # its runs take long and are tasks of their own; CE runs again beside it
RUN_S, PLANNED_S = 0.1, 1.0  # roughly


def tasks(plan: Plan) -> list[Task]:
    """All worlds, and the planned form on the sequences of the first."""
    sizes, seed, found = plan.sizes, plan.seed("sequences"), []
    for world, (_, conditions) in WORLDS.items():
        sets, count = _size(sizes, world)
        benches = [plan.drawn(number) if world == HIDDEN else plan.bench for number in range(sets)]
        found += sequences.chunked(world, benches, count, sizes.jobs, seed, STRATEGIES[world], conditions, RUN_S)
    planned, main = ("ce", PLANNED), [plan.bench] * sizes.sets
    return found + sequences.chunked(FORM, main, sizes.sequences, sizes.jobs, seed, planned, MEASURED, PLANNED_S)


def _size(sizes: Sizes, world: str) -> tuple[int, int]:
    """Return the number of sets and of sequences in each."""
    if world == HIDDEN:
        return sizes.hidden_sets, sizes.hidden_sequences
    return (sizes.error_sets, sizes.error_sequences) if world == ERROR else (sizes.sets, sizes.sequences)


def violations_pct(strategy: str) -> Statistic:
    """Return the share of runs beyond 1.1 times the CE run, in percent."""

    def statistic(members: Sequences) -> float:
        jobs = sum(len(one.times[strategy].run_s) for one in members)
        return 100 * sum(one.violations(strategy) for one in members) / jobs

    return statistic


def violations_over(strategy: str, other: str) -> Statistic:
    """Return by how many points more runs are beyond 1.1 times CE than under another strategy."""
    ours, theirs = violations_pct(strategy), violations_pct(other)
    return lambda members: (ours(members) or 0.0) - (theirs(members) or 0.0)


def losses(strategy: str) -> Statistic:
    """Return in how many sequences of 36 CE has the shorter mean turnaround."""

    def loses(one: Sequence20) -> bool:
        return one.gain_pct(strategy) < 0

    return count_of_36(loses)


def worst_run(strategy: str) -> Statistic:
    """Return the slowest run of a set against CE."""
    return lambda members: max(float(one.run_times(strategy).max()) for one in members)


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """The contract, then every strategy in every world."""
    found = [_measured(plan, results, claim) for claim in _contract()]
    for world, (words, _) in WORLDS.items():
        for strategy in STRATEGIES[world]:
            name = strategy if isinstance(strategy, str) else strategy.name
            found += [_measured(plan, results, one) for one in _beside(world, words, name) if name != "ce"]
    planned = _beside(FORM, WORLDS[CATALOGUE][0], PLANNED.name)
    return found + [_measured(plan, results, one) for one in planned]


def _measured(plan: Plan, results: dict[str, Any], claim: Claim) -> Row:
    sets = sequences.gathered(claim.of, results)
    seeds, each = _size(FULL, claim.of)
    size = joined(plan.shortened(len(sets), seeds, "seeds"), plan.shortened(len(sets[0]), each, "sequences of a set"))
    return plan.measured(claim, sets, "hidden programs, one draw" if plan.hidden and claim.of != HIDDEN else "", size)


def _contract() -> list[Claim]:
    """Return the rows of rows-joint.csv."""
    ours, saf, planned = OURS.name, OURS_SAF.name, PLANNED.name
    order = "order alone brings much of it: the next row is against CE in the same order"
    return [
        stated("J.fcfs_gain_pct", mean_gain(ours), of=CATALOGUE),
        stated("J.fcfs_violations_pct", violations_pct(ours), of=CATALOGUE),
        stated("J.fcfs_losses_to_ce", losses(ours), of=CATALOGUE),
        stated("J.saf_gain_pct", mean_gain(saf), order, of=CATALOGUE),
        stated("J.saf_over_ce_saf_pct", mean_gain(saf, CE_SAF.name), of=CATALOGUE),
        stated("J.planned_gain_pct", mean_gain(planned), of=FORM),
        stated("J.planned_violations_pct", violations_pct(planned), of=FORM),
        stated("J.hidden_gain_pct", mean_gain(ours), of=HIDDEN),
        stated("J.hidden_violations_over_sns_points", violations_over(ours, "sns"), of=HIDDEN),
        stated("J.error20_gain_pct", mean_gain(ours), of=ERROR),
        stated("J.error20_violations_over_sns_points", violations_over(ours, "sns"), of=ERROR),
    ]


def _beside(world: str, words: str, strategy: str) -> list[Claim]:
    """Return what is reported of every strategy; the contract's own figures are not repeated."""
    tag = f"J-{world}.{tag_of(strategy)}"
    return [
        own(f"{tag}_gain_pct", f"gain of {strategy} over CE, {words}", mean_gain(strategy), of=world),
        own(f"{tag}_violations_pct", f"runs of {strategy} beyond 1.1x CE, {words}", violations_pct(strategy), of=world),
        own(f"{tag}_losses_to_ce", f"sequences of 36 that {strategy} loses to CE, {words}", losses(strategy), of=world),
        own(
            f"{tag}_least_gain_pct",
            f"smallest gain of {strategy}, {words}",
            extreme_gain(strategy, "ce", False),
            of=world,
        ),
        own(f"{tag}_worst_run_x", f"slowest run of {strategy} against CE, {words}", worst_run(strategy), of=world),
    ]


def tag_of(strategy: str) -> str:
    """Return the name of a strategy as part of a row's name."""
    return strategy.replace(", smallest area first", "_saf").replace(", ", "_").replace("-", "_")
