"""PyTorch: threads as many as cores, and torchrun over two nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.framework_runs import CORES, Running, needs, nodes, probe, run, two_cores

pytestmark = [pytest.mark.system, pytest.mark.slow, two_cores, needs("torch")]


@pytest.mark.parametrize("cores", [(1,), (0, 1)])
def test_one_process_has_as_many_threads_as_cores(tmp_path: Path, cores: tuple[int, ...]) -> None:
    (found,) = run(tmp_path, "pytorch", probe("of_torch"), nodes(cores))
    assert found["threads"] == len(cores)
    assert found["cores"] == [CORES[at] for at in cores]
    assert "rank" not in found


def test_two_nodes_have_a_process_each_and_can_talk(tmp_path: Path) -> None:
    found = run(tmp_path, "pytorch", probe("of_torch"), nodes((0,), (1,)))
    assert [(one["rank"], one["size"], one["sum"]) for one in found] == [(0, 2, 3.0), (1, 2, 3.0)]
    assert [(one["cores"], one["node"], one["threads"]) for one in found] == [
        ([CORES[0]], "0", 1),
        ([CORES[1]], "1", 1),
    ]


def test_two_processes_on_one_node(tmp_path: Path) -> None:
    found = run(tmp_path, "pytorch", probe("of_torch"), nodes((0, 1)), threads=1)
    assert [(one["rank"], one["size"], one["threads"]) for one in found] == [(0, 2, 1), (1, 2, 1)]


def test_a_process_that_fails_takes_the_others_along(tmp_path: Path) -> None:
    status, _, _ = Running(tmp_path, "pytorch", (*probe("of_torch"), "5"), nodes((0,), (1,))).end(120)
    assert status != 0
