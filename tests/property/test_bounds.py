"""No score goes below its bound, and a replay that relies on that starts every job when one that does not would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cohabit.compiled import compile_bounds
from cohabit.core import intervals, shortlist
from cohabit.core.columns import CORES, JOB_COLUMNS, LIMIT, NODES, QOS, SUBMIT, USER, columns_of
from cohabit.core.protocols import Order
from cohabit.model.units import SECOND
from cohabit.policy.bounds import for_window, hold
from cohabit.sim import fast
from cohabit.testing.builders import policies

pytestmark = [pytest.mark.slow, pytest.mark.wide]  # machine code is made for every order


def waited_s(jobs: Any, rows: Any, now_us: int) -> Any:
    return (now_us - jobs.submit_us[rows]) / 1e6


def asked_s(jobs: Any, rows: Any) -> Any:
    return np.maximum(jobs.limit_us[rows], 1_000_000) / 1e6


FALLING: dict[str, Callable[..., Any]] = {
    "first come": lambda jobs, rows, now_us: -(now_us - jobs.submit_us[rows]),
    "credit": lambda jobs, rows, now_us: jobs.limit_us[rows] / 1e6 - 0.25 * waited_s(jobs, rows, now_us),
    "expansion": lambda jobs, rows, now_us: -(waited_s(jobs, rows, now_us) / asked_s(jobs, rows)),
    "cube": lambda jobs, rows, now_us: -((waited_s(jobs, rows, now_us) / asked_s(jobs, rows)) ** 3) * jobs.nodes[rows],
    "square": lambda jobs, rows, now_us: jobs.nodes[rows] - waited_s(jobs, rows, now_us) ** 2,
    "root": lambda jobs, rows, now_us: jobs.nodes[rows] / np.sqrt(1.0 + waited_s(jobs, rows, now_us)),
    "logarithm": lambda jobs, rows, now_us: -np.log1p(waited_s(jobs, rows, now_us)) * jobs.nodes[rows],
    "logarithm to ten": lambda jobs, rows, now_us: np.log10(asked_s(jobs, rows)) - np.log10(
        1 + waited_s(jobs, rows, now_us)),
    "logarithm of zero": lambda jobs, rows, now_us: -np.log(waited_s(jobs, rows, now_us)) * jobs.nodes[rows],
    "logarithm of a quotient": lambda jobs, rows, now_us: (
        np.sqrt(asked_s(jobs, rows)) - 3.0 * np.log2(waited_s(jobs, rows, now_us) / asked_s(jobs, rows))),
    "logarithm held up": lambda jobs, rows, now_us: -np.maximum(np.log10(waited_s(jobs, rows, now_us)), 0.0),
    "cube of a logarithm": lambda jobs, rows, now_us: -(np.log(waited_s(jobs, rows, now_us)) ** 3),
    "exponential": lambda jobs, rows, now_us: np.exp(-waited_s(jobs, rows, now_us) / 3600.0) * asked_s(jobs, rows),
    "exploding": lambda jobs, rows, now_us: -np.exp(waited_s(jobs, rows, now_us)) * jobs.nodes[rows],
    "tangent": lambda jobs, rows, now_us: asked_s(jobs, rows) * (1 - np.tanh(waited_s(jobs, rows, now_us) / 7200.0)),
    "third root": lambda jobs, rows, now_us: -np.cbrt(waited_s(jobs, rows, now_us)) * jobs.nodes[rows],
    "steps": lambda jobs, rows, now_us: asked_s(jobs, rows) / 3600.0 - 10 * (waited_s(jobs, rows, now_us) // 600),
    "step": lambda jobs, rows, now_us: asked_s(jobs, rows) - 1e6 * np.heaviside(
        waited_s(jobs, rows, now_us) - 600, 0.5),
    "bonus": lambda jobs, rows, now_us: asked_s(jobs, rows) - 1e6 * (waited_s(jobs, rows, now_us) > 3600),
    "late ones first": lambda jobs, rows, now_us: np.where(
        waited_s(jobs, rows, now_us) > 7200, -waited_s(jobs, rows, now_us), asked_s(jobs, rows)),
    "classes": lambda jobs, rows, now_us: (
        asked_s(jobs, rows) - np.digitize(waited_s(jobs, rows, now_us), [60, 600, 3600]) * 1e6),
    "by size": lambda jobs, rows, now_us: np.where(
        jobs.nodes[rows] > 8, -waited_s(jobs, rows, now_us), -2.0 * waited_s(jobs, rows, now_us)),
    "bounded": lambda jobs, rows, now_us: 1e3 - np.minimum(waited_s(jobs, rows, now_us), 3600.0),
    "power": lambda jobs, rows, now_us: -(waited_s(jobs, rows, now_us) ** 1.5),
    "quotient": lambda jobs, rows, now_us: 1.0 / (1.0 + waited_s(jobs, rows, now_us)) ** 2,
    "product": lambda jobs, rows, now_us: -waited_s(jobs, rows, now_us) * (5.0 + waited_s(jobs, rows, now_us)),
    "time itself": lambda jobs, rows, now_us: jobs.nodes[rows] * 1.0 - now_us / 1e9,
}  # fmt: skip
OTHERS: dict[str, Callable[..., Any]] = {
    "rises": lambda jobs, rows, now_us: waited_s(jobs, rows, now_us),
    "rises as a quotient": lambda jobs, rows, now_us: -1.0 / (1.0 + waited_s(jobs, rows, now_us)),
    "up and down": lambda jobs, rows, now_us: (waited_s(jobs, rows, now_us) - 60.0) ** 2,
    "both ways": lambda jobs, rows, now_us: -waited_s(jobs, rows, now_us) + np.sqrt(waited_s(jobs, rows, now_us)),
    "of either sign": lambda jobs, rows, now_us: waited_s(jobs, rows, now_us) * jobs.qos[rows],
    "by a limit that may be zero": lambda jobs, rows, now_us: -((now_us - jobs.submit_us[rows]) / jobs.limit_us[rows]),
    "whole numbers that overflow": lambda jobs, rows, now_us: -(now_us - jobs.submit_us[rows]) * jobs.limit_us[rows],
    "a choice": lambda jobs, rows, now_us: np.where(
        waited_s(jobs, rows, now_us) > 60, jobs.nodes[rows] * 1.0, -waited_s(jobs, rows, now_us)),
    "a malus": lambda jobs, rows, now_us: asked_s(jobs, rows) + 1e6 * (waited_s(jobs, rows, now_us) > 3600),
    "a bonus that ends": lambda jobs, rows, now_us: asked_s(jobs, rows) - 1e6 * (waited_s(jobs, rows, now_us) < 3600),
    "an exact wait": lambda jobs, rows, now_us: asked_s(jobs, rows) - 1e6 * (waited_s(jobs, rows, now_us) == 3600),
    "a choice that overlaps": lambda jobs, rows, now_us: np.where(
        waited_s(jobs, rows, now_us) > 60, -waited_s(jobs, rows, now_us), -2.0 * waited_s(jobs, rows, now_us)),
    "a wave": lambda jobs, rows, now_us: -np.sin(waited_s(jobs, rows, now_us)),
    "endless times nothing": lambda jobs, rows, now_us: -np.log(waited_s(jobs, rows, now_us)) * (jobs.nodes[rows] - 1),
    "endless less endless": lambda jobs, rows, now_us: (
        np.log(asked_s(jobs, rows) - 1.0) - np.log(waited_s(jobs, rows, now_us))),
    "exploding times nothing": lambda jobs, rows, now_us: (
        -np.exp(waited_s(jobs, rows, now_us)) * (jobs.nodes[rows] - 1)),
    "steps of either sign": lambda jobs, rows, now_us: -(waited_s(jobs, rows, now_us) // jobs.qos[rows]),
    "a logarithm below zero": lambda jobs, rows, now_us: -np.log(waited_s(jobs, rows, now_us) - 1.0),
    "one over a logarithm": lambda jobs, rows, now_us: 1.0 / np.log(waited_s(jobs, rows, now_us)),
    "eligible later": lambda jobs, rows, now_us: -np.sqrt(now_us - jobs.eligible_us[rows]),
    "a wave of some size": lambda jobs, rows, now_us: np.cos(waited_s(jobs, rows, now_us) / 3600.0) * jobs.nodes[rows],
    "hours": lambda jobs, rows, now_us: (waited_s(jobs, rows, now_us) % 3600.0) * jobs.nodes[rows],
    "hours of the day": lambda jobs, rows, now_us: np.where(
        (now_us // 3_600_000_000) % 24 < 8, asked_s(jobs, rows), -asked_s(jobs, rows)) - waited_s(jobs, rows, now_us),
    "an exponent per job": lambda jobs, rows, now_us: (
        -((waited_s(jobs, rows, now_us) / asked_s(jobs, rows)) ** (1.0 + 1.0 / jobs.nodes[rows]))),
    "two truths": lambda jobs, rows, now_us: asked_s(jobs, rows) - 1e3 * (
        (waited_s(jobs, rows, now_us) > 600) & ~(jobs.nodes[rows] > 2)),
    "one of two truths": lambda jobs, rows, now_us: asked_s(jobs, rows) - 1e3 * (
        (waited_s(jobs, rows, now_us) > 600) | (waited_s(jobs, rows, now_us) < 60)),
    "rounded": lambda jobs, rows, now_us: np.rint(waited_s(jobs, rows, now_us) / 60.0) - np.sign(
        waited_s(jobs, rows, now_us) - 600.0) * jobs.nodes[rows],
}  # fmt: skip
BOUNDED = FALLING | OTHERS
UNBOUNDED: dict[str, Callable[..., Any]] = {
    "the queue": lambda jobs, rows, now_us: -waited_s(jobs, rows, now_us) / np.mean(asked_s(jobs, rows)),
    "its length": lambda jobs, rows, now_us: -waited_s(jobs, rows, now_us) * len(rows),
    "usage": lambda jobs, rows, now_us: -waited_s(jobs, rows, now_us) * jobs.usage[jobs.user[rows]],
    "a question": lambda jobs, rows, now_us: (
        -waited_s(jobs, rows, now_us) if now_us > 10**12 else 1.0 * jobs.nodes[rows]),
}  # fmt: skip
UNARY = (
    "negative", "positive", "reciprocal", "square", "sqrt", "absolute", "fabs", "exp", "exp2", "expm1", "log", "log2",
    "log10", "log1p", "tanh", "arctan", "arcsinh", "cbrt", "floor", "ceil", "trunc", "rint", "sign", "cos", "sin",
    "logical_not", "isfinite", "isinf", "isnan",
)  # fmt: skip
BINARY = (
    "add", "subtract", "multiply", "divide", "true_divide", "floor_divide", "remainder", "mod", "power", "maximum",
    "minimum", "fmax", "fmin", "greater", "greater_equal", "less", "less_equal", "equal", "not_equal", "logical_and",
    "logical_or",
)  # fmt: skip
ANY_NUMBER = st.one_of(
    st.floats(allow_nan=False), st.floats(-4.0, 4.0), st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, -1.0, np.inf, -np.inf])
)
PARTS = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6)


def test_every_operation_is_tried_here() -> None:
    known = {name for name in vars(intervals) if not name.startswith("_") and hasattr(np, name)}
    assert known - {"annotations", "float64"} == {*UNARY, *BINARY}


def between(low: float, high: float, part: float) -> float:
    """Some number from `low` to `high`."""
    with np.errstate(all="ignore"):
        found = low + part * (high - low)
    return min(max(found, low), high) if np.isfinite(found) else (low if part < 0.5 else high)


def stays_between(found: Any, low: float, high: float) -> bool:
    return np.isnan(low) and np.isnan(high) if np.isnan(found) else np.isnan(low) or low <= found <= high


@pytest.mark.parametrize("name", UNARY)
@given(one=st.tuples(ANY_NUMBER, ANY_NUMBER), parts=PARTS)
def test_what_is_made_of_a_number_stays_between_the_bounds(name: str, one: Any, parts: list[float]) -> None:
    low, high = sorted(one)
    bounds = getattr(intervals, name)(low, high)
    for part in (0.0, 1.0, *parts):
        with np.errstate(all="ignore"):
            assert stays_between(np.float64(getattr(np, name)(between(low, high, part))), *bounds)


@pytest.mark.parametrize("name", BINARY)
@given(one=st.tuples(ANY_NUMBER, ANY_NUMBER), other=st.tuples(ANY_NUMBER, ANY_NUMBER), point=st.booleans(), parts=PARTS)
@example(one=(3599.0, 3601.0), other=(3600.0, 3600.0), point=True, parts=[0.5])
@example(one=(-8.0, 2.0), other=(3.0, 3.0), point=True, parts=[0.5])
def test_what_is_made_of_two_numbers_stays_between_the_bounds(
    name: str, one: Any, other: Any, point: bool, parts: list[float]
) -> None:
    (low, high), (other_low, other_high) = sorted(one), sorted(other)
    other_high = other_low if point else other_high
    bounds = getattr(intervals, name)(low, high, other_low, other_high)
    for part in (0.0, 1.0, *parts):
        for other_part in (0.0, 1.0, *parts[::-1]):
            numbers = between(low, high, part), between(other_low, other_high, other_part)
            with np.errstate(all="ignore"):
                assert stays_between(np.float64(getattr(np, name)(*numbers)), *bounds)


@pytest.mark.parametrize("name", [name for name in (*UNARY, *BINARY) if name not in ("logical_and", "logical_or")])
def test_of_what_is_no_number_nothing_is_known(name: str) -> None:
    nothing = np.nan, np.nan
    bounds = getattr(intervals, name)(*nothing, *((1.0, 2.0) if name in BINARY else ()))
    assert np.isnan(bounds).all() or bounds == (0.0, 1.0)


def test_a_choice_is_open_until_it_is_sure() -> None:
    assert intervals.chosen(1.0, 1.0, 2.0, 3.0, np.nan, np.nan) == (2.0, 3.0)
    assert intervals.chosen(0.0, 0.0, np.nan, np.nan, 4.0, 5.0) == (4.0, 5.0)
    assert intervals.chosen(0.0, 1.0, 2.0, 3.0, 4.0, 5.0) == (2.0, 5.0)
    assert np.isnan(intervals.chosen(0.0, 1.0, 2.0, 3.0, np.nan, np.nan)).all()


def bounds_of(
    function: Callable[..., Any], jobs: Any, rows: Any, now_us: int, until_us: int, *parameters: float
) -> Any:
    source = for_window(function, parameters)
    assert source is not None
    known: dict[str, Any] = {"numpy": np, "intervals": intervals}
    exec(source, known)
    found = np.empty(len(rows))
    with np.errstate(all="ignore"):
        known["bound_queue"](columns_of(jobs, np.ones((2, 2))), rows, now_us, *parameters, float(until_us), found)
    return found


def scores_of(function: Callable[..., Any], jobs: Any, rows: Any, now_us: int) -> Any:
    with np.errstate(all="ignore"):
        found = np.asarray(function(columns_of(jobs, np.ones((2, 2))), rows, now_us), float)
    return np.where(np.isnan(found), np.inf, found)


@pytest.mark.parametrize("name", UNBOUNDED)
def test_no_bounds(name: str) -> None:
    assert for_window(UNBOUNDED[name], ()) is None


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("seed", range(3))
def test_no_score_goes_below_its_bound(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, count = np.zeros((JOB_COLUMNS, 60), np.int64), 60
    jobs[NODES] = jobs[CORES] = rng.integers(1, 5000, count)
    jobs[LIMIT] = rng.integers(0, 10**11, count) * rng.integers(0, 2, count)
    jobs[SUBMIT], jobs[USER], jobs[QOS] = rng.integers(0, 10**9, count), 0, rng.integers(-2, 3, count)
    jobs[SUBMIT, :10] = now = 10**9
    rows = np.arange(count)
    for _ in range(12):
        until = now + int(rng.integers(1, 10 ** rng.integers(1, 11)))  # from a microsecond to three hours
        least = bounds_of(BOUNDED[name], jobs, rows, now, until)
        for instant in (now, until, *rng.integers(now, until + 1, 8)):
            assert (scores_of(BOUNDED[name], jobs, rows, int(instant)) >= least).all()
        if name in FALLING:  # then the bound is the score at the end
            last = scores_of(BOUNDED[name], jobs, rows, until)
            assert np.isclose(least, last, rtol=1e-12).mean() > 0.8  # but where a limit of zero leaves all open
        now = until


def test_the_value_of_an_option_counts() -> None:
    def order(jobs: Any, rows: Any, now_us: int, weight: float) -> Any:
        return -weight * waited_s(jobs, rows, now_us)

    jobs, rows = np.zeros((JOB_COLUMNS, 1), np.int64), np.arange(1)
    assert bounds_of(order, jobs, rows, 10**6, 10**7, 2.0) == [-20.0]
    assert bounds_of(order, jobs, rows, 10**6, 10**7, -2.0) == [2.0]


def test_a_time_that_is_no_whole_float_bounds_nothing() -> None:
    jobs, rows = np.zeros((JOB_COLUMNS, 1), np.int64), np.arange(1)
    assert bounds_of(FALLING["first come"], jobs, rows, 2**53 - 10, 2**53) == [-np.inf]


def test_bounds_that_do_not_hold_are_noticed() -> None:
    source = for_window(FALLING["credit"], ())
    assert source is not None
    right = compile_bounds("test", source, 0)
    assert hold(right, FALLING["credit"], ())
    assert not hold(right, lambda jobs, rows, now_us: FALLING["credit"](jobs, rows, now_us) - 1.0, ())


def too_many_jobs(rng: np.random.Generator) -> tuple[Any, ...]:
    """Submit times, run times, limits and sizes; 64 nodes are too few for them."""
    jobs = 1200
    submit = np.sort(rng.integers(0, 30_000, jobs)) * SECOND
    limit = rng.choice([0, 10, 60, 600, 3600], jobs) * SECOND
    size = rng.choice([1, 1, 2, 4, 8, 33, 64], jobs)
    return submit, np.minimum((limit * rng.random(jobs) * 1.3).astype(np.int64), limit), limit, size


def overloaded(
    seed: int, order: Order, backfill: str, second: str | None = None, own_second: Order | None = None
) -> fast.Replay:
    submit, run, limit, size = too_many_jobs(np.random.default_rng(seed))
    chosen = replace(policies("wfp", backfill, second), order=order)
    if own_second is not None:
        chosen = replace(chosen, backfill_order=own_second)
    return fast.replay(submit, run, limit, size, size, np.zeros(len(submit), np.int64), 64, chosen)


def with_bounds_and_without(name: str) -> tuple[Order, Order, int]:
    """The order, the same of which nothing is known, and its number."""
    source = for_window(BOUNDED[name], ())
    assert source is not None
    order = Order(BOUNDED[name], True, name="own")
    bound = compile_bounds(f"test of bounds: {name}", source, 0)
    return replace(order, bound=bound), order, list(BOUNDED).index(name)


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("name", BOUNDED)
def test_relying_on_them_changes_nothing(name: str) -> None:
    bounded, order, place = with_bounds_and_without(name)
    backfill, second = ("easy", "none", "3", "conservative")[place % 4], "wfp" if place % 8 == 2 else None
    short, full = (overloaded(place, one, backfill, second) for one in (bounded, order))
    assert np.array_equal(short.start_us, full.start_us)
    assert short.journal.hash() == full.journal.hash()


def windows_of(monkeypatch: pytest.MonkeyPatch, window_us: int, near: int = 64) -> list[Any]:
    """Windows begin with this length, so many are near the first; returns what replays to come note in the end."""
    noted, make = list[Any](), fast._lists

    def begun(*what: Any) -> Any:
        listed, scores, marks, bounds, least = make(*what)
        marks[shortlist.WINDOW : shortlist.WINDOW + shortlist.LEVELS] = window_us
        marks[shortlist.NEAR] = near
        noted.append(marks)
        return listed, scores, marks, bounds, least

    monkeypatch.setattr(fast, "_lists", begun)
    return noted


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("name", BOUNDED)
def test_long_and_short_windows_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one that ends with the pass it was made in to one that outlasts the trace."""
    bounded, order, place = with_bounds_and_without(name)
    backfill, second = ("easy", "none", "5", "first-fit")[place % 4], "wfp" if place % 8 == 2 else None
    full = overloaded(place, order, backfill, second)
    windows = ((1, 64), (600 * SECOND, 512), (600 * SECOND, 5), (30 * SECOND, 1), (2**50, 64))
    for window_us, near in (windows[place % 5], windows[(place + 2) % 5], windows[(place + 4) % 5]):
        with monkeypatch.context() as patch:
            windows_of(patch, window_us, near)
            assert overloaded(place, bounded, backfill, second).journal.hash() == full.journal.hash()


def test_what_swings_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """None swings below its own nodes: few are looked at in a long window, and bounds are not given up."""

    def swings(jobs: Any, rows: Any, now_us: int) -> Any:
        return np.sin(jobs.seq[rows] * waited_s(jobs, rows, now_us)) * jobs.nodes[rows]

    source = for_window(swings, ())
    assert source is not None
    bounded = replace(Order(swings, True, name="own"), bound=compile_bounds("test of what swings", source, 0))
    full = overloaded(6, replace(bounded, bound=None), "easy")
    noted = windows_of(monkeypatch, 600 * SECOND)
    assert overloaded(6, bounded, "easy").journal.hash() == full.journal.hash()
    assert noted[0][shortlist.GIVEN_UP] == 0
    assert noted[0][shortlist.WINDOW] > 600 * SECOND


def test_a_list_that_costs_too_much_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    given_up, build = list[int](), fast._queue_by_arrival

    def note(jobs: Any, keys: Any, arrived: int) -> Any:
        given_up.append(arrived)
        return build(jobs, keys, arrived)

    def hashed(jobs: Any, rows: Any, now_us: int) -> Any:
        return np.sin(jobs.seq[rows] * waited_s(jobs, rows, now_us))

    monkeypatch.setattr(fast, "_queue_by_arrival", note)
    source = for_window(hashed, ())
    assert source is not None
    order = Order(hashed, True, name="own")
    bounded = replace(order, bound=compile_bounds("test of a list given up", source, 0))
    for backfill in ("none", "easy", "3"):
        given_up.clear()
        short = overloaded(5, bounded, backfill)
        assert len(given_up) == 1
        full = overloaded(5, order, backfill)
        assert short.journal.hash() == full.journal.hash()


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("backfill", ["none", "easy", "first-fit", "4"])
def test_a_second_order_that_looks_at_the_queue_sees_all_of_it(backfill: str) -> None:
    """Though the first needs few scores; one event at a time everybody is scored."""

    def beside_the_others(jobs: Any, rows: Any, now_us: int) -> Any:
        return jobs.limit_us[rows] / np.mean(jobs.limit_us[rows]) - waited_s(jobs, rows, now_us) / 600.0 * len(rows)

    source = for_window(FALLING["credit"], ())
    assert source is not None
    order = Order(FALLING["credit"], True, name="own")
    bounded = replace(order, bound=compile_bounds("test of a second order", source, 0))
    second = Order(beside_the_others, True, name="second")
    found = [overloaded(7, one, backfill, None, second).journal.hash() for one in (bounded, order)]
    assert found[0] == found[1]
