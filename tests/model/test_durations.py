"""Durations in words: two units, rounded to the smaller; the page's own rule is held to the same table by its tests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.model.units import duration, parse_duration, span, without_durations
from tests.support.durations import SAID


@pytest.mark.parametrize(("seconds", "said"), SAID)
def test_a_duration_is_said_in_its_two_largest_units(seconds: float, said: str) -> None:
    assert duration(seconds) == said
    assert span(round(seconds * 1e6)) == said


@given(st.floats(0, 1e9))
def test_what_is_said_is_within_half_of_its_smaller_unit(seconds: float) -> None:
    words = duration(seconds).split()
    pairs = zip(words[::2], words[1::2], strict=True)
    meant = sum(parse_duration(f"{number}{unit[0]}") for number, unit in pairs) / 1e6
    limits = ((0.995, 0.01), (9.95, 0.1), (3600, 1), (86_400, 60), (2e9, 3600))
    smallest = next(smaller for most, smaller in limits if seconds < most)
    assert abs(meant - seconds) <= smallest / 2 + 1e-6


def test_durations_are_found_in_sentences() -> None:
    first, second = "waits for 2 jobs for 59 s, at most 1 h 2 min", "waits for 2 jobs for 1 min 4 s, at most 0.25 s"
    assert without_durations(first) == without_durations(second) == "waits for 2 jobs for , at most "
