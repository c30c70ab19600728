"""On random traces the fast driver, the step-by-step world, the readable loop and the textbook give one schedule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cohabit.model.units import SECOND
from cohabit.sim.trace_driver import replay
from tests.breadth import examples
from tests.campaign import compare_engines, reference_starts
from tests.support.builders import Choice, TraceRow, policies, prepared_trace
from tests.support.engines import schedule
from tests.support.randomised import BACKFILLS
from tests.support.strategies import choices, traces

Trace = tuple[list[TraceRow], int]
quiet = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
both_kinds_of_kill = pytest.mark.parametrize("kill", [True, False], ids=["kill", "no kill"])


@settings(quiet, max_examples=examples(80))
@given(traces(), choices(), st.booleans())
def test_all_engines_and_the_textbook_agree(trace: Trace, choice: Choice, kill: bool) -> None:
    rows, nodes = trace
    compare_engines(rows, nodes, choice, kill)


@pytest.mark.slow
@both_kinds_of_kill
@pytest.mark.parametrize("backfill", BACKFILLS)
@settings(quiet, max_examples=examples(80))
@given(data=st.data())
def test_engines_agree_under_every_backfill(backfill: str, kill: bool, data: st.DataObject) -> None:
    rows, nodes = data.draw(traces(most_jobs=25, most_nodes=70))
    compare_engines(rows, nodes, data.draw(choices(backfills=(backfill,))), kill)


def test_without_kill_an_overrun_ends_one_second_from_every_pass() -> None:
    """A ran out of time at 0.5 s: it is expected at 1.5 s then, and in the pass at 0.7 s at 1.7 s, so that D fits."""
    rows = [TraceRow(0, 5 * SECOND, SECOND // 2, 3), TraceRow(100_000, SECOND, SECOND, 4)]
    rows += [TraceRow(500_000, SECOND, 3 * SECOND, 1), TraceRow(700_000, SECOND, SECOND, 1)]
    compare_engines(rows, 4, Choice("fcfs", "easy"), kill=False)


def test_without_kill_a_request_of_nothing_overruns_from_the_next_pass_on() -> None:
    """D asks for nothing and runs; in the second pass of its first instant it is expected in one second."""
    zero, two = TraceRow(0, 0, 0, 1), TraceRow(0, 0, 0, 2)
    rows = [zero, zero, zero, zero, zero, two, two, TraceRow(0, 0, SECOND, 1), TraceRow(0, SECOND, 0, 1)]
    compare_engines(rows, 2, Choice("fcfs", "easy"), kill=False)


def _seconds(*rows: tuple[int, int, int, int]) -> list[TraceRow]:
    return [TraceRow(submit * SECOND, run * SECOND, limit * SECOND, size) for submit, run, limit, size in rows]


def test_without_kill_a_promise_of_now_is_looked_at_again_after_a_second() -> None:
    """At 0 s A starts, which asks for nothing, so B is promised 0 s as well; A runs on, and C passes B at 1 s."""
    rows = _seconds((0, 3, 0, 9), (0, 1, 4, 100), (0, 2, 1, 2))
    choice = Choice("fcfs", "conservative")
    compare_engines(rows, 100, choice, kill=False)
    assert schedule(prepared_trace(rows, 100, choice, kill=False), "fast").starts_us == (0, 3 * SECOND, SECOND)


def test_without_kill_promises_are_void_in_every_pass_of_an_overrun() -> None:
    """B ends in the instant it starts, 1 s; C overruns then, so the second pass plans anew and E comes before F."""
    rows = _seconds((1, 1, 2, 7), (1, 0, 2, 8), (0, 2, 0, 18), (0, 2, 3, 24), (1, 0, 0, 26), (1, 0, 2, 8))
    choice = Choice("fcfs", "conservative")
    compare_engines(rows, 64, choice, kill=False)
    assert schedule(prepared_trace(rows, 64, choice, kill=False), "fast").starts_us[5] == 2 * SECOND


@pytest.mark.parametrize("backfill", ["conservative", "8", "2"])
@settings(quiet, max_examples=examples(30))
@given(rng=st.integers(0, 2**32).map(np.random.default_rng), order=st.sampled_from(["fcfs", "sjf", "saf", "ljf"]))
def test_long_queues_with_early_ends_agree_with_the_textbook(
    backfill: str, rng: np.random.Generator, order: str
) -> None:
    """Reservations slide, jump and cascade; the profile has many blocks."""
    jobs, nodes, longest = 50, int(rng.choice([5, 64, 100])), int(rng.choice([10, 3600, 20_000]))
    run = 1 + (longest * rng.random(jobs) ** 3).astype(int)
    limit = run + (rng.random(jobs) < 0.8) * rng.integers(0, 3 * longest, jobs)
    size = 1 + (nodes * rng.random(jobs) ** rng.integers(1, 4)).astype(int)
    submit = np.sort(rng.random(jobs) * (run * size).sum() / nodes / rng.choice([0.8, 1.2, 5.0])).astype(int)
    rows = _seconds(*zip(submit.tolist(), run.tolist(), limit.tolist(), size.tolist(), strict=True))
    prepared, choice = prepared_trace(rows, nodes, Choice(order, backfill)), Choice(order, backfill)
    assert schedule(prepared, "fast").starts_us == reference_starts(rows, nodes, choice, kill=True)


@settings(quiet, max_examples=examples(60))
@given(traces(), choices(backfills=("conservative",)))
@example(
    trace=([TraceRow(0, 1, 3, 1), TraceRow(0, 2, 2, 1), TraceRow(0, 1, 2, 3), TraceRow(1, 1, 1, 2)], 3),
    choice=Choice("sjf", "conservative"),
)
def test_conservative_never_starts_later_than_first_promised(trace: Trace, choice: Choice) -> None:
    rows, nodes = trace
    rows = sorted((row for row in rows if row.size <= nodes), key=lambda row: row.submit_us)
    submit, run, limit, size, user = np.array([tuple(row) for row in rows], np.int64).T
    result = replay(submit, np.minimum(run, limit), limit, size, size, user, nodes, policies(*choice))
    assert (result.promised_us >= submit).all()
    # A request of 0 holds a second in the plan but not in the machine; its promise may wait for that of another.
    exact = bool((limit > 0).all())
    assert (result.start_us <= result.promised_us).all() or not exact


@settings(quiet, max_examples=examples(25))
@given(traces(), choices())
def test_a_whole_trace_is_the_same_twice(trace: Trace, choice: Choice) -> None:
    rows, nodes = trace
    first, second = (schedule(prepared_trace(rows, nodes, choice), "fast") for _ in range(2))
    assert first == second


def test_users_who_come_later_change_nothing_now() -> None:
    """Fair share must not depend on how many users the rest of the trace has: nobody can know them yet."""
    rows = [TraceRow(0, 100, 100, 600, 0), TraceRow(0, 100, 100, 400, 1)]
    rows += [TraceRow(50, 10, 10, 1000, 0), TraceRow(50, 10, 10, 300, 1), TraceRow(1000, 10, 10, 1, 11)]
    rows = [TraceRow(a * SECOND, b * SECOND, c * SECOND, size, user) for a, b, c, size, user in rows]
    compare_engines(rows, 1024, Choice("multifactor", "none"), kill=True)
