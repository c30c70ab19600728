"""The generators: reproducible, on whole seconds, at the load asked for, and shaped as their laws say."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import pytest

from cohabit.model.errors import InputError
from cohabit.model.units import DAY, HOUR, MINUTE, SECOND
from cohabit.model.workload import Workload
from cohabit.trace.coupled_machines import (
    EUREKA_NODES,
    INTREPID_JOBS,
    INTREPID_NODES,
    generate_eureka,
    generate_intrepid,
    scaled_to_load,
    shifted,
    within,
)
from cohabit.trace.lublin import BATCH, INTERACTIVE, KINDS, UNDIVIDED, generate_lublin, half_hour_weights
from cohabit.trace.mix import generate_mix
from cohabit.trace.poisson import generate_poisson
from cohabit.trace.synthetic import POPULAR_REQUESTS_US, offered_load, request_times

GENERATORS: dict[str, Callable[[np.random.Generator], Workload]] = {
    **{f"lublin {kind}": lambda rng, kind=kind: generate_lublin(rng, 3000, 200, kind=kind) for kind in KINDS},
    "lublin one node": lambda rng: generate_lublin(rng, 50, 1),
    "lublin three nodes": lambda rng: generate_lublin(rng, 500, 3),
    "poisson": lambda rng: generate_poisson(rng, 3000, 200, load=0.7),
    "poisson sizes": lambda rng: generate_poisson(rng, 3000, 200, sizes=[1, 8, 200], requests="exact"),
    "intrepid": generate_intrepid,
    "intrepid small": lambda rng: generate_intrepid(rng, 300, 2048, load=0.5),
    "eureka": generate_eureka,
    "eureka small": lambda rng: generate_eureka(rng, nodes=20, load=1.1, span_days=2.0),
    "eureka special": lambda rng: generate_eureka(rng, 3000, span_days=10.0),
    "mix": lambda rng: generate_mix(rng, 300, {"lu": 1, "cg": 3}, [16, 28], nodes=200, mean_gap_s=9),
    "mix timed": lambda rng: generate_mix(rng, 300, {"lu": 1}, [16], nodes=200, median_run_s=100, requests="modal"),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_what_every_generator_promises(name: str) -> None:
    jobs, again = (GENERATORS[name](np.random.default_rng(5)) for _ in range(2))
    other = GENERATORS[name](np.random.default_rng(6))
    for column in ("submit_us", "run_us", "limit_us", "processes", "program"):
        assert getattr(jobs, column).tolist() == getattr(again, column).tolist()
    assert jobs.processes.tolist() != other.processes.tolist() or jobs.run_us.tolist() != other.run_us.tolist()
    assert jobs.submit_us[0] == 0
    assert (np.diff(jobs.submit_us) >= 0).all()
    assert not (jobs.submit_us % SECOND).any()
    assert jobs.processes.min() >= 1
    assert jobs.processes.max() <= jobs.max_nodes
    assert not jobs.rejection.any()
    timed = jobs.run_us >= 0
    assert (jobs.limit_us[timed] >= jobs.run_us[timed]).all()
    assert not (jobs.run_us[timed] % SECOND).any()


@pytest.mark.parametrize("load", [0.3, 0.85, 1.2])
def test_the_offered_load_is_the_one_asked_for(load: float) -> None:
    for jobs in (
        generate_lublin(np.random.default_rng(1), 5000, 128, load=load),
        generate_poisson(np.random.default_rng(1), 5000, 1024, load=load),
    ):
        reached = offered_load(jobs.submit_us, jobs.run_us, jobs.processes, jobs.max_nodes)
        assert reached == pytest.approx(load, rel=1e-4)


def test_a_month_as_on_intrepid() -> None:
    jobs = generate_intrepid(np.random.default_rng(1))
    assert len(jobs) == INTREPID_JOBS == 9219
    assert jobs.max_nodes == INTREPID_NODES == 40960
    assert set(jobs.processes.tolist()) == {2**power for power in range(9, 16)}
    assert 26 < jobs.submit_us[-1] / DAY < 34
    assert jobs.limit_us.max() <= 12 * HOUR
    early = (jobs.run_us < 0.1 * jobs.limit_us).mean()
    assert 0.11 < early < 0.22  # between Mira's and Theta's
    assert set(jobs.limit_us.tolist()) <= set(POPULAR_REQUESTS_US.tolist())


@pytest.mark.parametrize("load", [0.25, 0.5, 0.75])
def test_eureka_has_the_load_and_the_span_asked_for(load: float) -> None:
    jobs = generate_eureka(np.random.default_rng(1), load=load, span_days=12.0)
    assert jobs.submit_us[-1] == 12 * DAY
    assert jobs.processes.min() == 1
    assert jobs.processes.max() == EUREKA_NODES
    assert offered_load(jobs.submit_us, jobs.run_us, jobs.processes, 100) == pytest.approx(load, rel=1e-3)


def test_the_special_trace_has_as_many_jobs_as_asked_for() -> None:
    jobs = generate_eureka(np.random.default_rng(1), 9219, load=0.5, span_days=31.0)
    assert len(jobs) == 9219
    assert jobs.submit_us[-1] == 31 * DAY
    assert offered_load(jobs.submit_us, jobs.run_us, jobs.processes, 100) == pytest.approx(0.5, rel=1e-2)


def test_scaling_to_a_load_keeps_the_shape_of_arrivals() -> None:
    jobs = shifted(generate_eureka(np.random.default_rng(2), load=0.3, span_days=9.0), 77 * SECOND)
    scaled = scaled_to_load(jobs, 100, 0.6)
    assert offered_load(scaled.submit_us, scaled.run_us, scaled.processes, 100) == pytest.approx(0.6, rel=1e-6)
    assert scaled.submit_us[0] == jobs.submit_us[0] == 77 * SECOND
    before, after = (one.submit_us - one.submit_us[0] for one in (jobs, scaled))
    assert after.tolist() == pytest.approx((before / 2).tolist(), rel=1e-6)
    assert scaled.run_us.tolist() == jobs.run_us.tolist()
    cut = within(jobs, 77 * SECOND, 77 * SECOND + DAY)
    assert 0 < len(cut) < len(jobs)
    assert cut.submit_us.max() < 77 * SECOND + DAY


@pytest.mark.parametrize(
    "make",
    [lambda rng: generate_intrepid(rng, 10, 256), lambda rng: generate_eureka(rng, span_days=0.0),
     lambda rng: generate_eureka(rng, load=-1.0), lambda rng: generate_intrepid(rng, 0),
     lambda rng: scaled_to_load(generate_poisson(rng, 2, 4, mean_gap_s=1e-9), 4, 0.5)],
)  # fmt: skip
def test_impossible_machines_are_refused(make: Callable[[np.random.Generator], Workload]) -> None:
    with pytest.raises(InputError):
        make(np.random.default_rng(1))


def test_lublin_sizes_follow_the_published_law() -> None:
    """Published: shares of serial jobs (0.2927) and powers of two (0.6686), and the mean of the two-stage
    uniform law, (prob x low + med + (1 - prob) x high) / 2, for 128 nodes (m_lublin99.c, batch)."""
    sizes = generate_lublin(np.random.default_rng(1), 200_000, 128).processes
    assert (sizes == 1).mean() == pytest.approx(0.2927, abs=0.005)
    parallel = sizes[sizes > 1]
    assert (parallel & (parallel - 1) == 0).sum() / len(sizes) == pytest.approx(0.6686, abs=0.02)
    expected = (0.875 * 1.2 + 5 + 0.125 * 7) / 2
    assert np.log2(parallel).mean() == pytest.approx(expected, abs=0.05)


def test_lublin_run_times_follow_the_published_law() -> None:
    """Published: ln(run) is hyper-gamma, mean p a1 b1 + (1 - p) a2 b2 with p = -0.003 n + 0.6986, cut at 12;
    the cut removes under 1 % of the first gamma. Larger jobs run longer."""
    jobs = generate_lublin(np.random.default_rng(2), 200_000, 128)
    share = BATCH.short_share_per_node * jobs.processes + BATCH.short_share_at_zero
    expected = (share * 6.57 * 0.823 + (1 - share) * 639.1 * 0.0156).mean()
    log_run = np.log(jobs.run_us / SECOND + 0.5)
    assert log_run.mean() == pytest.approx(expected, rel=0.02)
    assert jobs.run_us.max() <= math.exp(12) * SECOND
    assert np.corrcoef(log_run, jobs.processes)[0, 1] > 0.05


def test_lublin_arrivals_follow_the_published_law() -> None:
    """Published: the daily cycle is gamma(6.1271, 5.2740) in half hours, whose mode (a - 1) b is 27.0, half
    past one in the afternoon; the mean gap is that of exp(gamma(aarr ARAR, barr)) cut at 13."""
    weights = half_hour_weights(BATCH)
    assert weights.mean() == pytest.approx(1.0)
    assert abs(int(weights.argmax()) + 1 - (6.1271 - 1) * 5.2740) < 1
    assert weights.argmin() in (9, 10)
    rng = np.random.default_rng(3)
    log_gap = rng.gamma(BATCH.gap_shape, BATCH.gap_scale, 400_000)
    expected_s = np.exp(log_gap[log_gap <= 13]).mean()
    jobs = generate_lublin(np.random.default_rng(4), 200_000, 128)
    assert jobs.submit_us[-1] / SECOND / len(jobs) == pytest.approx(expected_s, rel=0.05)


def test_lublin_daily_cycle_shows_in_the_arrivals() -> None:
    jobs = generate_lublin(np.random.default_rng(4), 100_000, 128, kind="interactive")
    hour = (jobs.submit_us / HOUR).astype(np.int64) % 24
    counts = np.bincount(hour, minlength=24)
    assert counts.max() > 3 * max(counts.min(), 1)


def test_lublin_both_merges_two_streams() -> None:
    jobs = generate_lublin(np.random.default_rng(4), 5000, 128, kind="both")
    queues = set(jobs.extra["queue"].tolist())
    assert queues == {BATCH.queue, INTERACTIVE.queue}
    assert jobs.processes[jobs.extra["queue"] == INTERACTIVE.queue].max() <= 45
    assert UNDIVIDED.serial_share == 0.244


def test_poisson_gaps_runs_and_sizes() -> None:
    jobs = generate_poisson(np.random.default_rng(1), 100_000, 1024, mean_gap_s=300, median_run_s=900, sigma=1.0)
    gaps = np.diff(jobs.submit_us) / SECOND
    assert gaps.mean() == pytest.approx(300, rel=0.02)
    assert gaps.std() == pytest.approx(300, rel=0.03)
    assert np.median(jobs.run_us) / SECOND == pytest.approx(900, rel=0.03)
    assert np.log2(jobs.processes).mean() == pytest.approx(5, abs=0.1)


def test_a_million_poisson_jobs_are_quick() -> None:
    begin = time.process_time()
    assert len(generate_poisson(np.random.default_rng(1), 1_000_000, 1024, load=0.85)) == 1_000_000
    assert time.process_time() - begin < 2.0


def test_mix_follows_its_weights() -> None:
    jobs = generate_mix(np.random.default_rng(1), 20_000, {"lu": 1, "cg": 3}, [16, 28], alpha=0.9)
    assert (jobs.program == 1).mean() == pytest.approx(0.75, abs=0.02)
    assert set(jobs.processes.tolist()) == {16, 28}
    assert set(jobs.submit_us.tolist()) == {0}
    assert set(jobs.run_us.tolist()) == {-1}
    assert set(jobs.extra["alpha"].tolist()) == {0.9}


def test_request_models() -> None:
    rng = np.random.default_rng(1)
    run_us = np.array([0, 1, 59, 3600, 90_000, 900_000], np.int64) * SECOND
    assert request_times(rng, run_us, "exact").tolist() == run_us.tolist()
    factor = request_times(rng, run_us, "factor")
    assert not (factor % MINUTE).any()
    assert ((factor >= run_us) & (factor <= 5 * run_us + MINUTE)).all()
    modal = request_times(rng, run_us, "modal")
    assert (modal >= run_us).all()
    assert set(modal[:-1].tolist()) <= set(POPULAR_REQUESTS_US.tolist())


@pytest.mark.parametrize(
    "call",
    [
        lambda rng: generate_lublin(rng, 0, 128),
        lambda rng: generate_lublin(rng, 10, 0),
        lambda rng: generate_lublin(rng, 10, 128, load=0),
        lambda rng: generate_lublin(rng, 10, 128, load=float("nan")),
        lambda rng: generate_lublin(rng, 1, 128, load=0.5),
        lambda rng: generate_lublin(rng, 10, 128, kind="weekend"),
        lambda rng: generate_lublin(rng, 10, 128, requests="guess"),
        lambda rng: generate_poisson(rng, 10, 8, sizes=[9]),
        lambda rng: generate_poisson(rng, 10, 8, mean_gap_s=0),
        lambda rng: generate_mix(rng, 10, {}, [1]),
        lambda rng: generate_mix(rng, 10, {"lu": 0}, [1]),
        lambda rng: generate_mix(rng, 10, {"lu": 1, "cg": -1}, [1]),
        lambda rng: generate_mix(rng, 10, {"lu": 1}, []),
        lambda rng: generate_mix(rng, 10, {"lu": 1}, [0]),
        lambda rng: generate_mix(rng, 10, {"lu": 1}, [1], mean_gap_s=-1),
        lambda rng: generate_mix(rng, 10, {"lu": 1}, [1], alpha=2),
    ],
)
def test_impossible_wishes_are_refused(call: Callable[[np.random.Generator], Workload]) -> None:
    with pytest.raises(InputError):
        call(np.random.default_rng(1))
