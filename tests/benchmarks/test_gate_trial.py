"""The live trial of the gate: interference ends with its owner, figures are right, bad options are one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from benchmarks.trial import interference
from benchmarks.trial.work import Kind, Ran, TrialJob

from benchmarks import gate_trial
from cohabit.predict.variability_data import Norms

KIND = Kind("p", 1, 1.0, ("true",))


def test_spells_are_the_same_again_and_last_as_told() -> None:
    first, again, other = (interference.spells(10, 25, 20_000, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert np.mean([end - begin for begin, end in first]) == pytest.approx(10, rel=0.1)
    rests = [later[0] - before[1] for before, later in pairwise(first)]
    assert np.mean(rests) == pytest.approx(25, rel=0.1)


def gone(pids: list[str], within_s: float = 10.0) -> bool:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_sessions_end_with_the_process_that_started_them(how: signal.Signals) -> None:
    busy = subprocess.Popen(interference.command(1), start_new_session=True)
    try:
        until, children, sessions = time.monotonic() + 30, list[str](), set[str]()
        while (len(children) < len(os.sched_getaffinity(0)) or sessions != set(children)) and time.monotonic() < until:
            children = Path(f"/proc/{busy.pid}/task/{busy.pid}/children").read_text().split()
            sessions = {Path(f"/proc/{pid}/stat").read_text().split()[5] for pid in children}
        assert sessions == set(children), "each has a session of its own"
        busy.send_signal(how)
        busy.wait()
        assert gone(children)
    finally:
        busy.kill()


def test_interference_is_over_when_the_block_is() -> None:
    began = time.monotonic()
    with interference.coming_and_going([(0.0, 0.2), (60.0, 70.0)], 1):
        time.sleep(0.3)
    assert time.monotonic() - began < 5


def test_figures_and_table() -> None:
    jobs = [TrialJob(str(number), KIND, 0.0, 20.0) for number in range(3)]
    ran = [Ran(0.0, 0.0, 2.0), Ran(0.0, 1.0, 5.0), Ran(0.0, 2.0, 4.5)]
    found = gate_trial.figures(ran, jobs, Norms({"p": 2.0}, {"p": 1.0}), 4)
    assert (found["varying"], found["makespan_s"], found["mean_wait_s"], found["delayed"]) == (1.0, 5.0, 1.0, 4.0)
    better = found | {"varying": 0.0, "makespan_s": 7.0}
    told = gate_trial.lines({"ce-easy": [found] * 3, "rush-paying": [better] * 3})
    assert [line.split()[:3] for line in told[1:]] == [
        ["ce-easy", "1.0", "(1.0"], ["rush-paying", "0.0", "(0.0"], ["rush-paying", "less", "ce-easy"],
    ]  # fmt: skip
    assert told[3].split()[3:10] == ["-1.0", "(-1.0", "to", "-1.0)", "2.0", "(2.0", "to"]


@pytest.mark.parametrize("words", [["--policies", "rushh"], ["--rounds", "0"], ["--learn", "0"]])
def test_bad_options_are_one_sentence(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        gate_trial.main(words)
    assert refused.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
