"""S83: the value of each part of SNS: without spreading, without dividing the cache, without booking bandwidth, and
with other values of beta and alpha. All on the sequences of the first set."""

from __future__ import annotations

from typing import Any

import numpy as np

from cohabit.reproduce.rows import Row, joined, own
from cohabit.reproduce.sns import sequences
from cohabit.reproduce.sns.lab import Conditions
from cohabit.reproduce.sns.plan import FULL, Plan
from cohabit.reproduce.sns.sequences import mean_gain, violations_of_720
from cohabit.reproduce.tasks import Task

SWITCHED = {
    "whole": ("SNS as it is", ()),
    "no_spread": ("SNS that never spreads (share and divide the cache only)", (("scales", [1]),)),
    "no_cat": ("SNS that does not divide the cache", (("partition", "none"),)),
    "no_bandwidth": ("SNS that does not book bandwidth", (("book_bandwidth", False),)),
}
BETAS = (0.0, 1.0, 2.0, 4.0)
ALPHAS = (0.7, 0.8, 0.9, 0.95, 1.0)


def variants() -> dict[str, tuple[str, tuple[tuple[str, Any], ...]]]:
    """Return every ablation by name: a description and the keys of [policy] it changes."""
    found = dict(SWITCHED)
    found |= {f"beta_{beta:g}": (f"beta = {beta:g}", (("beta", beta),)) for beta in BETAS}
    found |= {f"alpha_{100 * alpha:.0f}": (f"alpha = {alpha:g}", (("alpha", alpha),)) for alpha in ALPHAS}
    return found


def tasks(plan: Plan) -> list[Task]:
    """CE and the changed SNS on the same sequences."""
    found = []
    for name, (_, keys) in variants().items():
        changed, count = Conditions(policy=keys), plan.sizes.variant_sequences
        found += sequences.tasks(plan, f"ablation {name}", 1, count, ("ce", "sns"), changed)
    return found


def summary(plan: Plan, results: dict[str, Any]) -> dict[str, tuple[str, float, float, float]]:
    """By ablation: description, mean gain over CE, mean normalised run time, violations of 720."""
    found = {}
    for name, (words, _) in variants().items():
        (members,) = sequences.gathered(f"ablation {name}", results)
        run_time = float(np.mean([one.mean_run_time("sns") for one in members]))
        found[name] = (words, mean_gain("sns")(members) or 0.0, run_time, violations_of_720(members))
    return found


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """The gain over CE of every ablation; run times and violations in the note."""
    found = []
    for name, (words, _, run_time, beyond) in summary(plan, results).items():
        sets = sequences.gathered(f"ablation {name}", results)
        size = plan.shortened(len(sets[0]), FULL.variant_sequences, "sequences")
        alike = "two jobs of 16 processes do not fit 28 cores, so without spreading none share: CE"
        note = joined(
            alike if name == "no_spread" else "",
            f"mean run time {run_time:.3f} of CE, {beyond:.0f} of 720 jobs beyond 1.1x CE",
            size,
        )
        words = f"ablation: mean throughput gain over CE of {words}"
        claim = own(f"S83.{name}_gain_pct", words, mean_gain("sns"), note=note)
        found.append(plan.measured(claim, sets, stream_name=f"ablation {name}"))
    return found
