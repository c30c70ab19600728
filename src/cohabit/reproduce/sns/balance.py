"""Experiment 6 (Fig. 17 and 18): how evenly memory bandwidth is used, 8 nodes x 60 episodes of 30 s, CE against SNS."""

from __future__ import annotations

from typing import Any

import numpy as np

from cohabit.model.units import SECOND
from cohabit.report.paper_metrics import bandwidth_imbalance
from cohabit.reproduce.rows import Expected, Row, expected, joined, row_over_sets
from cohabit.reproduce.sns.lab import PLAIN, ROUGH, Bench, Conditions, Floats, simulate
from cohabit.reproduce.sns.plan import FULL, Plan
from cohabit.reproduce.sns.sequences import RATIOS
from cohabit.reproduce.tasks import Task
from cohabit.sim.machine.recorder import BandwidthRecorder
from cohabit.sim.streams import stream
from cohabit.trace.mix import generate_sequence

EPISODES, EPISODE_S = 60, 30
CONDITIONS = {"plain": PLAIN, "rough": ROUGH}


def run(bench: Bench, seed: int, number: int, conditions: Conditions) -> dict[str, Floats]:
    """The matrices of one sequence; runs in a worker."""
    workload = generate_sequence(stream(seed, f"recorded {number}"), bench.programs, ratio=RATIOS, nodes=8)
    world_seed = int(stream(seed, f"recorded world {number}").integers(0, 2**40))
    found = {}
    for policy in ("ce", "sns"):
        recorder = BandwidthRecorder(EPISODE_S * SECOND, begin_us=0)
        simulate(bench, policy, workload, conditions, seed=world_seed, recorder=recorder)
        drawn = recorder.matrix()
        matrix = np.zeros((8, EPISODES))
        columns = min(EPISODES, drawn.shape[1])
        matrix[:, :columns] = drawn[:, :columns]
        found[policy] = matrix
    return found


def tasks(plan: Plan) -> list[Task]:
    """One task per recorded sequence and world."""
    return [
        Task(
            f"balance {name} {number}",
            run,
            {"bench": plan.bench, "seed": plan.seed("balance"), "number": number, "conditions": conditions},
            0.5,
        )
        for name, conditions in CONDITIONS.items()
        for number in range(plan.sizes.balance)
    ]


def matrices(plan: Plan, results: dict[str, Any], name: str = "plain") -> list[dict[str, Floats]]:
    """All matrices of one world."""
    return [results[f"balance {name} {number}"] for number in range(plan.sizes.balance)]


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Standard deviation over peak; every recorded sequence counts as a seed."""
    plain, rough = ([[one] for one in matrices(plan, results, name)] for name in CONDITIONS)
    size = plan.shortened(len(plain), FULL.balance, "sequences")
    words = "mean over as many random sequences; the peak is the largest episode of each run"

    def of(policy: str) -> Any:
        return lambda members: bandwidth_imbalance(members[0][policy])

    def ratio(members: Any) -> float | None:
        sns, ce = of("sns")(members), of("ce")(members)
        return sns / ce if sns is not None and ce else None

    def own_span(members: Any) -> float | None:
        parts = [bandwidth_imbalance(_until_idle(members[0][policy])) for policy in ("sns", "ce")]
        return parts[0] / parts[1] if parts[0] is not None and parts[1] else None

    def near(policy: str, low: float, high: float) -> Any:
        return lambda members: _share(
            members[0][policy], low, high, max(float(one.max()) for one in members[0].values())
        )

    ours = [
        (Expected("S59.sns_std_over_peak", "std/peak of bandwidth under SNS", 0.25, 0.22, 0.30), plain, of("sns")),
        (Expected("S59.ce_std_over_peak", "std/peak of bandwidth under CE", 0.40, 0.35, 0.45), plain, of("ce")),
        (
            Expected(
                "S59.bw_imbalance_ratio_rough", "std/peak SNS over CE with phases and profile error", 0.625, 0.0, 1.0
            ),
            rough,
            ratio,
        ),
        (
            Expected(
                "S59.bw_imbalance_ratio_busy",
                "std/peak SNS over CE, each only until its last job ends",
                0.625,
                0.0,
                1.0,
            ),
            plain,
            own_span,
        ),
        (
            Expected(
                "S59.near_peak_change_points",
                "Fig 18: episodes above 80 % of the peak, SNS minus CE (points)",
                None,
                None,
                0.0,
            ),
            plain,
            lambda m: near("sns", 0.8, 2.0)(m) - near("ce", 0.8, 2.0)(m),
        ),
        (
            Expected(
                "S59.near_idle_change_points",
                "Fig 18: episodes below 10 % of the peak, SNS minus CE (points)",
                None,
                None,
                0.0,
            ),
            plain,
            lambda m: near("sns", -1.0, 0.1)(m) - near("ce", -1.0, 0.1)(m),
        ),
    ]
    why = (
        "SNS ends a sequence earlier, and its idle nodes at the end count as imbalance; while jobs run it books nodes "
        "up to their whole bandwidth, where single jobs under CE often draw 40 to 90 GB/s"
    )
    busy = float(np.mean([own_span(members) or 0.0 for members in plain]))
    note = joined(words, f"counted only until the last job ends: {busy:.2f}", why, size)
    found = [row_over_sets(expected("S59.bw_imbalance_ratio"), plain, ratio, _rng(plan, "ratio"), note)]
    for about, sets, statistic in ours:
        soft = "soft band" if about.id.endswith("std_over_peak") else ""
        found.append(row_over_sets(about, sets, statistic, _rng(plan, about.id), joined(soft, size)))
    return found


def _until_idle(cells: Floats) -> Floats:
    used = np.flatnonzero(cells.sum(axis=0) > 0)
    return cells[:, : int(used[-1]) + 1] if len(used) else cells


def _share(cells: Floats, low: float, high: float, peak: float) -> float:
    if peak <= 0:
        return 0.0
    relative = cells / peak
    return 100 * float(((relative >= low) & (relative < high)).mean())


def _rng(plan: Plan, name: str) -> np.random.Generator:
    return stream(plan.seed("bootstrap"), f"balance {name}")
