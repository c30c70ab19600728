"""What is drawn adds up to what ran: curves, distributions, rasters, bars and windows."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.model.records import NodeRanges, RunTable
from cohabit.model.units import SECOND
from cohabit.report import gantt, gantt_heat
from cohabit.report.metrics import ran_jobs, summarise
from cohabit.report.series import busy_level, ended_level, level, queue_level, round_step, shares_below, slice_means

RunOf = Callable[..., RunTable]


def test_slices_hold_exact_means() -> None:
    begin, end = np.array([0, 5]), np.array([10, 25])
    assert slice_means(begin, end, np.array([1.0, 2.0]), 0, 40, 4).tolist() == [2, 2, 1, 0]


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(0, 100)), min_size=1, max_size=30), st.integers(1, 50))
def test_slices_lose_no_work(intervals: list[tuple[int, int]], slices: int) -> None:
    begin = np.array([first for first, _ in intervals])
    end = begin + np.array([length for _, length in intervals])
    means = slice_means(begin, end, np.ones(len(begin)), 0, 1000, slices)
    assert means.sum() * 1000 / slices == pytest.approx(float((end - begin).sum()), abs=1e-6)


def test_a_short_run_keeps_every_step() -> None:
    curve = level(np.array([0, 10]), np.array([10, 30]), np.array([1.0, 3.0]), 0, 40)
    assert curve.at_us.tolist() == [0, 0, 10, 30, 40]
    assert curve.value.tolist() == [0, 1, 3, 0, 0]


def test_the_curves_agree_with_the_metrics(crowded_run: RunTable) -> None:
    jobs, found = ran_jobs(crowded_run), summarise(crowded_run)
    busy, queue = busy_level(crowded_run, jobs), queue_level(crowded_run, jobs)
    assert len(busy.value) <= 2000
    assert busy.value[:-1].mean() == pytest.approx(found["utilisation"])
    assert queue.value[:-1].mean() == pytest.approx(found["mean_queue_length"])
    assert busy.value.max() <= 1 + 1e-9


@given(st.lists(st.floats(0, 1e7), min_size=1, max_size=600))
def test_a_distribution_rises_to_all_jobs(values: list[float]) -> None:
    x, share = shares_below(np.array(values), 1.0)
    assert len(x) <= 602
    assert (np.diff(share) >= 0).all()
    assert share[-1] == 1
    assert share[0] == pytest.approx(np.mean(np.array(values) <= 1.0))


def test_the_raster_averages_to_the_utilisation(crowded_run: RunTable) -> None:
    jobs = ran_jobs(crowded_run)
    bars = gantt.recorded_bars(crowded_run, jobs)
    assert bars is not None
    cells = gantt.raster(crowded_run, jobs, bars)
    assert cells.shape == (gantt.RASTER_ROWS, gantt.RASTER_SLICES)
    assert cells.mean() / 100 == pytest.approx(summarise(crowded_run)["utilisation"], abs=0.003)


def test_cells_have_the_mean_of_their_jobs_and_the_user_who_had_most(run_of: RunOf) -> None:
    """Two nodes: a job on one node beside a job on both; every row is a node, every column 1 s of 560."""
    run = run_of([(0, 0, 280, 1), (0, 280, 560, 2)], machine=2)
    bars = gantt.Bars(np.array([0, 1]), np.array([0, 0]), np.array([1, 2]))
    jobs = ran_jobs(run)
    means = gantt.mean_raster(run, jobs, bars, run.nodes.astype(float))
    assert means.shape == (2, gantt.RASTER_SLICES)
    assert means[0, :280].tolist() == pytest.approx([1.0] * 280)
    assert np.isnan(means[1, :280]).all()
    assert means[:, 280:].ravel().tolist() == pytest.approx([2.0] * 560)
    leaders = gantt.leading_raster(run, jobs, bars, np.array([1, 2], np.int32))
    assert leaders[0].tolist() == [1] * 280 + [2] * 280
    assert leaders[1].tolist() == [0] * 280 + [2] * 280


def test_ways_and_bandwidth_booked_on_each_node(run_of: RunOf) -> None:
    """Job 0 books 5 ways and 20 GB/s on both nodes until 100 s, job 1 another 15 ways on node 0 until 50 s."""
    run = shared(run_of, [4, 2], [(0, 2), (0, 1)], [(0, 100), (0, 50)])
    assert gantt_heat.booked_maps(run) == ()
    shares = ['{"ways":5,"bandwidth_mbs":20000}', '{"ways":15,"bandwidth_mbs":0}']
    run = replace(run, shares=shares, settings={"cluster": {"ways": 20, "bandwidth_gbs": {"1": 20.0, "4": 40.0}}})
    ways, bandwidth = gantt_heat.booked_maps(run)
    assert (ways.title, bandwidth.title) == ("Cache ways", "Bandwidth")
    assert "A node has 20 ways." in ways.caption
    found = [level_rows(one) for one in (ways, bandwidth)]
    assert [found[0][0][at] for at in (0, 279, 280, 559)] == ["20 ways booked"] * 2 + ["5.02 ways booked"] * 2
    assert set(found[0][1]) == {"5.02 ways booked"}  # a level of 255: within a fifth of a percent
    assert set(found[1][0]) == set(found[1][1]) == {"20.1 GB/s booked"}


def level_rows(one: gantt_heat.HeatMap) -> list[list[str]]:
    """What the hover text says, node by node."""
    trace = one.figure["data"][0]
    columns = int(trace["z"]["shape"].split(",")[1])
    plain = [trace["levels"][level] for level in base64.b64decode(trace["z"]["bdata"])]
    return [plain[at : at + columns] for at in range(0, len(plain), columns)]


def test_counts_of_ended_jobs_add_up(crowded_run: RunTable) -> None:
    jobs = ran_jobs(crowded_run)
    span = int(jobs.end_us.max() - jobs.submit_us.min())
    step = round_step(span)
    assert span / step <= 101
    curve = ended_level(jobs, step)
    assert curve.value[:-1].sum() == len(jobs)
    assert round_step(40 * SECOND) == SECOND
    assert round_step(200 * SECOND) == 2 * SECOND
    assert round_step(10**16) == 10**14 + 1


def test_close_looks_hold_few_bars_and_only_what_is_inside(crowded_run: RunTable) -> None:
    jobs = ran_jobs(crowded_run)
    bars = gantt.recorded_bars(crowded_run, jobs)
    assert bars is not None
    looks = gantt.detail_windows(crowded_run, jobs, bars)
    assert len(looks) == 3
    for window, inside in looks:
        assert 0 < len(inside) <= gantt.WINDOW_BARS
        assert (crowded_run.start_us[inside.row] < window.until_us).all()
        assert (crowded_run.end_us[inside.row] > window.from_us).all()
        assert window.nodes <= gantt.MAX_NODES
        assert 0 <= window.first_node <= crowded_run.cluster_nodes - window.nodes


def test_without_node_lists_bars_are_packed_and_never_overlap(small_run: RunTable) -> None:
    jobs = ran_jobs(small_run)
    assert gantt.recorded_bars(replace(small_run, node_ranges=None), jobs) is None
    bars = gantt.packed_bars(small_run, jobs)
    assert np.bincount(bars.row, weights=bars.count, minlength=len(small_run)).tolist() == small_run.nodes.tolist()
    assert (bars.first + bars.count).max() <= small_run.cluster_nodes
    for line in range(small_run.cluster_nodes):
        on_line = bars.row[(bars.first <= line) & (bars.first + bars.count > line)]
        order = np.argsort(small_run.start_us[on_line], kind="stable")
        start, end = small_run.start_us[on_line][order], small_run.end_us[on_line][order]
        assert (start[1:] >= end[:-1]).all()


def test_a_run_of_one_instant_still_has_curves(run_of: RunOf) -> None:
    run = run_of([(5, 5, 5, 1)])
    assert busy_level(run, ran_jobs(run)).value.max() == 0


def shared(run_of: RunOf, cores: list[int], nodes: list[tuple[int, int]], times: list[tuple[int, int]]) -> RunTable:
    """Jobs on two nodes of four cores: each with its cores, its nodes (first, count) and its time."""
    run = run_of([(0, start, end, count) for (start, end), (_, count) in zip(times, nodes, strict=True)], machine=2)
    first, count = (np.array([one[at] for one in nodes], np.int32) for at in (0, 1))
    ranges = NodeRanges(np.arange(len(nodes) + 1), first, count)
    size = {"cluster_nodes": 2, "cluster_cores": 8, "node_ranges": ranges, "shares": ["{}"] * len(nodes)}
    return replace(run, cores=np.array(cores), nodes=count, **size)


def lanes_of(run: RunTable) -> set[tuple[int, float, float]]:
    bars = gantt.recorded_bars(run, ran_jobs(run))
    assert bars is not None
    found = gantt.lanes(run, bars)
    columns = zip(found.row, found.low, found.height, strict=True)
    return {(int(row), round(low, 6), round(high, 6)) for row, low, high in columns}


def test_jobs_that_share_a_node_lie_side_by_side(run_of: RunOf) -> None:
    run = shared(run_of, [4, 2, 1, 8], [(0, 2), (0, 1), (1, 1), (0, 2)], [(0, 100), (0, 50), (60, 90), (100, 200)])
    # job 0 has two of four cores on both nodes; 1 lies above it on node 0, 2 on node 1; 3 has both nodes for itself
    assert lanes_of(run) == {(0, 0.0, 0.5), (0, 1.0, 0.5), (1, 0.5, 0.5), (2, 1.5, 0.25), (3, 0.0, 2.0)}


def test_lanes_of_one_node_never_overlap(run_of: RunOf) -> None:
    rng = np.random.default_rng(5)
    times = [(int(start), int(start + length)) for start, length in rng.integers(1, 60, (40, 2))]
    cores = rng.integers(1, 5, 40).tolist()  # up to twenty at once: more than the node has
    run = shared(run_of, cores, [(0, 1)] * 40, times)
    found = sorted(lanes_of(run))
    assert max(low + high for _, low, high in found) <= 1 + 1e-6
    for row, low, high in found:
        for other, its_low, its_high in found:
            together = times[row][0] < times[other][1] and times[other][0] < times[row][1]
            assert row == other or not together or low + high <= its_low + 1e-6 or its_low + its_high <= low + 1e-6


def test_without_sharing_bars_are_whole(crowded_run: RunTable) -> None:
    bars = gantt.recorded_bars(crowded_run, ran_jobs(crowded_run))
    assert bars is not None
    assert gantt.lanes(crowded_run, bars).height.tolist() == bars.count.tolist()
