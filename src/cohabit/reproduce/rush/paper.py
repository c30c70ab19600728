"""RUSH as one paper: control jobs and learners, then the five experiments."""

from __future__ import annotations

from typing import Any

from cohabit.predict.estimators import need_scikit_learn
from cohabit.reproduce.papers import Options, Paper
from cohabit.reproduce.rows import Row, contract, explained, noted
from cohabit.reproduce.rush import learning, outcomes, places, spells, trials
from cohabit.reproduce.rush.lab import world_hash
from cohabit.reproduce.rush.plan import Plan
from cohabit.reproduce.tasks import Task

HINDSIGHT = "hindsight: weather and learners were changed after results had been seen (docs/papers/rush.md)"


class Rush(Paper):
    """The paper in the form the command uses."""

    name, title = "rush", "RUSH"
    plan, experiments = Plan, (learning, outcomes, spells, places)

    def tasks(self, options: Options) -> list[Task]:
        """Return the work in independent tasks."""
        need_scikit_learn()
        return super().tasks(options)

    def rows(self, options: Options, results: dict[str, Any]) -> list[Row]:
        """Return every row, in the paper's order."""
        found = super().rows(options, results)
        return [explained(noted(one, HINDSIGHT) if one.id in contract() else one) for one in found]

    def files(self, results: dict[str, Any]) -> dict[str, bytes]:
        """Return the models of the first set, for `variability` of a scenario, and the runs RUSH's was trained on."""
        return trials.files(results)

    def about(self, options: Options) -> list[str]:
        """Return what a reader must know first."""
        return [
            "RUSH (IPDPS 2022) learns from counters of network and filesystem whether a job started now would vary, "
            "and lets the scheduler pass it over, at most ten times, until the machine is calmer.",
            "Everything below was simulated: control jobs over half a year under changing load, a model trained on "
            "them, and 512 nodes with a noise job on 1/16 of them. The paper measured a real machine and publishes "
            "neither loads nor profiles: loads, sensitivities and what counters show are assumptions; the strength of "
            "the noise job is calibrated so that about 17 of 190 runs vary under FCFS+EASY.",
            "A run varies if it lies 1.5 deviations above the mean of its application over the control jobs, frozen "
            "before any experiment. These results are not free of hindsight: weather and learners were changed after "
            "results had been seen. In rows that end in _throughout one of the changes is undone.",
        ]

    def calibration_hash(self, options: Options) -> str:
        """A digest of all that was assumed and calibrated: the weather's constants and the applications."""
        return world_hash()


PAPER = Rush()
