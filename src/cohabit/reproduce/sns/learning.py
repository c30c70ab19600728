"""Rediscovery (S19, S45): an empty cluster learns every program from its own runs, with noisy readings.

Each program is submitted repeatedly, one run after the other, until its trials end: at most two runs at four
scales. What the core has then learned is compared with the catalogue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from cohabit.core.core import SchedulerCore
from cohabit.model.profile import Profile, classify, demand
from cohabit.model.program import profile_of
from cohabit.model.units import SECOND
from cohabit.model.workload import Workload
from cohabit.reproduce.rows import CALIBRATED, CHECK, Row, joined, own, stated
from cohabit.reproduce.sns.lab import PROFILE_ERROR, ROUGH, Bench, Conditions, simulate
from cohabit.reproduce.sns.plan import FULL, Plan
from cohabit.reproduce.tasks import Task
from cohabit.sim.streams import stream
from cohabit.trace.synthetic import synthetic_workload

PROCESSES, MOST_RUNS = 16, 9
GAP = 2.5  # submissions are this many exclusive run times apart: no two runs of a program overlap
NOISY = Conditions(profile_noise=PROFILE_ERROR)
WAYS_ERROR = 1
Learned = dict[str, Any]  # of one program: class, ways and ideal scale as learned and as they are
BY_DEFINITION = "programs that cannot span nodes are compact by their owner's word, not learned (N18)"


def repeated(bench: Bench) -> Workload:
    """Every program many times; programs one after the other, so that each trial has the cluster to itself."""
    node, names = bench.node, list(bench.programs)
    submit, runs, programs, clock = [], [], [], 0.0
    for index, name in enumerate(names):
        alone = bench.programs[name].exclusive_time_s(PROCESSES, node)
        for _ in range(MOST_RUNS):
            submit.append(clock)
            runs.append(alone)
            programs.append(index)
            clock += GAP * alone
    run_us = np.rint(np.array(runs) * SECOND).astype(np.int64)
    return synthetic_workload(
        np.rint(np.array(submit) * SECOND).astype(np.int64),
        run_us,
        4 * run_us,
        np.full(len(runs), PROCESSES, np.int64),
        nodes=8,
        source="the same programs again and again",
        program=np.array(programs, np.int32),
        program_names=tuple(names),
    )


def explored(
    bench: Bench, seed: int, conditions: Conditions
) -> tuple[dict[str, Profile], dict[str, list[tuple[int, str, float]]]]:
    """Profiles the core has learned, and the runs it made to learn them: scale, purpose, seconds over work."""
    cores: list[SchedulerCore] = []

    def watch(now_us: int, events: Any, commands: Any, core: SchedulerCore) -> None:
        cores[:] = [core]
        for command in commands:
            if getattr(command, "purpose", "run") != "run":
                trials.setdefault(command.job_id, (command.scale, command.purpose))

    trials: dict[str, tuple[int, str]] = {}
    workload = repeated(bench)
    table = simulate(bench, "sns", workload, conditions, seed=seed, profiles=(), observe=watch)
    profiles = {name: known[PROCESSES] for name, known in cores[0].state.profiles.items() if PROCESSES in known}
    runs: dict[str, list[tuple[int, str, float]]] = {}
    for job, (scale, purpose) in trials.items():
        row = int(job)
        name = workload.program_names[int(workload.program[row])]
        stretch = float((table.end_us[row] - table.start_us[row]) / workload.run_us[row])
        runs.setdefault(name, []).append((scale, purpose, stretch))
    return profiles, runs


def learned_profiles(bench: Bench, seed: int, conditions: Conditions) -> tuple[Profile, ...]:
    """Return the profiles of a scheduler that began without any."""
    profiles, _ = explored(bench, int(stream(seed, "learning").integers(0, 2**40)), conditions)
    return tuple(profiles.values())


def learn(bench: Bench, seed: int, number: int, conditions: Conditions) -> list[Learned]:
    """One attempt: class, ideal scale, ways and bandwidth by program; runs in a worker."""
    world_seed = int(stream(seed, f"learner {number}").integers(0, 2**40))
    profiles, runs = explored(bench, world_seed, conditions)
    found = []
    for name, program in bench.programs.items():
        truth = profile_of(program, bench.node)
        known = profiles.get(name)
        if known is not None and program.single_node:  # stated by its owner, not learned: compact by definition (N18)
            known = msgspec.structs.replace(known, single_node=True)
        right, real = classify(truth, bench.node), demand(truth, 1, PROCESSES, 0.9, bench.node)
        guess = classify(known, bench.node) if known is not None else None
        seen = demand(known, 1, PROCESSES, 0.9, bench.node) if known is not None else None
        assert real is not None
        time = {scale: stretch for scale, purpose, stretch in runs.get(name, []) if purpose == "time"}
        paid = [
            stretch / time[scale]
            for scale, purpose, stretch in runs.get(name, [])
            if purpose == "curve" and scale in time
        ]
        found.append(
            Learned(
                name=name,
                kind=right.kind,
                learned=guess.kind if guess else "unknown",
                ways=real.ways,
                learned_ways=seen.ways if seen else 0,
                ideal=right.ideal_scale,
                learned_ideal=guess.ideal_scale if guess else 0,
                trials=len(runs.get(name, [])),
                cost=float(np.mean(paid)) if paid else None,
            )
        )
    return found


def tasks(plan: Plan) -> list[Task]:
    """As many attempts as there are seeds, without and with phases."""
    found = []
    for name, conditions in (("learning", NOISY), ("learning in phases", ROUGH)):
        for number in range(plan.sizes.learners):
            arguments = {
                "bench": plan.bench,
                "seed": plan.seed("learning"),
                "number": number,
                "conditions": conditions,
            }
            found.append(Task(f"{name} {number}", learn, arguments, 1.5))
    return found


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Return rows on rediscovered classes and ways, and the cost."""
    steady = [results[f"learning {number}"] for number in range(plan.sizes.learners)]
    rough = [results[f"learning in phases {number}"] for number in range(plan.sizes.learners)]
    size = plan.shortened(len(steady), FULL.learners, "seeds")
    scales = "scaling programs whose ideal scale is found (of all scaling ones)"
    classes, ways = "classes found with phases as well (of 12)", "ways found within one with phases as well (of 12)"
    runs, sampled = "profiling runs of a program, at most", "slowdown of the run that samples the cache"
    four, charged = "two runs at each of four scales", "stated in the paper and charged as such"
    claims = [
        own("S19.ideal_scales_found", scales, _ideal, 5, 4, 5, of=steady),
        own("S19.classes_found_phases", classes, _classes, note=_wrong(rough), of=rough),
        own("S45.ways_within_one_phases", ways, _ways, note=_off(rough), of=rough),
        own("S14.most_runs_per_program", runs, _most_trials, 8, 0, 8, CHECK, note=four, of=steady),
        own("S14.curve_run_cost_pct", sampled, _cost, 19, 18.5, 19.5, CALIBRATED, note=charged, of=steady),
    ]
    found = stated("S19.classes_found", _classes, joined(BY_DEFINITION, _wrong(steady)))
    within = stated("S45.ways_within_one", _ways, _off(steady))
    return [
        plan.measured(found, steady, size, stream_name="learning c"),
        plan.measured(within, steady, size, stream_name="learning w"),
        *(plan.measured(one, one.of, size, stream_name=f"learning {one.about.id}") for one in claims),
    ]


def _most_trials(members: Sequence[Learned]) -> float:
    return float(max(one["trials"] for one in members))


def _classes(members: Sequence[Learned]) -> float:
    return float(sum(one["kind"] == one["learned"] for one in members))


def _ways(members: Sequence[Learned]) -> float:
    return float(sum(abs(one["ways"] - one["learned_ways"]) <= WAYS_ERROR for one in members))


def _ideal(members: Sequence[Learned]) -> float:
    return float(sum(one["ideal"] == one["learned_ideal"] for one in members if one["kind"] == "scaling"))


def _cost(members: Sequence[Learned]) -> float | None:
    costs = [one["cost"] for one in members if one["cost"]]
    return 100 * (float(np.mean(costs)) - 1) if costs else None


def _wrong(sets: list[list[Learned]]) -> str:
    missed = {
        f"{one['name']} taken for {one['learned']}"
        for members in sets
        for one in members
        if one["kind"] != one["learned"]
    }
    return f"missed: {', '.join(sorted(missed))}" if missed else ""


def _off(sets: list[list[Learned]]) -> str:
    missed: dict[str, list[int]] = {}
    for members in sets:
        for one in members:
            if abs(one["ways"] - one["learned_ways"]) > WAYS_ERROR:
                missed.setdefault(f"{one['name']} ({one['ways']})", []).append(one["learned_ways"])
    words = [f"{name}: {min(got)} to {max(got)}" for name, got in sorted(missed.items())]
    return f"off by more than one: {', '.join(words)}" if words else ""
