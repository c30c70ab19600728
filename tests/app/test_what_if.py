"""What if a finished run had had other nodes, another promise or another policy."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cohabit.app.view import what_if as module
from cohabit.app.view.run import FinishedRun
from cohabit.app.view.what_if import Asked, choices, what_if
from cohabit.model.errors import InputError
from cohabit.policy.registry import BUNDLES

ROOT = Path(__file__).resolve().parents[2]


def simulated(place: Path, name: str, *options: str) -> FinishedRun:
    command = [sys.executable, "-m", "cohabit.cli", "simulate", *options, "--out", str(place / name)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return FinishedRun(place / name)


@pytest.fixture(scope="module")
def easy(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """300 jobs on 32 nodes under FCFS with EASY."""
    place = tmp_path_factory.mktemp("runs")
    text = "[cluster]\nnodes = 32\n[jobs]\ngenerator = 'lublin'\njobs = 300\nload = 0.9\n[policy]\nname = 'ce-easy'\n"
    (place / "easy.toml").write_text(text)
    return simulated(place, "easy", str(place / "easy.toml"))


@pytest.fixture(scope="module")
def sharing(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return simulated(tmp_path_factory.mktemp("runs"), "sharing", str(ROOT / "scenarios" / "sharing.toml"))


def figures(told: dict[str, Any], key: str) -> list[float]:
    return next(row["values"] for row in told["rows"] if row["key"] == key)  # type: ignore[no-any-return]


def test_the_own_settings_give_the_own_figures(easy: FinishedRun, sharing: FinishedRun) -> None:
    for run in (easy, sharing):
        told = what_if(run, Asked())
        assert all(left == right for left, right in (row["values"] for row in told["rows"]))
        assert told["waits"][0] == told["waits"][1]


def test_more_nodes_wait_less_and_too_few_reject(easy: FinishedRun) -> None:
    low, nodes, high = choices(easy)["nodes"]
    assert (low, nodes, high) == (8, 32, 128)
    before, more = figures(what_if(easy, Asked(nodes=high)), "mean_wait_s")
    assert more < before
    assert figures(what_if(easy, Asked(nodes=16)), "jobs_rejected")[1] > 0  # jobs that ask for more


def test_another_policy_and_another_promise(sharing: FinishedRun) -> None:
    told = what_if(sharing, Asked(policy="ce-easy"))
    assert told["policy"] == "fcfs + easy"
    assert figures(told, "run_against_alone")[0] < 0.99  # spreading gains more than neighbours take
    assert figures(told, "run_against_alone")[1] == pytest.approx(1.0)
    strict = figures(what_if(sharing, Asked(alpha=0.99)), "run_against_alone")
    loose = figures(what_if(sharing, Asked(alpha=0.6)), "run_against_alone")
    assert strict[1] != loose[1]
    assert set(choices(sharing)["policies"]) == set(BUNDLES)


def test_what_takes_too_long_ends_with_a_sentence(sharing: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    with pytest.raises(InputError, match="takes longer than 0 s"):
        what_if(sharing, Asked())


def test_a_machine_that_is_too_small_says_so(easy: FinishedRun) -> None:
    wide = FinishedRun(easy.folder)
    wide.table = replace(wide.table, workload=wide.table.workload.take(np.flatnonzero(wide.table.nodes > 1)))
    with pytest.raises(InputError, match=r"none of the .* jobs can run on 1 node"):
        what_if(wide, Asked(nodes=1))
