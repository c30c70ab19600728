"""Intelligent Colocation as one paper: all experiments in its order."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from cohabit.predict.estimators import need_scikit_learn
from cohabit.reproduce.colocation import alternatives, learning, makespans, overhead, worlds
from cohabit.reproduce.colocation.plan import Plan
from cohabit.reproduce.papers import Options, Paper, digest
from cohabit.reproduce.rows import Row, contract, explained, noted
from cohabit.reproduce.tasks import Task
from cohabit.sim.machine.constants import calibration_hash
from cohabit.trace.colocation_programs import document

HINDSIGHT = "hindsight: the priors are a third version, chosen after results had been seen"
VERSIONS = {"hidden": "them", "guessed": "the second", "independent": "the first"}  # tag of rows -> in words


class IntelligentColocation(Paper):
    """The paper in the form the command uses."""

    name, title = "colocation", "Intelligent Colocation"
    plan, experiments = Plan, (learning, makespans, overhead, alternatives, worlds)

    def tasks(self, options: Options) -> list[Task]:
        """Return the work in independent tasks."""
        need_scikit_learn()
        return super().tasks(options)

    def rows(self, options: Options, results: dict[str, Any]) -> list[Row]:
        """Return every row, in the paper's order."""
        return with_other_versions([explained(one) for one in super().rows(options, results)])

    def about(self, options: Options) -> list[str]:
        """Return what a reader must know first."""
        programs = "programs drawn anew from the priors" if Plan(options).hidden else "the 32 programs of the catalogue"
        return [
            "Intelligent Colocation (SBAC-PAD 2019) runs jobs in pairs on one server. A model learns from hardware "
            "counters of solo runs how much two programs slow each other; jobs are paired so that the sum is least, "
            "and a pair that would slow by more than 100 % runs one after the other, as all jobs do under FIFO.",
            f"Everything below was simulated with {programs} on a server of eight cores; the paper measured a real "
            "one. It publishes no profiles: programs and counters are assumptions, anchored on measured programs of "
            "the same suites, and calibrated so that sharing without knowledge (fifo-shared) is 13 % slower than FIFO.",
            "These results are not free of hindsight. The priors of the programs are their third version, chosen after "
            "results with the first two had been seen. Each was calibrated to the same fifo-shared. What comes out "
            "with programs drawn from each stands in the remark of every claim, and in the rows that end in _hidden "
            "(third version), _guessed (second) and _independent (first).",
        ]

    def calibration_hash(self, options: Options) -> str:
        """A digest of all that was calibrated: the catalogue with its priors, and the constants of the law."""
        text = json.dumps([msgspec.to_builtins(document()), calibration_hash()], sort_keys=True)
        return digest(text.encode())


def with_other_versions(rows: list[Row]) -> list[Row]:
    """Add to every claim of the contract that the priors were chosen late, and the results of all three versions."""
    measured = {one.id: one.measured for one in rows}
    found = []
    for one in rows:
        values = {words: measured.get(f"{one.id}_{tag}") for tag, words in VERSIONS.items()}
        known = ", ".join(f"{words} {value:.3g}" for words, value in values.items() if value is not None)
        beside = f"{HINDSIGHT}; programs drawn from {known}" if known else HINDSIGHT
        found.append(noted(one, beside) if one.id in contract() else one)
    return found


PAPER = IntelligentColocation()
