"""Each rule has its kernel."""

from __future__ import annotations

import pytest

from tests.core.kernels.plain import kernel
from tests.core.kernels.world import CONSERVATIVE, EASY, FIRST_FIT, STRICT, rule

schedule = kernel("schedule")


@pytest.mark.parametrize("changing", [False, True])
def test_conservative_has_one_kernel_for_all_orders(changing: bool) -> None:
    assert schedule.pass_of(rule(CONSERVATIVE, changing)) is kernel("conservative").pass_with_promises


@pytest.mark.parametrize("depth", [FIRST_FIT, STRICT, EASY, 2, 7])
def test_scores_that_change_need_the_pass_by_scores(depth: int) -> None:
    assert schedule.pass_of(rule(depth, changing=True)) is kernel("changing").pass_by_scores


@pytest.mark.parametrize("depth", [FIRST_FIT, STRICT, EASY])
def test_at_most_one_reservation_needs_no_profile(depth: int) -> None:
    assert schedule.pass_of(rule(depth)) is kernel("easy").pass_by_ladder


@pytest.mark.parametrize("depth", [2, 7])
def test_several_reservations_are_planned_in_the_profile(depth: int) -> None:
    assert schedule.pass_of(rule(depth)) is kernel("depth").pass_to_depth
