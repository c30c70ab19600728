"""Every exercise does its work: the same rounds give the same checksum, more rounds more operations."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import cohabit.exercise
from cohabit.exercise.catalogue import EXERCISES, run

FOLDER = Path(cohabit.exercise.__file__).parent


def test_there_are_enough_kinds() -> None:
    assert len(EXERCISES) >= 11
    modules = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "catalogue"}
    assert {name.replace("-", "_") for name in EXERCISES} == modules


@pytest.mark.parametrize("name", EXERCISES)
def test_fixed_work_is_the_same_work(name: str) -> None:
    first, again, more = (run(name, rounds=rounds, size_mb=1.0) for rounds in (2, 2, 3))
    assert first.rounds == 2
    assert first.operations > 0
    assert (first.operations, first.checksum) == (again.operations, again.checksum)
    assert more.operations > first.operations
    assert more.checksum != first.checksum
    assert first.rate_per_s == pytest.approx(first.operations / first.seconds)


@pytest.mark.parametrize("name", EXERCISES)
def test_the_smallest_size_works(name: str) -> None:
    assert run(name, rounds=1, size_mb=1e-6).operations > 0


def test_it_runs_for_about_as_long_as_asked() -> None:
    outcome = run("compression", seconds=0.3, size_mb=0.5)
    assert 0.3 <= outcome.seconds < 5
    assert outcome.rounds > 1


def test_a_larger_size_is_more_work_per_round() -> None:
    small, large = (run("stream", rounds=1, size_mb=size) for size in (1.0, 4.0))
    assert large.operations == pytest.approx(4 * small.operations, rel=0.01)


@pytest.mark.parametrize("name", EXERCISES)
def test_a_compiled_exercise_says_so(name: str) -> None:
    """Exercises that start without numba start a second earlier."""
    tree = ast.parse((FOLDER / f"{name.replace('-', '_')}.py").read_text())
    imports = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert ("cohabit.compiled" in imports) is EXERCISES[name].compiled
