"""Windows and jobs with mates in other domains: kept nodes and agreed starts respect them, too."""

from __future__ import annotations

import numpy as np
import pytest

from cohabit.model.event import Event, NodeDown, NodeUp, WindowSet
from cohabit.model.units import SECOND
from tests.core.mates.test_together import HH, pair, replace_release, starts_of
from tests.support.coupled import build, random_case

JOBS = (("a", 0, 3, 100, 100), ("b", 500, 6, 100, 100))


def test_kept_nodes_that_are_about_to_close_are_let_go() -> None:
    run = build(pair(replace_release(0), HH, JOBS, ((0, 1),), nodes=6), check=True)
    run.worlds["a"].add((), [(100 * SECOND, WindowSet("w", 150 * SECOND, 2000 * SECOND, ((0, 1),)))])
    run.run()
    assert starts_of(run)["0"][0] == starts_of(run)["1"][0] == 500 * SECOND
    assert run.worlds["a"].outcomes["0"].nodes == ((1, 3),)


def test_a_common_start_that_would_run_into_a_window_is_given_up() -> None:
    """The nodes were kept in time; the mates come so late that the run would not end before the window."""
    run = build(pair(replace_release(0), HH, JOBS, ((0, 1),), nodes=6), check=True)
    run.worlds["a"].add((), [(0, WindowSet("w", 550 * SECOND, 2000 * SECOND, ((0, 1),)))])
    run.run()
    assert starts_of(run)["0"][0] == starts_of(run)["1"][0]
    assert 500 * SECOND <= int(starts_of(run)["0"][0] or 0) < 2000 * SECOND
    assert run.worlds["a"].outcomes["0"].nodes == ((1, 3),)


@pytest.mark.parametrize("seed", range(20))
def test_no_job_with_mates_is_started_into_a_window(seed: int) -> None:
    rng = np.random.default_rng([43, seed])
    case = random_case(rng)
    run = build(case, check=True)
    announced: dict[str, tuple[int, WindowSet]] = {}
    for name, world in run.worlds.items():
        nodes = len(world.core.state.node_state)
        at_us, first, lost = (int(rng.integers(0, most)) for most in (9_000 * SECOND, nodes, nodes))
        begin_us = at_us + int(rng.integers(0, 3_000)) * SECOND
        told = WindowSet("w", begin_us, begin_us + 3_000 * SECOND, ((first, 1 + int(rng.integers(0, nodes - first))),))
        facts: list[tuple[int, Event]] = [
            (at_us, told),
            (2_000 * SECOND, NodeDown(lost)),
            (2_900 * SECOND, NodeUp(lost)),
        ]
        world.add((), facts)
        announced[name] = at_us, told
    run.run()
    started = 0
    for name, world in run.worlds.items():
        at_us, told = announced[name]
        limits = {traced.job.job_id: traced.job.limit_us for traced in world.jobs}
        closed = {*range(told.nodes[0][0], sum(told.nodes[0]))}
        for job_id, one in world.outcomes.items():
            assert one.status == "done", (job_id, one)
            assert one.start_us is not None
            if one.start_us >= at_us:
                own = {node for first, count in one.nodes for node in range(first, first + count)}
                over = told.begin_us < one.start_us + max(limits[job_id], 1) and one.start_us < told.end_us
                assert not (own & closed and over), (job_id, one, told)
                started += 1
    assert started or seed
