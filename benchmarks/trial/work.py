"""The jobs of a trial: exercise programs, of which every kind is one fixed amount of work on some cores.

A queue is drawn anew for every round and is the same for all policies of the round. Jobs arrive by chance at a given
load; what they request is drawn between 1.5 and 10 times what they take, as users do.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from cohabit.exercise.catalogue import EXERCISES
from cohabit.model.errors import InputError, unknown

LEAST_ASKED, MOST_ASKED = 1.5, 10.0  # of the time alone
LEAST_LIMIT_S = 20.0  # whatever is drawn: starting a program on a busy machine takes some seconds
SHORT, LONG = 0.6, 1.8  # of the usual length
LARGE, LARGE_WEIGHT = "large", 0.3  # the kind on most of the machine, and how often it comes against the others
CALIBRATION_S = 2.0
Say = Callable[[str], None]


class Kind(NamedTuple):
    """One program on so many cores, with so much to do."""

    name: str
    cores: int
    seconds: float  # about, alone
    command: tuple[str, ...]
    workload_type: str = ""


class TrialJob(NamedTuple):
    """One job of a round."""

    name: str
    kind: Kind
    submit_s: float
    limit_s: float


class Ran(NamedTuple):
    """When a job came, started and ended, in seconds of one clock."""

    submit_s: float
    start_s: float
    end_s: float


def exercise(name: str, rounds: int, copies: int) -> tuple[str, ...]:
    """Return a command that does the rounds in each of so many processes at once."""
    one = shlex.join([sys.executable, "-m", "cohabit.cli", "exercise", name, "--work", str(rounds)])
    if copies == 1:
        return tuple(shlex.split(one))
    return ("sh", "-c", f"{' & '.join([one] * copies)} & wait")


def rounds_per_s(name: str) -> float:
    """Return how fast a program is here, alone."""
    words = [sys.executable, "-m", "cohabit.cli", "exercise", name, "--seconds", str(CALIBRATION_S), "--json"]
    found = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    return float(found["rounds"] / found["seconds"])


def kinds(
    programs: Sequence[str],
    seconds: float,
    node_cores: int,
    cores: int,
    most_copies: int,
    say: Say,
    one_each: bool = False,
) -> list[Kind]:
    """Return two kinds of each program, long on one core and short on several; the first has one on most cores, too.

    `one_each`: one kind of each, of usual length on half of a node, called as the program."""
    if strange := [one for one in programs if one not in EXERCISES]:
        raise unknown("program", strange[0], EXERCISES, "cohabit exercise --list")
    found = []
    for name in programs:
        say(f"how fast is {name} here, {CALIBRATION_S:g} s ...")
        speed = rounds_per_s(name)
        shapes = [("long", 1, LONG), ("wide", max(2, node_cores // 2), SHORT)]
        shapes += [] if found or one_each else [(LARGE, max(2, node_cores, cores * 3 // 4), SHORT)]
        if one_each:
            shapes = [("", max(1, node_cores // 2), 1.0)]
        for word, wanted, length in shapes:
            width, took = min(wanted, cores), seconds * length
            command = exercise(name, max(1, round(speed * took)), min(width, most_copies))
            found.append(Kind(f"{name}-{word}" if word else name, width, took, command))
    return found


def queue(chosen: Sequence[Kind], jobs: int, cores: int, load: float, seed: int) -> list[TrialJob]:
    """Return the jobs of a round in the order they come."""
    if jobs < 1 or load <= 0:
        raise InputError(f"{jobs} jobs at load {load:g}", "trial", "give positive numbers")
    rng = np.random.default_rng(seed)
    weights = np.array([LARGE_WEIGHT if one.name.endswith(LARGE) else 1.0 for one in chosen])
    drawn = [chosen[int(at)] for at in rng.choice(len(chosen), jobs, p=weights / weights.sum())]
    work = sum(one.cores * one.seconds for one in drawn)
    arrivals = np.sort(rng.uniform(0.0, work / (cores * load), jobs))
    asked = np.exp(rng.uniform(np.log(LEAST_ASKED), np.log(MOST_ASKED), jobs))
    return [
        TrialJob(f"{one.name}-{number}", one, float(at), max(LEAST_LIMIT_S, float(factor) * one.seconds))
        for number, (one, at, factor) in enumerate(zip(drawn, arrivals - arrivals[0], asked, strict=True))
    ]
