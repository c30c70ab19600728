"""A placement of whole nodes is asked for every job: compiled code gives out the lowest nodes only in place of one that
does the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from cohabit.app.simulate.simulation import _beyond_fast
from cohabit.core.core import SchedulerCore
from cohabit.core.view import View
from cohabit.model.cluster import uniform_cluster
from cohabit.model.command import StartJob
from cohabit.model.plan import Placement
from tests.support.builders import TraceRow, policies, prepared_trace, submitted


class Highest:
    """The highest-numbered idle nodes."""

    exclusive = True

    def place(self, row: int, allowed: NDArray[np.int64], idle: NDArray[np.bool_], view: View) -> Placement | None:
        need, free = view.need(row), np.flatnonzero(idle)
        if need > min(len(free), int(allowed.sum())):
            return None
        return Placement(tuple((int(node), 1) for node in free[-need:]))


@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
def test_it_is_asked(backfill: str) -> None:
    core = SchedulerCore(uniform_cluster(8), replace(policies("fcfs", backfill), placer=Highest()))
    commands = core.step(0, [submitted("a", nodes=2), submitted("b", nodes=1)])
    starts = {one.job_id: one.nodes for one in commands if isinstance(one, StartJob)}
    assert starts == {"a": ((6, 1), (7, 1)), "b": ((5, 1),)}


def test_the_fast_engine_refuses_it() -> None:
    prepared = prepared_trace([TraceRow(0, 10, 10, 1)], 4)
    assert _beyond_fast(prepared) == ""
    other = replace(prepared, policies=replace(prepared.policies, placer=Highest()))
    assert _beyond_fast(other) == "another placement of whole nodes"
