"""The rows of experiments 4 and 5: throughput against CE and CS, run times, and both contention models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cohabit.reproduce.rows import Expected, Row, expected, joined, row_over_sets
from cohabit.reproduce.sns import sequences
from cohabit.reproduce.sns.lab import ROUGH, Conditions
from cohabit.reproduce.sns.plan import FULL, Plan
from cohabit.reproduce.sns.sequences import (
    Sequence20,
    Sequences,
    Statistic,
    beats_cs,
    count_of_36,
    extreme_gain,
    mean_gain,
    mean_gain_where,
)
from cohabit.reproduce.tasks import Task
from cohabit.sim.streams import stream

PLAIN_SETS, ROUGH_SETS, OCCUPANCY_SETS = "sequences", "rough sequences", "occupancy sequences"
OCCUPANCY = Conditions(contention="occupancy")


def tasks(plan: Plan) -> list[Task]:
    """Plain, with phases and profile error, and under the second contention model."""
    sizes, bench, seed = plan.sizes, plan.bench, plan.seed("sequences")
    found = sequences.tasks(
        PLAIN_SETS, bench, seed, sizes.sets, sizes.sequences, sizes.jobs, ("ce", "cs", "sns", "ce-easy")
    )
    found += sequences.tasks(ROUGH_SETS, bench, seed, sizes.sets, sizes.rough_sequences, sizes.jobs, conditions=ROUGH)
    found += sequences.tasks(
        OCCUPANCY_SETS, bench, seed, sizes.sets, sizes.occupancy_sequences, sizes.jobs, conditions=OCCUPANCY
    )
    return found


def own(name: str, claim: str, paper: float | None, low: float | None = None, high: float | None = None) -> Expected:
    """An emergent row of our own; bands only where the specification's section 5.1 gives one."""
    return Expected(name, claim, paper, low, high)


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """S53 to S56 and S58, plain world; the same claims in the two other worlds."""
    sets = sequences.gathered(PLAIN_SETS, results)
    size = plan.shortened(len(sets[0]), FULL.sequences, "sequences of a set")
    found = [
        row_over_sets(expected(name), sets, statistic, _rng(plan, name), joined(note, size))
        for name, (statistic, note) in _contract().items()
    ]
    found += [row_over_sets(about, sets, one, _rng(plan, about.id), joined(note, size)) for about, one, note in _ours()]
    found += _elsewhere(plan, results, ROUGH_SETS, "rough", "with phases and 5 % profile error", FULL.rough_sequences)
    found += _elsewhere(
        plan, results, OCCUPANCY_SETS, "occupancy", "under the second contention model", FULL.occupancy_sequences
    )
    return found


def _loses(one: Sequence20) -> bool:
    return not beats_cs(one)


def _contract() -> dict[str, tuple[Statistic, str]]:
    """The rows of rows.csv: statistic and note."""
    return {
        "S54.sns_gain_pct": (mean_gain("sns"), ""),
        "S54.cs_gain_pct": (mean_gain("cs"), "depends on q, the cache pressure of a core in the unpartitioned cache"),
        "S54.sns_max_gain_pct": (extreme_gain("sns"), ""),
        "S54.sns_losses_to_ce": (
            count_of_36(lambda one: one.gain_pct("sns") < 0),
            "a negative case, reported as it is",
        ),
        "S55.sns_beats_cs": (count_of_36(beats_cs), ""),
        "S55.sns_over_cs_when_winning_pct": (mean_gain_where(beats_cs, "sns", "cs"), ""),
        "S56.sns_runtime_below_cs": (count_of_36(lambda one: one.mean_run_time("sns") < one.mean_run_time("cs")), ""),
        "S56.sns_worst_mean_runtime": (lambda members: max(one.mean_run_time("sns") for one in members), ""),
        "S56.cs_worst_job_x": (lambda members: max(float(one.run_times("cs").max()) for one in members), ""),
    }


def _ours() -> list[tuple[Expected, Statistic, str]]:
    """Return all other rows of the paper's sequences."""
    return [
        (
            own("S53.ce_makespan_min", "a sequence lasts about half an hour under CE (minutes)", 30, 20, 40),
            lambda members: float(np.mean([one.makespan_s("ce") for one in members])) / 60,
            "",
        ),
        (
            own("S53.smallest_scaling_ratio", "smallest share of core-hours by scaling programs", 0.4, 0.4, 0.8),
            lambda members: min(one.ratio for one in members),
            "sequences outside 0.4 to 0.8 are drawn again",
        ),
        (
            own("S53.largest_scaling_ratio", "largest share of core-hours by scaling programs", 0.8, 0.4, 0.8),
            lambda members: max(one.ratio for one in members),
            "sequences outside 0.4 to 0.8 are drawn again",
        ),
        (own("S54.sns_worst_gain_pct", "smallest gain of SNS over CE", -2.0), extreme_gain("sns", largest=False), ""),
        (
            own("S54.easy_gain_pct", "CE with EASY backfilling, the fair baseline, over CE", None),
            mean_gain("ce-easy"),
            "every job needs one node and all come at once, so reservations change nothing",
        ),
        (
            own("S54.sns_gain_over_easy_pct", "mean throughput gain of SNS over CE with EASY backfilling", None, 0.0),
            mean_gain("sns", "ce-easy"),
            "the claim against the fair baseline: must stay above 0",
        ),
        (
            own(
                "S55.sns_over_cs_pct",
                "mean gain of SNS over CS over all sequences (5.4 to 5.8 by the paper's parts)",
                5.6,
            ),
            mean_gain("sns", "cs"),
            "",
        ),
        (own("S55.sns_over_cs_max_pct", "largest gain of SNS over CS", 27.0), extreme_gain("sns", "cs"), ""),
        (
            own("S55.sns_losses_to_cs", "sequences where SNS is worse than CS (of 36)", 10),
            count_of_36(_loses),
            "a negative case, reported as it is",
        ),
        (own("S55.sns_below_cs_when_losing_pct", "mean loss in those", -9.1), mean_gain_where(_loses, "sns", "cs"), ""),
        (
            own("S55.sns_below_cs_worst_pct", "worst loss of SNS against CS", -23.2),
            extreme_gain("sns", "cs", largest=False),
            "",
        ),
        (
            own(
                "S56.sns_mean_runtime",
                "mean over sequences of SNS's normalised run time (mean speedup 1.8 %)",
                0.982,
                0.93,
                1.03,
            ),
            lambda members: float(np.mean([one.mean_run_time("sns") for one in members])),
            "",
        ),
        (
            own("S56.cs_mean_runtime", "mean over sequences of CS's normalised run time", None),
            lambda members: float(np.mean([one.mean_run_time("cs") for one in members])),
            "",
        ),
        (
            own("S58.sequences_longer_runtime", "sequences with a longer mean run time than CE under SNS", 9),
            count_of_36(lambda one: one.mean_run_time("sns") > 1),
            "the paper says 9 out of 34 here and 36 elsewhere (N3)",
        ),
    ]


def _elsewhere(plan: Plan, results: dict[str, Any], name: str, tag: str, where: str, full: int) -> list[Row]:
    """The main claims in another world; the signs must survive, so the bands are one-sided."""
    sets = sequences.gathered(name, results)
    size = plan.shortened(len(sets[0]), full, "sequences of a set")
    claims: list[tuple[str, str, float, float, Statistic]] = [
        ("S54.sns_gain_pct", "mean throughput gain of SNS over CE", 19.8, 0.0, mean_gain("sns")),
        ("S54.cs_gain_pct", "mean throughput gain of CS over CE", 13.7, 0.0, mean_gain("cs")),
        ("S55.sns_beats_cs", "sequences where SNS beats CS (of 36)", 26, 18.0, count_of_36(beats_cs)),
        (
            "S56.sns_runtime_below_cs",
            "sequences where SNS's mean normalised run time is below CS's (of 36)",
            36,
            18.0,
            count_of_36(lambda one: one.mean_run_time("sns") < one.mean_run_time("cs")),
        ),
        (
            "S54.sns_losses_to_ce",
            "sequences where SNS is worse than CE (of 36)",
            1,
            0.0,
            count_of_36(lambda one: one.gain_pct("sns") < 0),
        ),
    ]
    found = []
    for claim, words, paper, low, statistic in claims:
        high = 18.0 if claim.endswith("losses_to_ce") else None
        about = Expected(f"{claim}_{tag}", f"{words}, {where}", paper, low, high)
        note = joined("the sign must survive: band is one-sided", size)
        found.append(row_over_sets(about, sets, statistic, _rng(plan, about.id), note))
    return found


def means(members: Sequences) -> dict[str, float]:
    """The main claims of a set, for sensitivity and ablations."""
    return {
        "sns_gain_pct": float(np.mean([one.gain_pct("sns") for one in members])),
        "cs_gain_pct": float(np.mean([one.gain_pct("cs") for one in members])) if "cs" in members[0].times else 0.0,
        "beats_cs": sum(map(beats_cs, members)) / len(members) if "cs" in members[0].times else 0.0,
        "below_cs": _below_cs(members) if "cs" in members[0].times else 0.0,
        "mean_runtime": float(np.mean([one.mean_run_time("sns") for one in members])),
    }


def _below_cs(members: Sequences) -> float:
    return sum(one.mean_run_time("sns") < one.mean_run_time("cs") for one in members) / len(members)


def _rng(plan: Plan, name: str) -> np.random.Generator:
    return stream(plan.seed("bootstrap"), name)


def all_sets(results: dict[str, Any]) -> Sequence[Sequences]:
    """Return the plain sets."""
    return sequences.gathered(PLAIN_SETS, results)
