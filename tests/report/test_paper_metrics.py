"""The papers' metrics against small cases worked out by hand; each test names its requirement."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.model.records import RunTable
from cohabit.model.units import SECOND
from cohabit.predict.variability_data import Norms, freeze
from cohabit.report import paper_metrics as paper
from cohabit.report.metrics import summarise


def test_s64_throughput_is_one_over_mean_turnaround() -> None:
    assert paper.throughput_per_s([100, 300]) == pytest.approx(1 / 200)
    assert paper.throughput_per_s([]) is None
    assert paper.throughput_per_s([0.0]) is None


def test_s65_ratios_have_a_geometric_mean() -> None:
    ratios = paper.normalised_run_time([200, 50, 7], [100, 100, 0])
    assert ratios.tolist() == [2, 0.5, 1]
    assert paper.geometric_mean(ratios) == pytest.approx(1)
    assert paper.geometric_mean([]) is None
    assert paper.geometric_mean([0.0, 4.0]) == 0


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20))
def test_s65_geometric_mean_lies_between_the_extremes_and_below_the_arithmetic(ratios: list[float]) -> None:
    mean = paper.geometric_mean(ratios)
    assert mean is not None
    assert min(ratios) * (1 - 1e-9) <= mean <= float(np.mean(ratios)) * (1 + 1e-9)


def test_s66_scaling_ratio_is_a_share_of_core_hours() -> None:
    assert paper.scaling_ratio([10, 30, 60], [True, False, True]) == pytest.approx(0.7)
    assert paper.scaling_ratio([], []) is None


def test_s67_wait_run_and_turnaround() -> None:
    submit, start, end = [0, 5], [3, 5], [10, 25]
    assert paper.wait_s(submit, start).tolist() == [3, 0]
    assert paper.run_s(start, end).tolist() == [7, 20]
    assert paper.turnaround_s(submit, end).tolist() == [10, 20]


def test_s68_the_limit_is_one_point_one_at_alpha_point_nine_and_is_allowed() -> None:
    assert paper.alpha_violations([110, 111, 109], [100, 100, 100]).tolist() == [False, True, False]
    assert paper.alpha_violations([125], [100], alpha=0.7).tolist() == [False]


def test_s69_bandwidth_imbalance() -> None:
    episodes = [[0, 10], [10, 0]]
    assert paper.bandwidth_imbalance(episodes) == pytest.approx(0.5)
    assert paper.bandwidth_imbalance(episodes, peak_gbs=20) == pytest.approx(0.25)
    assert paper.bandwidth_imbalance([[5, 5]]) == 0
    assert paper.bandwidth_imbalance([]) is None
    assert paper.bandwidth_imbalance([0, 0]) is None


def test_c16_mean_wait_is_in_minutes() -> None:
    assert paper.mean_wait_minutes([0, 60], [120, 240]) == pytest.approx(2.5)
    assert paper.mean_wait_minutes([], []) is None


def test_c17_slowdown_leaves_out_jobs_of_no_length_unless_bounded() -> None:
    assert paper.mean_slowdown([10, 99], [10, 0]) == pytest.approx(2)
    assert paper.mean_slowdown([0, 20], [1, 0], bound_s=10) == pytest.approx((1 + 2) / 2)


def test_c18_sync_time_is_zero_without_pairs() -> None:
    assert paper.sync_time_minutes([], []) == 0
    assert paper.sync_time_minutes([0, 60, np.nan], [120, 60, 500]) == pytest.approx(120 / 3 / 60)


def test_c19_service_unit_loss() -> None:
    assert paper.service_unit_loss_node_hours([], []) == 0
    loss = paper.service_unit_loss_node_hours([100, 50], [3600, 7200])
    assert loss == 200
    assert paper.service_unit_loss_fraction(loss, machine_nodes=1000, span_s=36000) == pytest.approx(0.02)
    assert paper.service_unit_loss_fraction(0.0, machine_nodes=10, span_s=0) is None


def test_r45_makespan_queue_time_and_variation() -> None:
    assert paper.makespan_s([5, 2], [10, 50]) == 48
    assert paper.mean_queue_time_s([0, 0], [10, 30]) == 20
    deviation = paper.run_deviation([130, 100, 90, 7], [100, 100, 100, 7], [20, 20, 20, 0])
    assert deviation.tolist() == [1.5, 0, -0.5, 0]
    assert paper.varying_runs(deviation).tolist() == [False] * 4  # 1.5 sigma exactly is not beyond it
    assert paper.varying_runs([1.6]).tolist() == [True]
    assert paper.variation_by_application(["a", "b", "a", "b"], deviation) == {"a": 0.5, "b": 0.0}
    assert paper.makespan_s([], []) is None
    assert paper.mean_queue_time_s([], []) is None


def test_p7_weighted_speedup_is_a_sum() -> None:
    assert paper.weighted_speedup([1.0, 0.5], [2.0, 0.5]) == pytest.approx(1.5)


def test_i34_makespan_from_first_start_relative_to_fifo() -> None:
    ours = paper.queue_makespan_s([10, 20], [40, 95])
    assert ours == 85
    assert paper.normalised_makespan(85, 100) == pytest.approx(0.85)
    assert paper.normalised_makespan(85, 0) is None
    assert paper.queue_makespan_s([], []) is None


def test_the_reports_numbers_are_those_of_the_papers_formulas(crowded_run: RunTable) -> None:
    """summary.json is computed by other code: on a crowded machine of 4,000 jobs both must say the same."""
    run, told = crowded_run, summarise(crowded_run)
    submit, start, end = (one / SECOND for one in (run.workload.submit_us, run.start_us, run.end_us))
    waits, runs = paper.wait_s(submit, start), paper.run_s(start, end)
    assert waits.max() > 0, "somebody waited"
    assert told["mean_wait_s"] == pytest.approx(paper.mean_queue_time_s(submit, start))
    assert told["mean_wait_s"] == pytest.approx(60 * (paper.mean_wait_minutes(submit, start) or 0))
    assert told["mean_run_s"] == pytest.approx(runs.mean())
    assert told["mean_turnaround_s"] == pytest.approx((waits + runs).mean())
    assert told["mean_slowdown"] == pytest.approx(paper.mean_slowdown(waits, runs))
    assert told["makespan_s"] == pytest.approx(paper.makespan_s(submit, end))
    assert told["throughput_per_s"] == pytest.approx(paper.throughput_per_s(paper.turnaround_s(submit, end)))


def test_the_models_labels_are_those_of_the_papers_formulas() -> None:
    """R10 and R45: what a gate is taught as variation is what a reproduction counts as varying."""
    rng = np.random.default_rng(1)
    app = [("AMG", "Laghos")[number] for number in rng.integers(0, 2, 200)]
    run_s = rng.normal(100.0, 10.0, 200) * np.where(np.array(app) == "AMG", 1.0, 3.0)
    norms: Norms = freeze(app, run_s)
    mean_s, sigma_s = (np.array([of[name] for name in app]) for of in (norms.mean_s, norms.deviation_s))
    deviation = paper.run_deviation(run_s, mean_s, sigma_s)
    varying = paper.varying_runs(deviation)
    assert 0 < varying.sum() < 200
    assert norms.varies(app, run_s).tolist() == varying.astype(int).tolist()
    assert paper.variation_by_application(app, deviation) == pytest.approx({"AMG": 0.0, "Laghos": 0.0}, abs=1e-9)
