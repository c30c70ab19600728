"""Trials of one set: five experiments with and without the gate, brackets, and worlds that differ in one thing.

The control jobs of the set are run first and a model is trained on them; the norms by which a run varies are frozen
there (R60). Random skipping has the rate RUSH had in the same trial (R61). Nothing here judges.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from cohabit.app.learn.variability_data import runs_text
from cohabit.predict.variability_data import Norms
from cohabit.predict.variability_file import save_variability
from cohabit.predict.variability_training import TrainedVariability
from cohabit.reproduce.rush.control import History, collected
from cohabit.reproduce.rush.lab import (
    ADAA,
    CALM_NODES,
    COST_AWARE,
    FCFS,
    JOB_NODES,
    NEVER,
    ORACLE,
    PAYING,
    PAYING_CALM,
    RANDOM,
    RUSH,
    Experiment,
    Models,
    experiments,
    run_trial,
)
from cohabit.reproduce.rush.learning import Trained
from cohabit.sim.weather.constants import CONSTANTS, PLACES, Constants

THROUGHOUT = "throughout"  # another world: programs are slowed during the whole run
PATIENT = "patient"  # a threshold no job reaches in an experiment
SPELLS_MIN = (
    2.5,
    5.0,
    10.0,
    20.0,
)  # mean time for which the noise job holds an amount; the first is the calibrated one
SPELLS = {
    f"spells of {minutes:g} min": minutes for minutes in SPELLS_MIN
}  # ADAA once more, with noise that lasts so long
PLACED_MIN = 10.0  # mean time for which noise with a place holds: five minutes of counters can show where it is
PLACED = {f"noise in one place ({place})": place for place in PLACES}  # ADAA once more, with noise at some nodes only
MANY_SKIPS = 1000
LEARNER, MODEL, CONTROL = "learner", "model", "control runs"
Trial = dict[str, Any]  # policy -> result


@dataclass(frozen=True)
class Work:
    """One set."""

    experiments: tuple[str, ...]  # names, or THROUGHOUT, or one of SPELLS
    history: History
    seed: int
    trial_seeds: tuple[int, ...]
    jobs: int
    eliminating: bool
    others: int  # trials of experiments other than ADAA
    brackets: int  # ADAA trials with policies besides FCFS+EASY, RUSH and random skips
    keeps_model: bool = False  # whether the model's file and the control runs are kept
    learner: str = ""  # empty: chosen by F1
    spells: int = 0  # ADAA trials with every length of noise
    placed: int = 0  # and with noise in every kind of place


def run_set(work: Work) -> dict[str, Any]:
    """Trials by experiment, those of the other world under THROUGHOUT; the learner, and the model's file if wanted."""
    data = collected(work.history)
    models = Trained(data, work.seed, work.eliminating, work.learner)
    found: dict[str, Any] = {}
    for name in work.experiments:
        if name == THROUGHOUT:
            found[THROUGHOUT] = _other_world(work)
            continue
        if minutes := SPELLS.get(name):
            seeds = work.trial_seeds[: work.spells]
            found[name] = [_with_spells(minutes, seed, data.norms, models, work.jobs) for seed in seeds]
            continue
        if place := PLACED.get(name):
            seeds = work.trial_seeds[: work.placed]
            found[name] = [_with_noise_at(place, seed, data.norms, models, work.jobs) for seed in seeds]
            continue
        one = experiments(work.jobs)[name]
        seeds = work.trial_seeds if name == ADAA else work.trial_seeds[: work.others]
        found[name] = [
            _all_policies(one, seed, data.norms, models, name == ADAA and number < work.brackets)
            for number, seed in enumerate(seeds)
        ]
    found[LEARNER] = models.full.kind
    if work.keeps_model:
        found[MODEL] = _file_of(models.whole, {"rows": len(data.all_nodes), "seed": work.seed})
        found[CONTROL] = runs_text(data.all_nodes).encode()
    return found


def _file_of(trained: TrainedVariability, scores: dict[str, Any]) -> bytes:
    """The file `cohabit train variability` would write."""
    with tempfile.TemporaryDirectory(prefix="cohabit-rush-") as folder:
        path = Path(folder) / "model"
        save_variability(path, trained, scores)
        return path.read_bytes()


def _all_policies(one: Experiment, seed: int, norms: Norms, models: Models, brackets: bool) -> Trial:
    found = {policy: run_trial(one, seed, policy, norms, models) for policy in (FCFS, RUSH)}
    if one.name == ADAA:
        found[RANDOM] = run_trial(one, seed, RANDOM, norms, rate=_rate(found[RUSH]))
    if brackets:
        found |= {
            policy: run_trial(one, seed, policy, norms, models)
            for policy in (ORACLE, JOB_NODES, NEVER, COST_AWARE, CALM_NODES)
        }
        found[PATIENT] = run_trial(one, seed, RUSH, norms, models, skip_threshold=MANY_SKIPS)
    return found


def lasting(minutes: float) -> Constants:
    """The world in which the noise job holds every amount for this long on average, and is heavy as often as always."""
    return msgspec.structs.replace(CONSTANTS, noise=msgspec.structs.replace(CONSTANTS.noise, hold_min=minutes))


def _with_spells(minutes: float, seed: int, norms: Norms, models: Models, jobs: int) -> Trial:
    """One ADAA trial under every policy whose worth depends on how long noise lasts."""
    one, constants = experiments(jobs)[ADAA], lasting(minutes)
    found = {
        policy: run_trial(one, seed, policy, norms, models, constants=constants)
        for policy in (FCFS, RUSH, PAYING, ORACLE)
    }
    rate = _rate(found[RUSH])
    return found | {RANDOM: run_trial(one, seed, RANDOM, norms, rate=rate, constants=constants)}


def noise_at(place: str) -> Constants:
    """The world in which only the jobs at some nodes feel the noise job; it holds every amount for ten minutes."""
    noise = msgspec.structs.replace(CONSTANTS.noise, hold_min=PLACED_MIN, place=place)
    return msgspec.structs.replace(CONSTANTS, noise=noise)


def _with_noise_at(place: str, seed: int, norms: Norms, models: Models, jobs: int) -> Trial:
    """One ADAA trial under the gates that see all nodes, that see the job's, and that choose among the idle ones."""
    one, constants = experiments(jobs)[ADAA], noise_at(place)
    policies = (FCFS, RUSH, JOB_NODES, CALM_NODES, PAYING_CALM)
    return {policy: run_trial(one, seed, policy, norms, models, constants=constants) for policy in policies}


def _rate(rush: dict[str, Any]) -> float:
    return rush["delayed"] / rush["decisions"] if rush["decisions"] else 0.0


def throughout() -> Constants:
    """The world in which programs depend on others during the whole run."""
    return msgspec.structs.replace(CONSTANTS, law=msgspec.structs.replace(CONSTANTS.law, early=1.0))


def _other_world(work: Work) -> list[Trial]:
    """ADAA once more in the world of `throughout`, with control jobs and a model of its own."""
    constants = throughout()
    data = collected(replace(work.history, constants=constants))
    models = Trained(data, work.seed, work.eliminating, work.learner)
    one = experiments(work.jobs)[ADAA]
    return [
        {policy: run_trial(one, seed, policy, data.norms, models, constants=constants) for policy in (FCFS, RUSH)}
        for seed in work.trial_seeds[: work.others]
    ]
