"""An order that goes by a few numbers of the queue, taken in two steps, decides as the same order scored in full."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cohabit.compiled import MEMORY_HEAD, RISING, compile_for_queue
from cohabit.core import given_numbers, shortlist, sums
from cohabit.core.columns import columns_of
from cohabit.model.units import SECOND
from cohabit.policy import settled
from cohabit.policy.recording import for_queue, record, various_jobs
from cohabit.policy.registry import make_order
from cohabit.sim import fast
from cohabit.sim.fast import Replay, replay
from cohabit.testing.builders import policies

pytestmark = [pytest.mark.slow, pytest.mark.wide]  # machine code is made for every order

HEAD = """import numpy as np

def scores(jobs, rows, now_us):
    wait = (now_us - jobs.submit_us[rows]) / 1e6
    limit = jobs.limit_us[rows] / 1e6
    nodes = jobs.nodes[rows]
    return """
ORDERS = {
    "by the means": "-(wait / (wait.mean() + 1)) ** 1.5 * nodes + limit / limit.mean()",
    "between extremes": "(limit - limit.min()) / (np.ptp(limit) + 1) - np.log1p(wait) / np.log1p(wait).max()",
    "by length and median": "-wait * len(rows) + np.median(limit) * nodes / nodes.max() + nodes.sum() * limit",
}


def order_file(tmp_path: Path, formula: str) -> str:
    path = tmp_path / "order.py"
    path.write_text(HEAD + formula + "\n")
    return str(path)


def long_queue(seed: int, order: str, backfill: str, two_steps: bool) -> Replay:
    """More work than the machine can do, so that hundreds wait."""
    rng = np.random.default_rng(seed)
    jobs, nodes, unit = 1200, 64, SECOND if seed % 2 else 1
    submit = np.sort(rng.integers(0, 40_000, jobs)) * unit
    limit = np.maximum(rng.choice([0, 10, 60, 600, 3600], jobs) * unit, seed % 2)
    run = (limit * rng.random(jobs) * 1.2).astype(np.int64)
    size = rng.choice([1, 1, 2, 4, 8, 33, 64], jobs)
    chosen = policies(order, backfill)
    assert chosen.order.given is not None
    if not two_steps:
        chosen = replace(chosen, order=replace(chosen.order, two_steps=None))
    return replay(submit, run, limit, size, size, np.full(jobs, -1), nodes, chosen)


@pytest.mark.parametrize("formula", ORDERS.values(), ids=ORDERS)
def test_two_steps_change_nothing(formula: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order, make, kept = order_file(tmp_path, formula), fast._lists, list[Any]()

    def begun(*what: Any) -> Any:
        kept.append(make(*what))
        kept[-1][2][shortlist.NEAR] = 8  # a queue of a few dozen has near and far ones already
        return kept[-1]

    monkeypatch.setattr(fast, "_lists", begun)
    for seed, backfill in enumerate(("none", "easy", "first-fit", "3", "conservative", "easy", "easy")):
        short, full = (long_queue(seed, order, backfill, two_steps) for two_steps in (True, False))
        assert np.array_equal(short.start_us, full.start_us), backfill
        assert short.journal.hash() == full.journal.hash(), backfill
    assert any(lists[2][shortlist.TIMES + 1] > 0 for lists in kept)  # bounds were made, and near ones among them


def test_giving_two_steps_up_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order, make = order_file(tmp_path, ORDERS["by the means"]), fast._lists
    full = long_queue(1, order, "easy", False)

    def spent(*what: Any) -> Any:
        lists = make(*what)
        lists[2][shortlist.SPENT] = shortlist.TOO_MUCH * shortlist.MANY_ROWS - 300
        return lists

    monkeypatch.setattr(fast, "_lists", spent)
    steps, made = [], fast._steps
    monkeypatch.setattr(fast, "_steps", lambda *what: steps.append(what[1]) or made(*what))
    assert long_queue(1, order, "easy", True).journal.hash() == full.journal.hash()
    assert [given is not None for given in steps] == [True, False]


def test_ranks_questions_and_usage_are_not_taken_in_two_steps(tmp_path: Path) -> None:
    for number, formula in enumerate((
        "np.argsort(np.argsort(limit)) - wait / wait.mean()",
        "-wait / wait.mean() if len(rows) > 5 else -wait",
        "jobs.usage_share[jobs.user[rows]] - wait / wait.mean()",
        "-wait * nodes",
    )):  # fmt: skip
        path = tmp_path / f"order{number}.py"
        path.write_text(HEAD + formula + "\n")
        assert make_order(str(path), {}, True).given is None, formula


def test_a_number_that_leaves_its_width_is_noticed_and_gets_a_wider_one() -> None:
    spans = np.zeros((given_numbers.SPANS, 2))
    spans[given_numbers.VALUE] = 10.0, 5.0
    assert given_numbers.are_beyond(1, spans)
    given_numbers.begin_window(1, spans)
    assert spans[given_numbers.WIDTH + 1].tolist() == [10.0, 5.0]
    assert not given_numbers.are_beyond(1, spans)
    spans[given_numbers.VALUE] = 20.0, 10.5
    assert given_numbers.are_beyond(1, spans)
    given_numbers.begin_window(1, spans)
    assert spans[given_numbers.WIDTH + 1].tolist() == [10.0, 10.0]
    given_numbers.begin_window(1, spans)
    assert spans[given_numbers.WIDTH + 1].tolist() == [8.0, 8.0]
    spans[given_numbers.VALUE, 0] = np.nan
    assert given_numbers.are_beyond(1, spans)
    bounds = np.zeros(6)
    given_numbers.give_bounds(1, spans, bounds)
    assert bounds.tolist() == [0.0, 12.0, 2.5, 28.0, 18.5, 0.0]


def test_the_queue_in_order_of_arrival() -> None:
    queued = np.zeros(20, np.int64)
    for row in range(3, 17, 2):
        given_numbers.add(row, queued)
    for row in (9, 3, 15):
        given_numbers.remove(row, queued)
    assert queued[1 : 1 + queued[0]].tolist() == [5, 7, 11, 13]


@pytest.mark.parametrize("seed", range(30))
def test_an_extreme_is_kept_while_rows_come_and_go(seed: int) -> None:
    rng = np.random.default_rng(seed)
    column, rows, memory, coming = rng.integers(-50, 50, 90_000), np.arange(0), np.zeros(MEMORY_HEAD), 0
    memory[RISING] = 1.0
    for _ in range(300):
        more = int(rng.integers(0, 4)) if rng.random() < 0.95 else 200
        rows = np.concatenate([rows[rng.random(len(rows)) > rng.choice([0.0, 0.02, 0.5])], coming + np.arange(more)])
        coming += more
        if len(rows):
            assert sums.extreme_of(column, rows, 1, memory, 2) == column[rows].max()
            assert sums.extreme_of(column, rows, -1, memory, 7) == column[rows].min()


def test_extremes_of_what_keeps_the_order_are_had_from_one_row() -> None:
    numpy: Any = np

    def kept(jobs: Any, rows: Any, now_us: Any) -> Any:
        wait = (now_us - jobs.submit_us[rows]) / 1e6
        return wait / wait.max() + numpy.log(wait + 1.0).min() - (-wait).max() + jobs.nodes[rows].min()

    def others(jobs: Any, rows: Any, now_us: Any) -> Any:
        wait = (now_us - jobs.submit_us[rows]) / 1e6
        return wait / (wait * jobs.nodes[rows]).max() + (jobs.limit_us[rows] * 3).max() + numpy.sin(wait).max()

    assert for_queue(kept, ()).source.count("extreme_of") == 5  # type: ignore[union-attr]
    assert "extreme_of" not in for_queue(others, ()).source  # type: ignore[union-attr]


def test_what_is_no_number_anywhere_is_none_for_all() -> None:
    def logs(jobs: Any, rows: Any, now_us: Any) -> Any:
        far = np.log((now_us - jobs.submit_us[rows]) / 1e6 - 1.0)
        return far.max() + jobs.nodes[rows]

    scores = settled.settled(logs)
    found = compile_for_queue("logs_in_test_given", *for_queue(scores, ()), 0)  # type: ignore[misc]
    jobs, usage, rows = various_jobs(2, 50)
    for now_us in (int(jobs[2].max()), int(jobs[2].max()) + 2 * SECOND):
        with np.errstate(all="ignore"):
            expected = scores(columns_of(jobs, usage), rows, now_us)
        assert np.array_equal(found.scores(jobs, usage, rows, now_us, found.numbers(())), expected, equal_nan=True)
        assert np.isnan(expected).all() == (now_us == int(jobs[2].max()))


def test_functions_numpy_has_its_own_of_are_those_of_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled, "has_its_own", lambda name: name in ("tanh", "log1p"))
    values = np.array([[0.1, 2.5], [-3.0, 7.0]])
    assert np.array_equal(settled.SETTLED.tanh(values), [[settled.LIBRARY["tanh"](x) for x in row] for row in values])
    assert settled.SETTLED.tanh(3) == settled.LIBRARY["tanh"](3.0)
    assert settled.SETTLED.tanh(values.astype(np.float32)).dtype == np.float32
    assert settled.SETTLED.exp is np.exp
    order = make_order(order_file(tmp_path, "-np.tanh(wait / 3600) * nodes + np.log1p(limit)"), {}, True)
    assert order.entry is not None
    assert order.bound is not None
    assert "tanh" in str(record(order.function, (), ())[0].lines)  # type: ignore[arg-type]


def test_powers_are_those_of_the_library_however_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled, "has_its_own", lambda name: name == "power")
    formula = "-(wait / limit) ** 1.5 * nodes + np.power(limit, 0.3) + 2.0 ** (-nodes) + (wait / 60) ** (1 / nodes)"
    order = make_order(order_file(tmp_path, formula), {}, True)
    jobs, usage, rows = various_jobs(3, 400)
    columns, now_us = columns_of(jobs, usage), int(jobs[2].max()) + SECOND
    wait, limit = ((now_us - jobs[2][rows]) / 1e6).tolist(), (columns.limit_us[rows] / 1e6).tolist()
    expected = [
        -math.pow(w / t, 1.5) * n + math.pow(t, 0.3) + math.pow(2.0, -n) + math.pow(w / 60, 1 / n)
        for w, t, n in zip(wait, limit, columns.nodes[rows].tolist(), strict=True)
    ]
    assert order.function(columns, rows, now_us).tolist() == expected
    assert order.entry is not None
    assert order.entry.scores(jobs, usage, rows, now_us, order.entry.numbers(())).tolist() == expected
    assert order.bound is not None
    in_place = settled.raised_in_place(values := np.array(limit), 0.3)
    assert in_place is values
    assert values.tolist() == [math.pow(t, 0.3) for t in limit]
    (tmp_path / "inside").mkdir()
    inside = make_order(order_file(tmp_path / "inside", "sum(x ** 1.5 for x in (wait, limit)) * nodes"), {}, True)
    assert inside.entry is not None
    assert inside.function(columns, rows, now_us).tolist() == [
        (math.pow(w, 1.5) + math.pow(t, 1.5)) * n
        for w, t, n in zip(wait, limit, columns.nodes[rows].tolist(), strict=True)
    ]


def test_what_needs_no_power_is_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled, "has_its_own", lambda name: name == "power")
    values = np.array([[0.1, 2.5], [-3.0, 7.0]])
    for exponent in (-1, 0, 0.5, 1, 2, np.float64(2.0)):
        with np.errstate(all="ignore"):
            assert np.array_equal(settled.raised(values, exponent), values**exponent, equal_nan=True)
    assert settled.raised(3, 4) == 81
    assert settled.raised(np.arange(4), 3).tolist() == [0, 1, 8, 27]
    assert type(settled.raised(settled.SETTLED.array(values), 3)) is settled.Table
    with pytest.raises(ValueError, match="negative"):
        settled.raised(np.arange(1, 4), -2)
    assert settled.raised(np.arange(1, 4), np.array([0.5, 3.0, -1.0])).tolist() == [1.0, 8.0, 3**-1.0]
