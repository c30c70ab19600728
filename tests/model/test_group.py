"""Terms that cannot hold are refused with the reason; those that can, hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.model.errors import InputError
from cohabit.model.group import Member, Terms, Window, make_group, start_offsets
from cohabit.model.units import SECOND

A, B, C = Member("a", "1"), Member("b", "2"), Member("c", "3")


def test_members_stay_in_the_given_order() -> None:
    assert make_group("g", [C, A, B], Terms()).domains() == ("c", "a", "b")


@pytest.mark.parametrize(
    ("members", "terms", "windows", "reason"),
    [
        ([A], Terms(), (), "has 1 members"),
        ([A, Member("a", "9")], Terms(), (), "two jobs in domain a"),
        ([A, Member("mars", "9")], Terms(), (), "unknown domain mars"),
        ([A, B], Terms(when_dead="hope"), (), "'hope'"),
        ([A, B], Terms(lease_us=0), (), "lease_us must be more than 0"),
        ([A, B], Terms(lease_us=2 * SECOND, ask_us=SECOND), (), "as long as the lease"),
        ([A, B], Terms(ask_us=40 * SECOND), (), "asked too rarely"),
        ([A, B], Terms(drift_ppm=200_000), (), "is too large"),
        ([A, B], Terms(), (Window("a", "a"),), "to itself"),
        ([A, B], Terms(), (Window("a", "c"),), "not a member"),
        ([A, Member("b", "2", 60 * SECOND)], Terms(watch_us=600 * SECOND), (), "b:2 ends before that"),
    ],
)
def test_refusals(members: list[Member], terms: Terms, windows: tuple[Window, ...], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        make_group("g", members, terms, windows, known=("a", "b", "c"))


def test_a_cycle_that_cannot_hold_is_named() -> None:
    later = (Window("a", "b", 10, 20), Window("b", "c", 10, 20), Window("c", "a", 0, 5))
    with pytest.raises(InputError, match=r"cannot hold together: (a|b|c) -> (a|b|c) -> (a|b|c) -> (a|b|c)"):
        make_group("g", [A, B, C], Terms(), later)


def test_b_at_most_a_minute_after_a_means_together() -> None:
    assert start_offsets(["a", "b"], (Window("a", "b", 0, 60 * SECOND),)) == (0, 0)


def test_an_earlier_start_moves_the_other_one_later() -> None:
    assert start_offsets(["a", "b"], (Window("a", "b", -30, -10),)) == (10, 0)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd"), st.integers(-50, 50), st.integers(0, 60)),
        max_size=6,
    )
)
def test_offsets_keep_every_window_or_there_are_none(drawn: list[tuple[str, str, int, int]]) -> None:
    windows = tuple(Window(a, b, least, least + width) for a, b, least, width in drawn if a != b)
    try:
        offsets = dict(zip("abcd", start_offsets(list("abcd"), windows), strict=True))
    except InputError:
        assert not _possible(windows)
        return
    assert min(offsets.values()) == 0
    assert all(one.least_us <= offsets[one.second] - offsets[one.first] <= one.most_us for one in windows)


def _possible(windows: tuple[Window, ...]) -> bool:
    """Floyd and Warshall: no way round gains time."""
    far = {(a, b): 0 if a == b else -(10**9) for a in "abcd" for b in "abcd"}
    for one in windows:
        far[one.first, one.second] = max(far[one.first, one.second], one.least_us)
        far[one.second, one.first] = max(far[one.second, one.first], -one.most_us)
    for k in "abcd":
        for i in "abcd":
            for j in "abcd":
                far[i, j] = max(far[i, j], far[i, k] + far[k, j])
    return all(far[a, a] <= 0 for a in "abcd")
