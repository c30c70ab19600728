"""Spread-n-Share as one paper: all experiments in the order of the paper."""

from __future__ import annotations

from cohabit.reproduce.papers import Options, Paper
from cohabit.reproduce.sns import (
    ablations,
    balance,
    example,
    facts,
    learning,
    mixes,
    sensitivity,
    throughput,
    trinity,
    violations,
)
from cohabit.reproduce.sns.plan import Plan
from cohabit.sim.machine.constants import calibration_hash


class SpreadNShare(Paper):
    """The paper in the form the command uses."""

    name, title, plan = "sns", "Spread-n-Share", Plan
    experiments = (
        facts,
        example,
        learning,
        throughput,
        violations,
        balance,
        mixes,
        trinity,
        ablations,
        sensitivity,
    )

    def about(self, options: Options) -> list[str]:
        """Return what a reader must know first."""
        plan = Plan(options)
        programs = "twelve hidden programs drawn from priors" if plan.hidden else "the twelve programs of the paper"
        return [
            "Spread-n-Share (SC 2019) spreads jobs over more nodes where that makes them faster and lets jobs share "
            "nodes as far as their profiles of cache and memory bandwidth allow. CE gives every job whole nodes, as "
            "most sites do; CS shares nodes by free cores alone; SNS is the paper's strategy.",
            f"Everything below was simulated with {programs}; the paper measured a real cluster of eight nodes.",
        ]

    def calibration_hash(self, options: Options) -> str:
        """A digest of all that was calibrated."""
        return calibration_hash(Plan(options).bench.programs.values())


PAPER = SpreadNShare()
