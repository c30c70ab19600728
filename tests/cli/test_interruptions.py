"""Stopped in the middle: Ctrl-C keeps what is finished and says so, and kill -9 leaves no half-written file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_calls import COMMAND, Answer, cohabit

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def long_scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each run of it takes the better part of a second; all of a test's runs take minutes."""
    folder = tmp_path_factory.mktemp("long")
    options = ("--jobs", "60000", "--nodes", "256", "--load", "0.9")
    made = cohabit("generate", "poisson", *options, "-o", folder / "jobs.swf")
    assert made.code == 0, made.err
    path = folder / "long.toml"
    path.write_text('[cluster]\nnodes = 256\n[jobs]\ntrace = "jobs.swf"\n')
    assert cohabit("simulate", path, "--json").code == 0  # compiled now, whatever happened before
    return path


def stopped(after: Callable[[], bool], how: int, *arguments: str | Path) -> Answer:
    """Start the program, wait until `after` holds, and send the signal to its whole group as a terminal does."""
    process = subprocess.Popen(
        [COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests may run where it is ignored
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline and not after():
            time.sleep(0.005)
        assert process.poll() is None, "it ended before it could be stopped"
        os.killpg(process.pid, how)
        out, err = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            process.kill()
    return Answer(process.returncode, out, err)


def seconds(duration: float) -> Callable[[], bool]:
    end = time.monotonic() + duration
    return lambda: time.monotonic() > end


def stopped_after_some(done: str, *arguments: str | Path) -> Answer:
    """Ctrl-C once something is finished; on a machine so busy that nothing was, later."""
    for duration in (8, 20, 50):
        answer = stopped(seconds(duration), signal.SIGINT, *arguments)
        if answer.out and answer.document[done]:
            break
    return answer


ORDERS = ("fcfs", "sjf", "saf", "f1", "f2", "f3")
POLICIES = ",".join(f"{order}+{kind}" for order in ORDERS for kind in ("easy", "none"))


@pytest.fixture(scope="module")
def comparison(long_scenario: Path) -> tuple[Answer, Path]:
    """240 runs, stopped after some."""
    out = long_scenario.with_name("comparison")
    call = ("compare", long_scenario, "--policies", POLICIES, "--repeat", "20", "--no-report", "--out", out, "--json")
    return stopped_after_some("runs", *call), out


@pytest.fixture(scope="module", params=["1", "2"])
def sweep(long_scenario: Path, request: pytest.FixtureRequest) -> tuple[Answer, Path]:
    """240 cells, stopped after some."""
    out = long_scenario.with_name(f"sweep{request.param}")
    grid = ("--vary", "order=fcfs,sjf,saf,f1,f2,f3", "--vary", "seed=" + ",".join(map(str, range(40))))
    call = ("sweep", long_scenario, *grid, "--workers", request.param, "--out", out, "--json")
    return stopped_after_some("cells", *call), out


def test_compare_keeps_the_finished_runs(comparison: tuple[Answer, Path]) -> None:
    answer, out = comparison
    document = answer.document
    assert document["complete"] is False
    assert 0 < len(document["runs"]) < 240
    assert f"{len(document['runs'])} of 240 runs are finished and kept" in answer.err
    assert "Traceback" not in answer.err
    assert json.loads((out / "summary.json").read_text())["complete"] is False


def test_sweep_keeps_the_finished_cells(sweep: tuple[Answer, Path]) -> None:
    answer, out = sweep
    document = answer.document
    assert document["complete"] is False
    assert 0 < len(document["cells"]) < 240
    assert f"{len(document['cells'])} of 240 cells are finished and kept" in answer.err
    assert "Traceback" not in answer.err
    assert (out / "sweep.csv").read_text().count("\n") == len(document["cells"]) + 1


def test_an_interrupted_comparison_has_status_130(comparison: tuple[Answer, Path]) -> None:
    assert comparison[0].code == 130


def test_an_interrupted_sweep_has_status_130(sweep: tuple[Answer, Path]) -> None:
    assert sweep[0].code == 130


def test_an_interrupted_simulation_says_so(long_scenario: Path, tmp_path: Path) -> None:
    call = ("simulate", long_scenario, "--engine", "steps", "--out", tmp_path / "out")
    answer = stopped(seconds(4), signal.SIGINT, *call)
    assert "Traceback" not in answer.err
    assert "stopped" in answer.err
    assert answer.code == 130


def test_kill_9_while_writing_leaves_no_half_written_file(long_scenario: Path, tmp_path: Path) -> None:
    """Killed at the first sign of output: every file under its own name is whole, drafts begin with a dot."""
    import polars as pl

    out = tmp_path / "out"

    def drafts() -> bool:
        try:
            return any(name.endswith(".part") for name in os.listdir(out))
        except FileNotFoundError:  # it is made and taken away once, to see whether it could be written
            return False

    answer = stopped(drafts, signal.SIGKILL, "simulate", long_scenario, "--out", out, "--journal")
    assert answer.code == -signal.SIGKILL
    for path in out.iterdir():
        match path.name:
            case "jobs.csv":
                assert path.read_text().count("\n") == 60_001
            case "jobs.parquet" | "journal.parquet":
                assert len(pl.read_parquet(path)) >= 60_000
            case "report.html":
                assert path.read_text().rstrip().endswith("</html>")
            case "summary.json":
                json.loads(path.read_text())
            case draft:
                assert draft.startswith(".")
    again = cohabit("simulate", long_scenario, "--out", out, "--no-report", "--json")
    assert again.code == 0
    assert (out / "jobs.csv").read_text().count("\n") == 60_001


def test_kill_9_while_generating_leaves_no_half_written_file(tmp_path: Path) -> None:
    path = tmp_path / "jobs.swf.xz"
    call = ("generate", "poisson", "--jobs", "400000", "--nodes", "256", "-o", path)
    stopped(lambda: any(tmp_path.iterdir()), signal.SIGKILL, *call)
    assert not path.exists()
    assert all(left.name.startswith(".") for left in tmp_path.iterdir())
