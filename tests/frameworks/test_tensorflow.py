"""TensorFlow: pools as large as asked for, and two workers that find each other by TF_CONFIG."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.framework_runs import CORES, needs, nodes, probe, run, two_cores

pytestmark = [pytest.mark.system, pytest.mark.slow, two_cores, needs("tensorflow")]


def test_the_pools_are_as_large_as_asked(tmp_path: Path) -> None:
    """More threads than cores here, so that what the kernel counts cannot be TensorFlow's own choice."""
    found = {}
    for threads in (2, 4):
        wishes = {"threads": threads, "processes": threads, "oversubscribe": threads > 2}
        (found[threads],) = run(tmp_path, "tensorflow", probe("of_tensorflow"), nodes((0, 1)), **wishes)
    assert [found[threads]["inter"] for threads in (2, 4)] == [2, 2]
    assert found[4]["threads"] - found[2]["threads"] == 2
    assert found[2]["cores"] == CORES[:2]


def test_two_nodes_have_a_worker_each_and_can_talk(tmp_path: Path) -> None:
    found = run(tmp_path, "tensorflow", probe("of_tensorflow"), nodes((0,), (1,)))
    assert [(one["rank"], one["size"], one["sum"]) for one in found] == [("0", 2, 2.0), ("1", 2, 2.0)]
    assert [one["cores"] for one in found] == [[CORES[0]], [CORES[1]]]
