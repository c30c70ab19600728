"""Replicated programs and plain commands with real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.framework_runs import CORES, OWN_PYTHON, Running, nodes, probe, run, two_cores

pytestmark = [pytest.mark.system, two_cores]
COPY = probe("of_copy", OWN_PYTHON)


def test_a_copy_per_core(tmp_path: Path) -> None:
    found = run(tmp_path, "replicated", COPY, nodes((0,), (1,)))
    assert [(one["rank"], one["of"], one["node"]) for one in found] == [(0, "2", "0"), (1, "2", "1")]
    assert [(one["cores"], one["threads"]) for one in found] == [([CORES[0]], "1"), ([CORES[1]], "1")]


def test_a_copy_of_two_threads(tmp_path: Path) -> None:
    (found,) = run(tmp_path, "replicated", COPY, nodes((0, 1)), threads=2)
    assert (found["cores"], found["threads"]) == (CORES[:2], "2")


def test_all_end_and_the_worst_status_counts(tmp_path: Path) -> None:
    wishes = {"processes": 4, "oversubscribe": True}
    status, found, _ = Running(tmp_path, "replicated", (*COPY, "0", "7", "2", "0"), nodes((0, 1)), **wishes).end()
    assert status == 7
    assert sorted(one["rank"] for one in found) == [0, 1, 2, 3]


def test_a_plain_command_runs_once(tmp_path: Path) -> None:
    script = "import json, os; print(json.dumps({'cores': sorted(os.sched_getaffinity(0)), **os.environ}))"
    (found,) = run(tmp_path, "plain", (OWN_PYTHON, "-c", script), nodes((1,)))
    assert found["cores"] == [CORES[1]]
    assert (found["COHABIT_CORES"], found["COHABIT_SCALE"], found["COHABIT_FRAMEWORK"]) == ("1", "1", "plain")
