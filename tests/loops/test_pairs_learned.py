"""Measure pairs, train, schedule: jobs of programs that the scheduler has never seen are paired by what it measured.

An empty store. The first wave runs alone and is measured; the second is paired by a model trained from `measure pairs`
on this machine. Real programs of the exercise kind, two cores, every verb as a user types it.
"""

from __future__ import annotations

import json
import os
import subprocess
from itertools import combinations
from pathlib import Path

import pytest

from tests.cli.cli_calls import COMMAND
from tests.verbs.living import AN_ACCOUNT, Scheduler

CORES = sorted(os.sched_getaffinity(0))
WORK = {"dense": 180, "allocation": 90, "compression": 220, "sort": 480}  # a second or two each
TO_JUDGE = 6  # times that work: runs alone of less than five seconds are too short to judge (slowdowns.py)


def plan(times: int) -> str:
    """The programs to measure, with so many times their work."""
    lines = ['cores = "split"', "repeats = 1", 'sources = ["procfs"]']
    for name, work in WORK.items():
        lines += [
            f'[[program]]\nname = "{name}"',
            f'command = ["{COMMAND}", "exercise", "{name}", "--work", "{work * times}"]',
            f'beside = ["{COMMAND}", "exercise", "{name}", "--seconds", "300"]',
        ]
    return "\n".join(lines)


SITE = """
nodes = 1
place = "{place}"
oversubscribe = true
[policy]
name = "pair-saving"
model = "{model}"
trust_model = true
"""


def call(*words: str | Path, code: int = 0) -> dict[str, object]:
    done = subprocess.run([COMMAND, *map(str, words), "--json"], capture_output=True, text=True, timeout=3000)
    assert done.returncode == code, done.stderr
    return dict(json.loads(done.stdout)) if done.stdout else {}


def predicted_and_measured(server: Scheduler, folder: Path) -> dict[str, float]:
    """What `cohabit report` says of predictions, as a table, as JSON and as files; empty: no run could be judged."""
    told = server.ok("report")
    if "slowdowns" not in told:
        return {}
    assert "a prediction errs by" in server.call("report").out
    assert server.call("report", "--out", folder / "report").code == 0
    assert json.loads((folder / "report" / "summary.json").read_text())["slowdowns"] == told["slowdowns"]
    assert "Predicted against measured slowdown" in (folder / "report" / "report.html").read_text()
    return dict(told["slowdowns"])


def trained(folder: Path, times: int) -> Path:
    """A model of the slowdowns of these programs on this machine."""
    (folder / "programs.toml").write_text(plan(times))
    call("measure", "pairs", folder / "programs.toml", "--out", folder / "pairs.csv")
    call("train", "degradation", folder / "pairs.csv", "--model", "elastic-net", "--out", folder / "model")
    return folder / "model"


def wave(server: Scheduler, number: int, times: int) -> list[str]:
    names = [f"{name}-{number}" for name in WORK]
    for name in names:
        program = name.rpartition("-")[0]
        words = ("--", COMMAND, "exercise", program, "--work", str(WORK[program] * times))
        server.submit("--name", name, "--limit", "20m", "--program", program, *words)
    return names


def beside_each_other(names: list[str], jobs: dict[str, dict[str, float]]) -> list[tuple[str, str]]:
    """The jobs that ran at the same time."""
    return [
        (one, other)
        for one, other in combinations(names, 2)
        if max(jobs[one]["started_at"], jobs[other]["started_at"])
        < min(jobs[one]["ended_at"], jobs[other]["ended_at"]) - 0.2
    ]


@pytest.mark.slow
@pytest.mark.skipif(len(CORES) < 2, reason="two programs side by side need two cores")
@pytest.mark.parametrize("times", [1, pytest.param(TO_JUDGE, marks=pytest.mark.timing)])
def test_the_second_wave_is_paired_by_what_the_first_taught(tmp_path: Path, times: int) -> None:
    site = tmp_path / "site.toml"
    site.write_text(SITE.format(place=tmp_path / "place", model=trained(tmp_path, times)) + AN_ACCOUNT)
    needs = {row["need"]: row for row in call("doctor", "--site", site)["needs"]}  # type: ignore[attr-defined]
    assert needs["counters"]["state"] == "met", needs
    server = Scheduler(tmp_path / "place", command=("controller", str(site))).start()
    try:
        first = wave(server, 1, times)
        assert "has no profile" in json.dumps(server.ok("why", first[-1]))
        server.ok("wait", *first)
        second = wave(server, 2, times)
        said = json.dumps(server.ok("why", second[-1]))
        assert "model model expects it to slow by" in said or "no job left in the queue would go well" in said, said
        server.ok("wait", *second)
        jobs = {one["job"]: one for one in server.ok("queue", "--all")["jobs"]}
        figures = predicted_and_measured(server, tmp_path)
    finally:
        server.stop()
    assert all(jobs[name]["state"] == "done" for name in (*first, *second))
    assert not beside_each_other(first, jobs)
    pairs = beside_each_other(second, jobs)
    assert pairs, said
    for name in {name for pair in pairs for name in pair}:
        assert jobs[name]["predicted_slowdown"] >= 1.0
        assert jobs[name]["actual_slowdown"] is not None or jobs[name]["slowdown_why"]
    if times == TO_JUDGE:  # on a quiet machine
        assert figures["jobs"] >= 2
        assert 0.8 < figures["mean_measured"] < 2.0
