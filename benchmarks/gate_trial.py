"""The gate on this machine: the same jobs with and without it, in turn, under interference that comes and goes.

    python -m benchmarks.gate_trial                          # ten rounds of sixteen jobs: about a quarter of an hour
    python -m benchmarks.gate_trial --rounds 1 --learn 20    # a first look

First control jobs run under the same kind of interference (`cohabit measure runs`) and a model is trained on them
(`cohabit train variability`). Then every round draws sixteen jobs and the spells of interference; each policy runs them
under the controller of `cohabit up`, another one first in every round. A run varies if it takes longer than the mean of
the control runs of its program by more than 1.5 deviations.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.trial import interference, judged, work
from benchmarks.trial.here import Here
from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.machine import TelemetryConfig
from cohabit.model.errors import InputError
from cohabit.predict.variability_data import Norms
from cohabit.predict.variability_file import load_variability
from cohabit.whole_files import replacing

WITHOUT = "ce-easy"
POLICIES = (WITHOUT, "rush-paying")
PROGRAMS = "branchy,compression"
TYPE = "compute"  # of work: both compute
TELEMETRY = TelemetryConfig(every_s=1.0, window_s=3.0)
ON_S, OFF_S = 10.0, 25.0  # of interference, on average in a round
SELDOM = 2.0  # times as long a rest between control jobs: where many vary none lies 1.5 deviations above the mean
LAST_S = 600.0  # a round is over by then
LEAVES_OUT = ("load.load_", "disk.", "pressure.io_")  # see docs/variability.md
SHOWN = {
    "varying": "varying runs",
    "makespan_s": "all done after s",
    "mean_wait_s": "mean wait s",
    "longest_wait_s": "longest wait s",
    "delayed": "delays",
}


def note(words: str) -> None:
    """Say what is being done."""
    print(f"trial: {words}", file=sys.stderr, flush=True)


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=16, help="in a round")
    parser.add_argument("--seconds", type=float, default=2.0, help="a job takes alone")
    parser.add_argument("--load", type=float, default=1.5, help="core-seconds that arrive per core-second")
    parser.add_argument("--learn", type=int, default=50, help="rounds of control jobs")
    parser.add_argument("--sessions", type=int, default=3, help="busy ones on every core")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policies", default=",".join(POLICIES), help="bundles, separated by commas")
    parser.add_argument("--programs", default=PROGRAMS, help="two or more exercises that compute, separated by commas")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE", help="everything, as JSON")
    options = parser.parse_args(words)
    options.policies, options.programs = options.policies.split(","), options.programs.split(",")
    for name in ("rounds", "jobs", "learn", "sessions"):
        if getattr(options, name) < 1:
            raise InputError(f"{getattr(options, name)} {name}", f"--{name}", "give a positive number")
    for name in options.policies:
        build(PolicyConfig(name=name))  # raises if there is no such policy
    return options


def call(*words: str | Path) -> dict[str, Any]:
    """Return the document of a verb of `cohabit`; its messages are shown."""
    done = subprocess.run([sys.executable, "-m", "cohabit.cli", *map(str, words), "--json"], stdout=subprocess.PIPE)
    if done.returncode:
        raise InputError(f"cohabit {words[0]} {words[1]} ended with status {done.returncode}", "trial", "see above")
    return dict(json.loads(done.stdout))


def learned(kinds: Sequence[work.Kind], folder: Path, rounds: int, sessions: int) -> tuple[Path, dict[str, Any]]:
    """Return a model of control jobs under interference, and what its training says."""
    note(f"{rounds * len(kinds)} control jobs under interference that comes and goes ...")
    programs = "".join(
        f'[[program]]\nname = "{one.name}"\nworkload_type = "{TYPE}"\ncommand = {json.dumps(one.command)}\n'
        for one in kinds
    )
    busy = json.dumps(interference.command(sessions))
    (folder / "runs.toml").write_text(
        f"interval_s = 1\nrepeats = {rounds}\nwindow_s = {TELEMETRY.window_s:g}\nlimit_s = 300\n{programs}"
        f"[interference]\ncommand = {busy}\non_s = {ON_S:g}\noff_s = {SELDOM * OFF_S:g}\n"
    )
    table, model = folder / "runs.csv", folder / "model"
    call("measure", "runs", folder / "runs.toml", "--out", table)
    with table.open(newline="") as stream:
        rows = list(csv.reader(stream))
    kept = [at for at, name in enumerate(rows[0]) if not name.startswith(LEAVES_OUT)]
    with table.open("w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([row[at] for at in kept] for row in rows)
    told = call("train", "variability", table, "--model", "forest", "--out", model)
    model.chmod(0o644)
    return model, told


def figures(ran: Sequence[work.Ran], jobs: Sequence[work.TrialJob], norms: Norms, delays: int) -> judged.Figures:
    """Return what one round under one policy came to."""
    run_s = np.array([one.end_s - one.start_s for one in ran])
    varying = int(norms.varies([one.kind.name for one in jobs], run_s).sum())
    return judged.figures(ran) | {"varying": float(varying), "delayed": float(delays)}


def lines(rounds: judged.Rounds) -> list[str]:
    """Return the table: medians over rounds with intervals, and the difference each policy makes, round by round."""
    found = [f"{'policy':<24}" + "".join(f"{head:>24}" for head in SHOWN.values())]
    for name, each in rounds.items():
        cells = (judged.spread([one[figure] for one in each]).text() for figure in SHOWN)
        found.append(f"{name:<24}" + "".join(f"{cell:>24}" for cell in cells))
    for name in [one for one in rounds if one != WITHOUT and WITHOUT in rounds]:
        pairs = list(zip(rounds[name], rounds[WITHOUT], strict=True))
        cells = (judged.spread([mine[figure] - other[figure] for mine, other in pairs]).text() for figure in SHOWN)
        found.append(f"{name + ' less ' + WITHOUT:<24}" + "".join(f"{cell:>24}" for cell in cells))
    return found


def trial(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run all rounds; return and print what they say."""
    cores = len(os.sched_getaffinity(0))
    place = Here(folder, cores, note, from_nothing=True, telemetry=TELEMETRY)
    shape = (options.seconds, place.node_cores, place.cores, place.most_copies)
    drawn = work.kinds(options.programs, *shape, note, one_each=True)
    kinds = [one._replace(workload_type=TYPE) for one in drawn]
    model, told = learned(kinds, folder, options.learn, options.sessions)
    norms = load_variability(model).model.norms
    note(f"{told['varying']} of {told['rows']} control runs vary; F1 {told['f1_grouped']} on a program left out")
    rounds: dict[str, list[judged.Figures]] = {name: [] for name in options.policies}
    for number in range(options.rounds):
        jobs = work.queue(kinds, options.jobs, place.cores, options.load, options.seed + number)
        rng = np.random.default_rng([options.seed, number])
        when = interference.spells(ON_S, OFF_S, LAST_S, rng)
        beside = partial(interference.coming_and_going, when, options.sessions)
        first = number % len(options.policies)
        for name in [*options.policies[first:], *options.policies[:first]]:
            gated = "" if name == WITHOUT else str(model)
            policy = PolicyConfig(name=name, variability=gated) if gated else PolicyConfig(name=name)
            ran = place.run(f"{number + 1}-{name}", policy, jobs, beside)
            delays = sum(one.get("delayed", 0) for one in place.tallies.values())
            rounds[name].append(found := figures(ran, jobs, norms, delays))
            said = ", ".join(f"{words} {found[figure]:.1f}" for figure, words in SHOWN.items())
            note(f"round {number + 1} of {options.rounds}, {name}: {said}")
    print(f"\n{options.jobs} jobs a round of {', '.join(options.programs)} on {place.words};")
    print(f"interference lasts {ON_S:g} s and rests {OFF_S:g} s on average; medians, in brackets 95 % intervals\n")
    print("\n".join(lines(rounds)))
    return {"training": told, "rounds": rounds, "load_average": os.getloadavg()}


def main(words: Sequence[str] | None = None) -> None:
    """Run the trial; a refusal is one sentence and exit status 2."""
    try:
        options = parse(words)
        with tempfile.TemporaryDirectory(prefix="cohabit-gate-trial-") as name:
            os.chmod(name, 0o755)  # the controller's account must pass it if root runs this
            found = trial(options, Path(name))
    except InputError as error:
        note(str(error))
        sys.exit(2)
    if options.json is not None:
        with replacing(options.json) as stream:
            stream.write(json.dumps(found, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main()
