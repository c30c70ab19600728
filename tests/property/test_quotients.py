"""What is multiplied instead of divided comes out the same, to the last bit; and only where that is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from cohabit.compiled import compile_for_queue
from cohabit.core import powers
from cohabit.core.columns import LIMIT, SUBMIT, columns_of
from cohabit.policy.quotients import LEAST, MOST, quotients
from cohabit.policy.recording import for_queue, record, various_jobs
from cohabit.policy.settled import settled

pytestmark = [pytest.mark.slow, pytest.mark.wide]  # machine code is made for every order

MANY = 300_000


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
def all_quotients(values: Any, divisors: Any, out: Any) -> None:
    for index in range(len(values)):
        out[index] = powers.signed_quotient(values[index], divisors[index], 1.0 / divisors[index])


def numbers(rng: np.random.Generator, least: int, most: int) -> NDArray[np.float64]:
    """Of all sizes; many with digits that are nearly all ones or nearly all zeros."""
    digits = rng.integers(0, 2**52, MANY, dtype=np.uint64)
    few = rng.integers(0, 8, MANY, dtype=np.uint64)
    kind = rng.integers(0, 4, MANY)
    digits = np.where(kind == 0, np.uint64(2**52 - 1) - few, np.where(kind == 1, few, digits))
    found: NDArray[np.float64] = np.ldexp((digits | np.uint64(1023 << 52)).view(float), rng.integers(least, most, MANY))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_a_quotient_is_that_of_a_division(seed: int) -> None:
    rng = np.random.default_rng(seed)
    divisors = numbers(rng, -199, 199)
    values = numbers(rng, LEAST, MOST - 1) * rng.choice([-1.0, 1.0], MANY)
    if seed % 3 == 1:  # whole quotients and their neighbours
        values = np.nextafter(numbers(rng, -20, 20) * divisors, rng.choice([-np.inf, 0.0, np.inf], MANY))
    elif seed % 3 == 2:  # microseconds into seconds
        values, divisors = np.floor(np.abs(numbers(rng, 0, 62))), rng.choice([1e6, 60.0, 600.0, 3.6e9], MANY)
    values[::1000], values[1::1000] = 0.0, -0.0
    found = np.empty(MANY)
    all_quotients(values, divisors, found)
    expected = values / divisors
    assert np.array_equal(found, expected)
    assert np.array_equal(np.signbit(found), np.signbit(expected))


def wait(jobs: Any, rows: Any, now_us: int) -> Any:
    return (now_us - jobs.submit_us[rows]) / 1e6


def limit(jobs: Any, rows: Any) -> Any:
    return jobs.limit_us[rows] / 1e6


# by how many of their divisions may be done by multiplication
ORDERS: dict[str, tuple[Callable[..., Any], int]] = {
    "a constant": (lambda jobs, rows, now_us: wait(jobs, rows, now_us) / 600.0, 2),
    "a mean": (lambda jobs, rows, now_us: wait(jobs, rows, now_us) / wait(jobs, rows, now_us).mean(), 2),
    "a difference": (
        lambda jobs, rows, now_us: (wait(jobs, rows, now_us) - limit(jobs, rows).mean()) / limit(jobs, rows).std(), 3),
    "another sign": (lambda jobs, rows, now_us: -wait(jobs, rows, now_us) / limit(jobs, rows).max(), 3),
    "a number per job": (lambda jobs, rows, now_us: wait(jobs, rows, now_us) / limit(jobs, rows), 2),
    "what may be endless": (lambda jobs, rows, now_us: wait(jobs, rows, now_us) / limit(jobs, rows) / len(rows), 2),
    "nothing": (lambda jobs, rows, now_us: wait(jobs, rows, now_us) / 0.0, 1),
    "below zero": (lambda jobs, rows, now_us: wait(jobs, rows, now_us) / -600.0, 1),
    "too little": (lambda jobs, rows, now_us: wait(jobs, rows, now_us) / 1e-300, 1),
    "an exponential": (lambda jobs, rows, now_us: np.exp(wait(jobs, rows, now_us)) / len(rows), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_only_what_is_known_to_fit_is_multiplied(name: str) -> None:
    function, expected = ORDERS[name]
    tape, _ = record(function, (), ())  # type: ignore[arg-type]
    assert len(quotients(tape.lines)) == expected


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("name", ORDERS)
def test_scores_are_those_of_the_function(name: str) -> None:
    function = settled(ORDERS[name][0])
    recorded = for_queue(function, ())
    assert recorded is not None
    entry = compile_for_queue(f"test of quotients: {name}", *recorded, 0)
    for seed in range(9):
        jobs, usage, rows = various_jobs(seed, 1 + 37 * seed)
        if seed > 5:  # nobody has waited, and all ask for the same or for nothing
            jobs[SUBMIT], jobs[LIMIT] = jobs[SUBMIT].max(), (0, 60 * 10**6)[seed % 2]
        now_us = int(jobs[SUBMIT].max()) + (0 if seed > 5 else 10**seed)
        found = entry.scores(jobs, usage, rows, now_us, entry.numbers(()))
        expected = np.asarray(function(columns_of(jobs, usage), rows, now_us), float)
        assert np.array_equal(found, expected, equal_nan=True)
        assert np.array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))
