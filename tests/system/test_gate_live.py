"""The variability gate for real: a model learned on this machine holds a real job back while a real load runs.

Nothing is made up: control jobs run while a load comes and goes (`cohabit measure runs`), a model is trained on what
the samplers saw before each (`cohabit train variability`), and a running scheduler that samples the same machine asks
it. Operating systems share a core out by sessions, so the load is many sessions on the core the control jobs run on:
whoever starts there beside them gets a small part of it, on a quiet machine and on a busy one.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.cli_calls import COMMAND
from tests.verbs.living import AN_ACCOUNT, Scheduler

CORES = sorted(os.sched_getaffinity(0))
CORE = CORES[0]  # of node 0 where every core is a node
SESSIONS = 12
WINDOW_S = 3
PYTHON = [sys.executable, "-I", "-S", "-c"]
SPIN = [
    *PYTHON,
    f"""
import os
os.sched_setaffinity(0, {{{CORE}}})
for _ in range({SESSIONS - 1}):
    if os.fork() == 0:
        os.setsid()
        break
parent = os.getppid()
while os.getppid() == parent:
    sum(range(100_000))
""",
]
ADD = [*PYTHON, "total = 0\nfor number in range(500_000): total += number"]
SORT = [*PYTHON, "for number in range(3): sorted(range(100_000, 0, -1), key=lambda one: one ^ 21845)"]
PLAN = f"""
interval_s = 1.5
repeats = 68
window_s = {WINDOW_S}
limit_s = 120

[[program]]
name = "add"
workload_type = "compute"
command = {json.dumps(ADD)}
cores = [{CORE}]

[[program]]
name = "sort"
workload_type = "compute"
command = {json.dumps(SORT)}
cores = [{CORE}]

[interference]
command = {json.dumps(SPIN)}
on_s = 12
off_s = 33
"""
SITE = f"""
nodes = {len(CORES)}
place = "{{place}}"
[policy]
name = "{{policy}}"
variability = "{{model}}"
skip_threshold = 1000
[telemetry]
every_s = 1
window_s = {WINDOW_S}
"""
DEADLINE_S = 45.0
TRAININGS = 3  # a model of two minutes may have learned little, on a machine with other work


def call(*words: str | Path) -> dict[str, object]:
    """A verb as a program of its own; its document."""
    done = subprocess.run([COMMAND, *map(str, words), "--json"], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@contextmanager
def load() -> Iterator[None]:
    """The same load as in training; it ends with us, whatever happens."""
    spinning = subprocess.Popen(SPIN, start_new_session=True)
    try:
        yield
    finally:
        spinning.kill()
        spinning.wait()


@contextmanager
def scheduler(folder: Path, policy: str, model: Path) -> Iterator[Scheduler]:
    """A living one that samples this machine."""
    site = folder / f"{policy}.toml"
    text = SITE.format(place=folder / policy, policy=policy, model=model if policy == "rush" else "")
    site.write_text(f"{text}{AN_ACCOUNT}")
    one = Scheduler(folder / policy, command=("controller", str(site))).start()
    try:
        yield one
    finally:
        one.stop()


def submit(server: Scheduler, name: str) -> None:
    server.submit("--name", name, "--limit", "5m", "--program", "add", "--workload-type", "compute", "--", *ADD)


def why(server: Scheduler, name: str) -> str:
    return json.dumps(server.ok("why", name))


def wait_until_kept(server: Scheduler) -> str:
    """Jobs one after another until one has to wait for calmer weather, for two whole windows; its name, or "" where
    nobody had to in time. A window that the load fills only in part may look calm."""
    deadline = time.monotonic() + DEADLINE_S
    for number in range(1000):
        name = f"noisy-{number}"
        submit(server, name)
        until = time.monotonic() + 2 * WINDOW_S
        while (state := server.show(name)["state"]) in ("queued", "running", "starting") and time.monotonic() < until:
            if state == "queued" and "vary" in why(server, name) and stays(server, name):
                return name
            time.sleep(0.2)
        if time.monotonic() > deadline:
            break
    return ""


def stays(server: Scheduler, name: str) -> bool:
    """Whether it waits for two more windows."""
    until = time.monotonic() + 2 * WINDOW_S
    while time.monotonic() < until and server.show(name)["state"] == "queued":
        time.sleep(0.2)
    return bool(server.show(name)["state"] == "queued")


def keep_what_only_the_load_moves(runs: Path) -> None:
    """Leave out load averages of minutes: with two loads in two minutes they tell the time of day, no more. And disks:
    every window holds control jobs, which write less while a load slows them down; waiting jobs write nothing."""
    with runs.open(newline="") as stream:
        rows = list(csv.reader(stream))
    kept = [at for at, name in enumerate(rows[0]) if not name.startswith(("load.load_", "disk.", "pressure.io_"))]
    assert len(kept) < len(rows[0])
    with runs.open("w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([row[at] for at in kept] for row in rows)


def learn(folder: Path) -> Path:
    """A model of this machine, from control jobs."""
    plan, model = folder / "runs.toml", folder / "model"
    plan.write_text(PLAN)
    call("measure", "runs", plan, "--out", folder / "runs.csv")
    keep_what_only_the_load_moves(folder / "runs.csv")
    learned = call("train", "variability", folder / "runs.csv", "--model", "forest", "--out", model)
    assert int(str(learned["varying"])) >= 4, learned
    return model


def is_held_back(folder: Path, model: Path) -> bool:
    """Whether a scheduler with this model lets a real job wait until a real load has gone."""
    with scheduler(folder, "rush", model) as gated:
        with load():
            if not (kept := wait_until_kept(gated)):
                return False
            assert "passed over" in why(gated, kept)
        assert gated.over(kept)["state"] == "done"
    return True


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.system
def test_a_real_job_waits_until_a_real_load_has_gone(tmp_path: Path) -> None:
    """From control jobs to the delay of a job that would have suffered."""
    for number in range(TRAININGS):
        folder = tmp_path / str(number)
        folder.mkdir()
        if is_held_back(folder, model := learn(folder)):
            break
    else:
        raise AssertionError(f"nobody was ever delayed, by any of {TRAININGS} models")

    with scheduler(tmp_path, "ce-easy", model) as open_to_all, load():
        time.sleep(2 * WINDOW_S)
        submit(open_to_all, "at-once")
        assert open_to_all.over("at-once")["state"] == "done"
        assert "vary" not in why(open_to_all, "at-once")
