"""Experiment 6 (Fig. 17 and 18): how evenly memory bandwidth is used, 8 nodes x 60 episodes of 30 s, CE against SNS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cohabit.model.units import SECOND
from cohabit.report.paper_metrics import bandwidth_imbalance
from cohabit.reproduce.rows import Row, joined, own, stated
from cohabit.reproduce.sns.lab import PLAIN, ROUGH, Bench, Conditions, Floats, simulate
from cohabit.reproduce.sns.plan import FULL, Plan
from cohabit.reproduce.sns.sequences import RATIOS
from cohabit.reproduce.tasks import Task
from cohabit.sim.machine.recorder import BandwidthRecorder
from cohabit.sim.streams import stream
from cohabit.trace.mix import generate_sequence

EPISODES, EPISODE_S = 60, 30
CONDITIONS = {"plain": PLAIN, "rough": ROUGH}
Members = Sequence[dict[str, Floats]]
Statistic = Callable[[Members], float | None]


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

    busy = "std/peak SNS over CE, each only until its last job ends"
    phases = "std/peak SNS over CE with phases and profile error"
    near_peak = "Fig 18: episodes above 80 % of the peak, SNS minus CE (points)"
    near_idle = "Fig 18: episodes below 10 % of the peak, SNS minus CE (points)"
    soft = "soft band"
    claims = [
        own(
            "S59.sns_std_over_peak", "std/peak of bandwidth under SNS", of("sns"), 0.25, 0.22, 0.30, note=soft, of=plain
        ),
        own("S59.ce_std_over_peak", "std/peak of bandwidth under CE", of("ce"), 0.40, 0.35, 0.45, note=soft, of=plain),
        own("S59.bw_imbalance_ratio_rough", phases, ratio, 0.625, 0.0, 1.0, of=rough),
        own("S59.bw_imbalance_ratio_busy", busy, own_span, 0.625, 0.0, 1.0, of=plain),
        own("S59.near_peak_change_points", near_peak, change_of_share(0.8, 2.0), high=0.0, of=plain),
        own("S59.near_idle_change_points", near_idle, change_of_share(-1.0, 0.1), high=0.0, of=plain),
    ]
    why = (
        "SNS ends a sequence earlier, and its idle nodes at the end count as imbalance; while jobs run it books nodes "
        "up to their whole bandwidth, where single jobs under CE often draw 40 to 90 GB/s"
    )
    until = float(np.mean([own_span(members) or 0.0 for members in plain]))
    note = joined(words, f"counted only until the last job ends: {until:.2f}", why)
    found = [plan.measured(stated("S59.bw_imbalance_ratio", ratio, note), plain, size, stream_name="balance ratio")]
    return found + [plan.measured(one, one.of, size, stream_name=f"balance {one.about.id}") for one in claims]


def of(policy: str) -> Statistic:
    """Return the imbalance of a sequence under a policy."""
    return lambda members: bandwidth_imbalance(members[0][policy])


def ratio(members: Members) -> float | None:
    """Return the imbalance under SNS over that under CE."""
    sns, ce = of("sns")(members), of("ce")(members)
    return sns / ce if sns is not None and ce else None


def own_span(members: Members) -> float | None:
    """Return the same ratio, each policy only until its last job ends."""
    sns, ce = (bandwidth_imbalance(_until_idle(members[0][policy])) for policy in ("sns", "ce"))
    return sns / ce if sns is not None and ce else None


def change_of_share(low: float, high: float) -> Statistic:
    """Return by how many points more episodes lie in this range of the peak under SNS than under CE."""

    def statistic(members: Members) -> float:
        peak = max(float(one.max()) for one in members[0].values())
        return _share(members[0]["sns"], low, high, peak) - _share(members[0]["ce"], low, high, peak)

    return statistic


def _until_idle(cells: Floats) -> Floats:
    used = np.flatnonzero(cells.sum(axis=0) > 0)
    return cells[:, : int(used[-1]) + 1] if len(used) else cells


def _share(cells: Floats, low: float, high: float, peak: float) -> float:
    if peak <= 0:
        return 0.0
    relative = cells / peak
    return 100 * float(((relative >= low) & (relative < high)).mean())
