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
from cohabit.reproduce.rush.control import History, collected, in_bursts
from cohabit.reproduce.rush.lab import (
    ADAA,
    ADPA,
    CALM_NODES,
    COST_AWARE,
    FCFS,
    JOB_NODES,
    NEVER,
    ORACLE,
    PAYING,
    PAYING_CALM,
    PDPA,
    RANDOM,
    RUSH,
    SS,
    WS,
    Experiment,
    Models,
    experiments,
    run_trial,
)
from cohabit.reproduce.rush.learning import Trained
from cohabit.reproduce.rush.plan import Plan
from cohabit.reproduce.rush.shipped import FILES, FOLDER, shipped
from cohabit.reproduce.tasks import Task
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
PAYING_MODEL = "model of rush-paying"
MODEL_NAME, CONTROL_NAME, PAYING_NAME = "variability-model", "control-runs.csv", "paying-model"
PARTS = ((ADAA, *SPELLS), (ADPA, PDPA, WS, SS, *PLACED, THROUGHOUT))
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
    shipped: bool = False  # whether the models come with the program


def parts(plan: Plan) -> tuple[tuple[str, ...], ...]:
    """Return the experiments of each task of a set: two that train about as long, or one for each where none does."""
    if not plan.sizes.shipped:
        return PARTS
    names = (name for part in PARTS for name in part if plan.sizes.placed or name not in PLACED)
    return tuple((name,) for name in names if plan.sizes.worlds or name != THROUGHOUT)


def tasks(plan: Plan) -> list[Task]:
    """The tasks of all sets; each trains the models it needs."""
    sizes, found = plan.sizes, []
    for number in range(sizes.sets):
        seeds = tuple(plan.trial_seed(number, trial) for trial in range(sizes.trials))
        for part, names in enumerate(parts(plan)):
            work = Work(
                tuple(name for name in names if name != THROUGHOUT or number < sizes.worlds),
                plan.history(number),
                plan.seed("models"),
                seeds,
                sizes.jobs,
                sizes.eliminating,
                sizes.others,
                sizes.brackets,
                keeps_model=number == part == 0,
                learner=sizes.learner,
                spells=sizes.spells,
                placed=sizes.placed,
                shipped=sizes.shipped,
            )
            found.append(Task(f"trials {number} {part}", run_set, {"work": work}, 60.0 + part))
    return found


def gathered(plan: Plan, results: dict[str, Any], experiment: str) -> list[list[Trial]]:
    """The sets of an experiment."""
    sets = plan.sizes.worlds if experiment == THROUGHOUT else plan.sizes.sets
    part = next((at for at, names in enumerate(parts(plan)) if experiment in names), 0)
    return [results[f"trials {number} {part}"][experiment] for number in range(sets)]


def learners(plan: Plan, results: dict[str, Any]) -> list[str]:
    """The learners of all sets."""
    return sorted({results[f"trials {number} 0"][LEARNER] for number in range(plan.sizes.sets)})


def files(results: dict[str, Any]) -> dict[str, bytes]:
    """The models of the first set as `cohabit train variability` writes them, and the runs of the first."""
    first = results["trials 0 0"]
    if MODEL not in first:
        return {name: (FOLDER / FILES[of]).read_bytes() for name, of in ((MODEL_NAME, "full"), (PAYING_NAME, "paying"))}
    return {MODEL_NAME: first[MODEL], CONTROL_NAME: first[CONTROL], PAYING_NAME: first[PAYING_MODEL]}


def run_set(work: Work) -> dict[str, Any]:
    """Trials by experiment, those of the other world under THROUGHOUT; the learner, and the model's file if wanted."""
    data = None if work.shipped else collected(work.history)
    models = shipped() if data is None else Trained(data, work.seed, work.eliminating, work.learner)
    norms = shipped().norms if data is None else data.norms
    found: dict[str, Any] = {LEARNER: models.full.kind}
    for name in work.experiments:
        if name == THROUGHOUT:
            found[THROUGHOUT] = _other_world(work)
            continue
        if minutes := SPELLS.get(name):
            seeds = work.trial_seeds[: work.spells]
            found[name] = [_with_spells(minutes, seed, norms, models, work.jobs) for seed in seeds]
            continue
        if place := PLACED.get(name):
            seeds = work.trial_seeds[: work.placed]
            found[name] = [_with_noise_at(place, seed, norms, models, work.jobs) for seed in seeds]
            continue
        one = experiments(work.jobs)[name]
        seeds = work.trial_seeds if name == ADAA else work.trial_seeds[: work.others]
        found[name] = [
            _all_policies(one, seed, norms, models, name == ADAA and number < work.brackets)
            for number, seed in enumerate(seeds)
        ]
    if work.keeps_model and data is not None and isinstance(models, Trained):
        found[MODEL] = _file_of(models.whole, {"rows": len(data.all_nodes), "seed": work.seed})
        found[CONTROL] = runs_text(data.all_nodes).encode()
        found[PAYING_MODEL] = _file_of(models.of_bursts, {"rows": len(in_bursts(work.history)), "seed": work.seed})
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
            for policy in (ORACLE, NEVER, COST_AWARE, *(() if models.job_nodes is None else (JOB_NODES, CALM_NODES)))
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
