"""The gate on a real Slurm with real interference: what it delays, what `why` names, and how many runs vary.

    python -m tests.loops.gate_on_slurm OUT [--jobs 20] [--rounds 30] [--repeats 2]

Two nodes of Slurm on this machine, a core each, with daemons that report telemetry. Control jobs run through Slurm
while stress-ng loads the core of the first node and the disk again and again; a model is trained from that; then the
same jobs arrive at the same instants, under the same interference, without the gate (`ce-easy`) and with it (`rush`),
in turn. Figures are written to OUT/figures.json; docs/variability-evidence.md has those of one run.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from cohabit.app.steer.node_channel import keys_of
from cohabit.report.variation import live_runs, norms_of, variation_of
from tests.backend.slurm.conftest import LUA
from tests.backend.slurm.steering import attached, until, write_site
from tests.cli.cli_calls import COMMAND
from tests.ports import free_port
from tests.support.slurm_cluster import SlurmCluster, running_slurm

NODES = 2
CORE = sorted(os.sched_getaffinity(0))[0]  # that of the first node; the one behind it is that of the second
WINDOW_S = 4
ON_S, OFF_S = 20, 40  # the interference
SPINNERS = 7  # sessions of stress-ng on that core: a run beside them gets an eighth of it
EVERY_S = 8.0  # jobs arrive so often on average
ADD = "total = 0\nfor number in range(10_000_000): total += number"
SORT = "for number in range(22): sorted(range(300_000, 0, -1), key=lambda one: one ^ 21845)"
PROGRAMS = {"add": ADD, "sort": SORT}
TABLES = """
[nodes]
listen = "127.0.0.1:{port}"
[telemetry]
every_s = 1
window_s = {window}
"""
PLAN = """
launcher = "slurm"
sbatch = ["--nodes=1"]
interval_s = 6
repeats = {rounds}
window_s = {window}
limit_s = 240
{programs}
[interference]
command = {load}
on_s = {on}
off_s = {off}
"""


def command_of(program: str) -> list[str]:
    pinned = f'exec taskset -c $(({CORE} + ${{SLURMD_NODENAME#n}})) "$@"'
    return ["sh", "-c", pinned, "sh", sys.executable, "-I", "-S", "-c", PROGRAMS[program]]


def load_of(folder: Path) -> list[str]:
    """Sessions of stress-ng on the core of the jobs, and one that writes to their disk; they end with the shell."""
    (folder / "scratch").mkdir(exist_ok=True)
    words = f"setsid stress-ng --quiet --taskset {CORE} --temp-path {folder / 'scratch'}"
    spin = " & ".join([f"{words} --cpu 1"] * SPINNERS + [f"{words} --hdd 1 --hdd-bytes 64m"])
    return ["sh", "-c", f"trap 'pkill -TERM -P $$; exit 0' TERM INT; {spin} & wait"]


@contextmanager
def interference(folder: Path, since: float) -> Iterator[None]:
    """Rest OFF_S, run ON_S, again and again from an instant on."""
    over = Event()

    def live() -> None:
        while not over.wait(max(0.0, OFF_S - (time.monotonic() - since) % (ON_S + OFF_S))):
            running = subprocess.Popen(load_of(folder), start_new_session=True)
            over.wait(ON_S)
            running.terminate()
            running.wait(30)

    thread = Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def call(*words: str | Path, environment: dict[str, str] | None = None) -> dict[str, Any]:
    done = subprocess.run(
        [COMMAND, *map(str, words), "--json"], capture_output=True, text=True, timeout=3000, env=environment
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def learned(slurm: SlurmCluster, folder: Path, rounds: int) -> tuple[Path, dict[str, Any]]:
    """A model of control jobs that ran through Slurm; averages of minutes and disks are left out (docs)."""
    if (folder / "training.json").exists():  # of an earlier call
        return folder / "model", json.loads((folder / "training.json").read_text())
    programs = "".join(
        f'[[program]]\nname = "{name}"\nworkload_type = "compute"\ncommand = {json.dumps(command_of(name))}\n'
        for name in PROGRAMS
    )
    text = PLAN.format(
        rounds=rounds, window=WINDOW_S, programs=programs, load=json.dumps(load_of(folder)), on=ON_S, off=OFF_S
    )
    (folder / "runs.toml").write_text(text)
    call("measure", "runs", folder / "runs.toml", "--out", folder / "runs.csv", environment=slurm.environment)
    with (folder / "runs.csv").open(newline="") as stream:
        rows = list(csv.reader(stream))
    kept = [at for at, name in enumerate(rows[0]) if not name.startswith(("load.load_", "disk.", "pressure.io_"))]
    with (folder / "runs.csv").open("w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([row[at] for at in kept] for row in rows)
    told = call("train", "variability", folder / "runs.csv", "--model", "forest", "--out", folder / "model")
    (folder / "training.json").write_text(json.dumps(told))
    return folder / "model", told


@contextmanager
def daemons(slurm: SlurmCluster, site: Path) -> Iterator[None]:
    """`cohabit node serve` for every node."""
    with ExitStack() as stack:
        for number in range(NODES):
            words = ["node", "serve", "--name", f"n{number}", "--folder", str(site.parent / f"node{number}"), str(site)]
            said = stack.enter_context((site.parent / f"node{number}.log").open("ab"))
            one = subprocess.Popen(
                [sys.executable, "-m", "cohabit.cli", *words], stdout=said, stderr=said, env=slurm.environment
            )
            stack.callback(one.wait, 60)
            stack.callback(one.terminate)
        yield


def why(folder: Path, job: str) -> str:
    words = [sys.executable, "-m", "cohabit.cli", "why", job, "--server", str(folder / "state/cohabit.sock")]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False).stdout


def trial(
    slurm: SlurmCluster, folder: Path, policy: str, keys: str, arrivals: list[tuple[float, str]]
) -> dict[str, Any]:
    """One policy: all jobs at their instants; every job notes its own clock."""
    folder.mkdir()
    site = write_site(slurm, folder, policy, keys, node=TABLES.format(port=free_port(), window=WINDOW_S))
    for number in range(NODES):
        keys_of(site).make(f"n{number}", new=False)
    (folder / "times").mkdir()
    delayed: dict[str, str] = {}
    with attached(site, "--as-root"), daemons(slurm, site):
        time.sleep(2 * WINDOW_S + 4)  # windows have come
        begun, jobs = time.monotonic(), list[str]()
        with interference(folder, begun):
            for at_s, program in arrivals:
                while time.monotonic() < begun + at_s:
                    note_delays(folder, jobs, delayed)
                    time.sleep(0.5)
                jobs.append(submitted(slurm, folder, program))
            until(lambda: note_delays(folder, jobs, delayed) or over(folder, jobs), 1800, lambda: slurm.run("squeue"))
        makespan_s = time.monotonic() - begun
    return figures(folder, jobs) | {"makespan_s": makespan_s, "delayed": len(delayed), "why": list(delayed.values())}


def note_delays(folder: Path, jobs: list[str], delayed: dict[str, str]) -> None:
    """Keep what `why` says of jobs that the gate keeps back."""
    for job in jobs:
        waits = not (folder / "times" / f"{job}.begin").exists()
        if waits and job not in delayed and "vary" in (said := why(folder, job)):
            delayed[job] = said


def over(folder: Path, jobs: list[str]) -> bool:
    return all((folder / "times" / f"{job}.end").exists() for job in jobs)


def submitted(slurm: SlurmCluster, folder: Path, program: str) -> str:
    quoted = shlex.join(command_of(program))
    script, times = folder / f"{program}.sh", folder / "times"
    script.write_text(
        f"#!/bin/sh\ndate +%s.%N > {times}/$SLURM_JOB_ID.begin\n{quoted}\ndate +%s.%N > {times}/$SLURM_JOB_ID.end\n"
    )
    words = ("-N1", "-n1", "-t30", f"-J{program}", "--comment=cohabit:type=compute")
    job = slurm.run("sbatch", "--parsable", "--output=/dev/null", *words, str(script)).strip()
    (times / f"{job}.submit").write_text(f"{time.time()} {program}")
    return job


def figures(folder: Path, jobs: list[str]) -> dict[str, Any]:
    rows = []
    for job in jobs:
        times = folder / "times"
        submit, program = (times / f"{job}.submit").read_text().split()
        begin, end = (float((times / f"{job}.{name}").read_text()) for name in ("begin", "end"))
        rows.append({"program": program, "wait_s": begin - float(submit), "run_s": end - begin})
    return {"jobs": rows}


def runs(told: list[dict[str, Any]]) -> Any:
    return live_runs([(one["program"], 1, round(one["run_s"] * 1e6)) for result in told for one in result["jobs"]])


def table(plain: list[dict[str, Any]], gated: list[dict[str, Any]]) -> dict[str, Any]:
    """Varying runs against the mean and deviation of the runs without the gate."""
    norms, found = norms_of([runs(plain)]), {}
    for name, told in (("ce-easy", plain), ("rush", gated)):
        jobs = [one for result in told for one in result["jobs"]]
        found[name] = {
            "runs": len(jobs),
            "varying_runs": sum(row["varying_runs"] for row in variation_of(runs(told), norms)),
            "mean_run_s": sum(one["run_s"] for one in jobs) / len(jobs),
            "longest_run_s": max(one["run_s"] for one in jobs),
            "mean_wait_s": sum(one["wait_s"] for one in jobs) / len(jobs),
            "makespan_s": [round(one["makespan_s"], 1) for one in told],
            "delayed": sum(one["delayed"] for one in told),
            "programs": variation_of(runs(told), norms),
        }
    return found


def campaign(folder: Path, asked: argparse.Namespace, arrivals: list[tuple[float, str]]) -> dict[str, Any]:
    """Learn, then all trials in turn; what is known so far is written after each."""
    folder.chmod(0o755)
    lua = LUA.read_text(encoding="utf-8").replace("/var/lib/cohabit/lease", str(folder / "slurm" / "lease"))
    document: dict[str, Any] = {}
    told: dict[str, list[dict[str, Any]]] = {"ce-easy": [], "rush": []}
    with running_slurm(folder / "slurm", nodes=NODES, cores=1, job_submit=lua) as slurm:
        model, training = learned(slurm, asked.out.resolve(), asked.rounds)
        gate = f'variability = "{model}"\nskip_threshold = 1000'
        for number in range(asked.repeats):
            for policy, keys in (("ce-easy", ""), ("rush", gate)):
                told[policy].append(trial(slurm, folder / f"{policy}-{number}", policy, keys, arrivals))
            document = {"training": training, "table": table(told["ce-easy"], told["rush"]), "trials": told}
            (asked.out / "figures.json").write_text(json.dumps(document, indent=1) + "\n")
    return document


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=30, help="of control jobs")
    parser.add_argument("--repeats", type=int, default=2, help="trials of each policy")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    draw, at_s = random.Random(1), 0.0
    arrivals = []
    for number in range(asked.jobs):
        at_s += draw.expovariate(1 / EVERY_S)
        arrivals.append((at_s, list(PROGRAMS)[number % len(PROGRAMS)]))
    with tempfile.TemporaryDirectory(prefix="cohabit-gate-", ignore_cleanup_errors=True) as name:
        document = campaign(Path(name), asked, arrivals)
    said = [text for result in document["trials"]["rush"] for text in result["why"]]
    named = {name for text in said for name in re.findall(r"mostly as (\S+)", text)}
    sys.stdout.write(json.dumps({"table": document["table"], "counters": sorted(named)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
