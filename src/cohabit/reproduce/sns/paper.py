"""Spread-n-Share as one paper: all experiments in the order of the paper."""

from __future__ import annotations

from typing import Any

from cohabit.reproduce.papers import Options, Picture
from cohabit.reproduce.rows import Row
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
from cohabit.reproduce.tasks import Task
from cohabit.sim.machine.constants import calibration_hash

EXPERIMENTS = (example, learning, throughput, violations, balance, mixes, trinity, ablations)


class SpreadNShare:
    """The paper in the form the command uses."""

    name = "sns"
    title = "Spread-n-Share"

    def tasks(self, options: Options) -> list[Task]:
        """Return the work in independent tasks."""
        plan = Plan(options)
        found = [task for experiment in EXPERIMENTS for task in experiment.tasks(plan)]
        return found + (sensitivity.tasks(plan) if options.sensitivity else [])

    def rows(self, options: Options, results: dict[str, Any]) -> list[Row]:
        """Return every row, in the paper's order."""
        plan = Plan(options)
        found = facts.rows(plan)
        for experiment in EXPERIMENTS:
            found += experiment.rows(plan, results)
        return found + (sensitivity.rows(plan, results) if options.sensitivity else [])

    def pictures(self, options: Options, results: dict[str, Any]) -> list[Picture]:
        """Return the paper's figures from our runs."""
        from cohabit.reproduce.sns.pictures import pictures

        return pictures(Plan(options), results)

    def about(self, options: Options) -> list[str]:
        """Return what a reader must know first."""
        plan = Plan(options)
        programs = "twelve hidden programs drawn from priors" if plan.hidden else "the twelve programs of the paper"
        return [
            "Spread-n-Share (SC 2019) spreads jobs over more nodes where that makes them faster and lets jobs "
            "share nodes "
            "as far as their profiles of cache and memory bandwidth allow. CE gives every job whole nodes, as "
            "most sites "
            "do; CS shares nodes by free cores alone; SNS is the paper's strategy.",
            f"Everything below was simulated with {programs}; the paper measured a real cluster of eight nodes.",
        ]

    def calibration_hash(self, options: Options) -> str:
        """A digest of all that was calibrated."""
        return calibration_hash(Plan(options).bench.programs.values())
