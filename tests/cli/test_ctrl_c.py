"""Ctrl-C at any moment: one sentence and status 130, or the whole result where it came too late; never a traceback.

The moments are spread over all that a verb does, from the first line that is ours: loading modules, loading machine
code, starting workers, computing, writing, leaving. A program is told by the terminal, and so are its workers.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_calls import Answer, cohabit

from tests.breadth import WIDE

pytestmark = pytest.mark.slow

MOMENTS = 6 if WIDE else 3
# As the console script does it; says when it listens, which is not before Python itself has begun.
ENTRY = """
import os, sys
from cohabit.cli import interrupts
interrupts.while_loading()
os.write(int(os.environ["LISTENING"]), b"x")
from cohabit.cli.start import run
run()
"""
VERBS = {
    "simulate": ("simulate", "SCENARIO", "--engine", "steps", "--json"),
    "compare": ("compare", "SCENARIO", "--policies", "fcfs+easy,sjf+none", "--repeat", "2", "--no-report", "--json"),
    "sweep": ("sweep", "SCENARIO", "--vary", "order=fcfs,sjf", "--vary", "seed=1,2", "--workers", "2", "--json"),
}


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("moments")
    made = cohabit("generate", "poisson", "--jobs", "3000", "--nodes", "64", "--load", "0.9", "-o", folder / "jobs.swf")
    assert made.code == 0, made.err
    path = folder / "moments.toml"
    path.write_text('[cluster]\nnodes = 64\n[jobs]\ntrace = "jobs.swf"\n')
    return path


def listen_to_ctrl_c() -> None:
    """Tests may run where it is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ended_within(process: subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def call(verb: str, scenario: Path, after_s: float | None, **environment: str) -> tuple[Answer, float]:
    """The verb, told to stop so long after it began to listen; how long it took."""
    reading, writing = os.pipe()
    words = [str(scenario) if word == "SCENARIO" else word for word in VERBS[verb]]
    process = subprocess.Popen(
        [sys.executable, "-c", ENTRY, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, pass_fds=(writing,), preexec_fn=listen_to_ctrl_c,
        env=os.environ | {"LISTENING": str(writing)} | environment,
    )  # fmt: skip
    os.close(writing)
    try:
        assert os.read(reading, 1) == b"x", process.communicate()
        begun = time.monotonic()
        if after_s is not None and not ended_within(process, after_s):
            os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=300)
        return Answer(process.returncode, out, err), time.monotonic() - begun
    finally:
        os.close(reading)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("verb", VERBS)
def test_ctrl_c_at_any_moment(verb: str, scenario: Path) -> None:
    for _ in range(2):  # compiled then, whatever happened before
        whole, took_s = call(verb, scenario, None)
        assert whole.code == 0, whole.err
    rng = random.Random(verb)
    for number in range(MOMENTS):
        after_s = took_s * (number + rng.random()) / MOMENTS
        answer, _ = call(verb, scenario, after_s)
        told = f"after {after_s:.3f} of {took_s:.3f} s: {answer}"
        assert "Traceback" not in answer.err, told
        assert "Exception ignored" not in answer.err, told
        if answer.code == 130:
            assert "cohabit: stopped" in answer.err, told
        else:
            assert answer.code == 0, told
            assert json.loads(answer.out).get("complete", True), told


def test_ctrl_c_while_machine_code_is_made(scenario: Path, tmp_path: Path) -> None:
    """With nothing kept from earlier runs: compiling takes long, and calls back into Python all the time."""
    for after_s in (1.0, 3.0, 5.0, 7.0):
        answer, _ = call("simulate", scenario, after_s, COHABIT_CACHE=str(tmp_path / str(after_s)))
        assert (answer.code, answer.out) == (130, ""), answer
        assert answer.err.endswith("cohabit: stopped; nothing was kept\n"), answer
        assert "Traceback" not in answer.err


def test_what_was_to_be_raised_again_does_not_kill_a_program_that_has_ended() -> None:
    """A library swallowed Ctrl-C just before the program came to its end: the moment falls while Python goes down."""
    lines = """
import signal, sys, time
from cohabit.cli import interrupts
interrupts.while_loading()
interrupts.while_working()
class Swallows:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
Swallows()
assert interrupts.seen()
interrupts.at_the_end()
class TakesAMoment:  # after Python has taken its signal handlers down
    def __del__(self, wait=time.sleep, moment=5 * interrupts.AGAIN_S):
        wait(moment)
last = TakesAMoment()
sys.exit(interrupts.STATUS)
"""
    ended = subprocess.run(
        [sys.executable, "-c", lines], capture_output=True, text=True, timeout=60, preexec_fn=listen_to_ctrl_c
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
