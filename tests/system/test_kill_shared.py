"""Jobs that share a node, in control groups, while controller, launcher and runners are killed at random moments:
none lost, none run twice, none orphaned, no two on one core, and no group left behind."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.deadly_rounds import Nursery
from tests.system.shared_round import play

CORES = len(os.sched_getaffinity(0))


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    one = Nursery()
    yield one
    one.close()


@pytest.mark.slow
@pytest.mark.skipif(CORES < 2, reason="needs two cores to share a node")
@pytest.mark.parametrize("seed", range(8))
def test_shared_nodes_survive_whoever_dies(nursery: Nursery, seed: int, tmp_path: Path) -> None:
    play(nursery, tmp_path, random.Random(seed))
