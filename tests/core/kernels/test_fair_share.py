"""Usage decays by its half-life, and shares are parts of what users with any usage have used."""

from __future__ import annotations

import numpy as np
import pytest

from cohabit.model.units import HOUR, SECOND
from tests.core.kernels.plain import kernel

fair_share = kernel("fair_share")


def test_usage_halves_with_its_half_life() -> None:
    """Only ratios count: a core-second is worth half of one spent a half-life later."""
    usage = fair_share.make(2)
    fair_share.charge(usage, 0, 10, 0, HOUR, HOUR)
    fair_share.charge(usage, 1, 10, HOUR, 2 * HOUR, HOUR)
    assert usage[0, 1] / usage[0, 0] == pytest.approx(2.0)
    assert usage[1, :2] == pytest.approx([2 / 3, 4 / 3])  # shares: 1 is an equal part


def test_long_after_usage_is_scaled_down_and_never_infinite() -> None:
    usage = fair_share.make(2)
    fair_share.charge(usage, 1, 10, 0, HOUR, HOUR)
    fair_share.charge(usage, 0, 1, 300 * HOUR, 301 * HOUR, HOUR)
    assert np.isfinite(usage).all()
    assert usage[0, 0] == pytest.approx(3600.0)
    assert 0 < usage[0, 1] < 1e-60
    assert usage[0, -1] == 301 * HOUR, "a core-second counts as one from here on"


def test_a_run_is_charged_in_core_seconds() -> None:
    usage = fair_share.make(1)
    fair_share.charge(usage, 0, 4, 10 * SECOND, 35 * SECOND, HOUR)
    assert usage[0, 0] == pytest.approx(4 * 25 * 2 ** (35 / 3600))


def test_users_without_usage_do_not_count_for_shares() -> None:
    usage = fair_share.make(3)
    usage[0, :3] = 30.0, 0.0, 10.0
    fair_share.share_out(usage)
    assert usage[1].tolist() == [1.5, 0.0, 0.5, 2 / 40]


def test_shares_of_an_empty_table_are_zero() -> None:
    usage = fair_share.make(2)
    fair_share.share_out(usage)
    assert usage[1].tolist() == [0.0, 0.0, 0.0]


def test_a_table_grows_with_the_whole_in_the_last_column() -> None:
    usage = fair_share.make(2)
    usage[:] = [[1, 2, 3], [4, 5, 6]]
    assert fair_share.grown(usage, 4).tolist() == [[1, 2, 0, 0, 3], [4, 5, 0, 0, 6]]


def test_a_table_for_no_user_has_room_for_one() -> None:
    assert fair_share.make(0).shape == (2, 2)
