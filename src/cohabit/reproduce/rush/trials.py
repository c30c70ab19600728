"""Trials of one set: five experiments with and without the gate, brackets, and worlds that differ in one thing.

The control jobs of the set are run first and a model is trained on them; the norms by which a run varies are frozen
there (R60). Random skipping has the rate RUSH had in the same trial (R61). Nothing here judges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from cohabit.predict.variability_data import Norms
from cohabit.reproduce.rush.control import History, collected
from cohabit.reproduce.rush.lab import (
    ADAA,
    FCFS,
    JOB_NODES,
    NEVER,
    ORACLE,
    RANDOM,
    RUSH,
    Experiment,
    Models,
    experiments,
    run_trial,
)
from cohabit.reproduce.rush.learning import Trained
from cohabit.sim.weather.constants import CONSTANTS, Constants

THROUGHOUT = "throughout"  # another world: programs suffer during the whole run
PATIENT = "patient"  # a threshold nobody reaches in an experiment
MANY_SKIPS = 1000
Trial = dict[str, Any]  # policy -> what came out


@dataclass(frozen=True)
class Work:
    """One set."""

    experiments: tuple[str, ...]  # names, or THROUGHOUT
    history: History
    seed: int
    trial_seeds: tuple[int, ...]
    jobs: int
    eliminating: bool
    others: bool  # all trials of other experiments than ADAA, and its brackets; else the first of each


def run_set(work: Work) -> dict[str, list[Trial]]:
    """Trials by experiment, and those of the other world under THROUGHOUT."""
    data = collected(work.history)
    models = Trained(data, work.seed, work.eliminating)
    found: dict[str, list[Trial]] = {}
    for name in work.experiments:
        if name == THROUGHOUT:
            found[THROUGHOUT] = _other_world(work)
            continue
        one, trials = experiments(work.jobs)[name], []
        seeds = work.trial_seeds if name == ADAA or work.others else work.trial_seeds[:1]
        for number, seed in enumerate(seeds):
            brackets = name == ADAA and (work.others or number == 0)
            trials.append(_all_policies(one, seed, data.norms, models, brackets))
        found[name] = trials
    return found


def _all_policies(one: Experiment, seed: int, norms: Norms, models: Models, brackets: bool) -> Trial:
    found = {policy: run_trial(one, seed, policy, norms, models) for policy in (FCFS, RUSH)}
    if one.name == ADAA:
        rush = found[RUSH]
        rate = rush["delayed"] / rush["asked"] if rush["asked"] else 0.0
        found[RANDOM] = run_trial(one, seed, RANDOM, norms, rate=rate)
    if brackets:
        found[ORACLE] = run_trial(one, seed, ORACLE, norms)
        found[JOB_NODES] = run_trial(one, seed, JOB_NODES, norms, models)
        found[PATIENT] = run_trial(one, seed, RUSH, norms, models, skip_threshold=MANY_SKIPS)
        found[NEVER] = run_trial(one, seed, NEVER, norms)
    return found


def throughout() -> Constants:
    """The world in which programs depend on others during the whole run."""
    return msgspec.structs.replace(CONSTANTS, law=msgspec.structs.replace(CONSTANTS.law, early=1.0))


def _other_world(work: Work) -> list[Trial]:
    """ADAA once more in the world of `throughout`, with control jobs and a model of its own."""
    constants = throughout()
    data = collected(replace(work.history, constants=constants))
    models = Trained(data, work.seed, work.eliminating)
    one = experiments(work.jobs)[ADAA]
    return [
        {policy: run_trial(one, seed, policy, data.norms, models, constants=constants) for policy in (FCFS, RUSH)}
        for seed in work.trial_seeds[: None if work.others else 1]
    ]
