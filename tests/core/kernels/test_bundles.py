"""The bundles have room for a whole queue, and the special depths are in their order."""

from __future__ import annotations

from tests.core.kernels.plain import kernel

bundles = kernel("bundles")


def test_depths_grow_from_first_fit_to_conservative() -> None:
    """A pass compares depths: strict promises none, EASY one, and no finite depth reaches conservative."""
    assert (bundles.FIRST_FIT, bundles.STRICT, bundles.EASY) == (-1, 0, 1)
    assert bundles.CONSERVATIVE > 10**9


def test_a_workspace_has_room_for_a_whole_queue_in_every_array() -> None:
    work = bundles.make_workspace(5)
    assert [len(one) for one in (work.arrivals, work.waiting, work.started)] == [5, 5, 5]
    assert work.fresh.shape == (2, 5), "scores by both orders"
    assert work.rows.shape == (3, 5), "looked at, able to pass, promised"
    assert work.scores.shape == (2, 5)


def test_scores_of_a_new_workspace_are_zero() -> None:
    """A single job is never scored: what stands there must be a number."""
    assert bundles.make_workspace(3).fresh.tolist() == [[0.0] * 3, [0.0] * 3]


def test_a_plain_rule_sorts_the_queue_by_score() -> None:
    plain = bundles.Rule(bundles.EASY, changing=False)
    assert plain.by_score
    assert plain[2:5] == (False, False, False), "neither falling nor alone, one order"
    assert not plain.by_size
