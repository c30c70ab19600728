"""Orders that look at shares of usage are bounded too; a replay that relies on it starts every job at the same time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cohabit.compiled import compile_bounds
from cohabit.core import shortlist
from cohabit.core.protocols import Order
from cohabit.model.units import SECOND
from cohabit.policy.bounds import for_window, hold
from cohabit.policy.registry import make_order
from cohabit.sim import fast
from cohabit.testing.builders import policies
from tests.property.test_bounds import too_many_jobs, waited_s, windows_of

pytestmark = [pytest.mark.slow, pytest.mark.wide]  # machine code is made for every order
USERS = 7


def share(jobs: Any, rows: Any) -> Any:
    return jobs.usage_share[jobs.user[rows]]


ORDERS: dict[str, Callable[..., Any]] = {
    "fair share": lambda jobs, rows, now_us: -np.exp2(-share(jobs, rows)) * 1000.0 - waited_s(jobs, rows, now_us) / 60,
    "to those who have": lambda jobs, rows, now_us: -share(jobs, rows) * 100.0 + waited_s(jobs, rows, now_us) / 60,
    "share of the wait": lambda jobs, rows, now_us: -waited_s(jobs, rows, now_us) / (0.1 + share(jobs, rows)),
    "wait and share": lambda jobs, rows, now_us: share(jobs, rows) * jobs.nodes[rows] - waited_s(jobs, rows, now_us),
    "above the others": lambda jobs, rows, now_us: np.where(
        share(jobs, rows) > 1.0, 1e6, 0.0) - waited_s(jobs, rows, now_us) * jobs.nodes[rows],
    "share alone": lambda jobs, rows, now_us: share(jobs, rows),
    "near one": lambda jobs, rows, now_us: np.abs(share(jobs, rows) - 1.0) * 1e3 - waited_s(jobs, rows, now_us) / 600,
}  # fmt: skip


def overloaded(seed: int, order: Order, backfill: str, half_life_s: int) -> fast.Replay:
    """Some of the jobs have no user."""
    rng = np.random.default_rng(seed)
    submit, run, limit, size = too_many_jobs(rng)
    user = np.minimum(rng.geometric(0.4, len(submit)), USERS) - 2
    chosen = replace(policies("wfp", backfill), order=order, fair_share_half_life_us=half_life_s * SECOND)
    return fast.replay(submit, run, limit, size, size, user, 64, chosen)


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("half_life_s", [60, 7200, 10**7])
def test_relying_on_them_changes_nothing(name: str, half_life_s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source, place = for_window(ORDERS[name], ()), list(ORDERS).index(name)
    assert source is not None
    bound = compile_bounds(f"test of bounds of usage: {name}", source, 0)
    assert bound.of_usage
    assert hold(bound, ORDERS[name], ())
    order, backfill = Order(ORDERS[name], True, name="own"), ("easy", "none", "3", "conservative")[place % 4]
    full = overloaded(place, order, backfill, half_life_s)
    for window_us, near in ((600 * SECOND, 64), (30 * SECOND, 5), (2**50, 64)):
        with monkeypatch.context() as patch:
            noted = windows_of(patch, window_us, near)
            found = overloaded(place, replace(order, bound=bound), backfill, half_life_s)
            assert noted[0][shortlist.OF_USAGE]
        assert np.array_equal(found.start_us, full.start_us)
        assert found.journal.hash() == full.journal.hash()
    assert full.journal.hash() != overloaded(place, order, backfill, 0).journal.hash()  # usage does count


def test_bounds_that_shares_undercut_are_noticed() -> None:
    source = for_window(ORDERS["wait and share"], ())
    assert source is not None
    bound = compile_bounds("test of bounds of usage", source, 0)
    assert not hold(bound, ORDERS["to those who have"], ())


def test_the_built_in_order_is_bounded_where_nobody_says_that_it_falls() -> None:
    order = make_order("multifactor", {}, compile_it=False)
    assert for_window(order.function, order.parameters) is not None
