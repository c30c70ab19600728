"""The compiled number reader agrees with exact decimal arithmetic on every way a number can be written."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohabit.model.errors import InputError
from cohabit.trace.scan import scan_fields
from tests.breadth import examples

whole = st.integers(-(10**11), 10**11).map(str)
decimals = st.from_regex(r"\A[+-]?[0-9]{1,9}\.[0-9]{0,9}\Z")
powers = st.from_regex(r"\A-?[0-9]{1,4}(\.[0-9]{1,4})?[eE][+-]?[0-6]\Z")
RUN_TIME, SIZE = 4, 8


def scanned(text: str, field: int) -> int:
    fields = ["1"] * 18
    fields[field - 1] = text
    block = np.frombuffer((" ".join(fields) + "\n").encode(), np.uint8)
    return int(scan_fields([block], [field], "t").columns[field][0])


@pytest.mark.slow
@settings(max_examples=examples(400), deadline=None)
@given(text=st.one_of(whole, decimals, powers))
def test_numbers_are_read_exactly(text: str) -> None:
    value = Decimal(text)
    assert scanned(text, RUN_TIME) == int((value * 1_000_000).to_integral_value(ROUND_HALF_UP))
    assert scanned(text, SIZE) == int(value.to_integral_value(ROUND_HALF_UP))


@settings(max_examples=examples(300), deadline=None)
@given(text=st.text("0123456789.-+eExn_", min_size=1, max_size=8))
def test_what_python_calls_a_number_is_one_and_nothing_else(text: str) -> None:
    try:
        value = Decimal(text) if "_" not in text else None
        is_number = value is not None and value.is_finite()
    except ArithmeticError:
        is_number = False
    assert accepted(text) in (is_number, None)


def accepted(text: str) -> bool | None:
    """Whether the scanner takes the text for a number; None if for one that is too large."""
    try:
        scanned(text, SIZE)
    except InputError as problem:
        return None if "too large" in problem.what else False
    return True


def test_missing_fields_are_minus_one_in_the_unit_of_the_field() -> None:
    block = np.frombuffer(b"1 2 3 4 5 6 7 8 9\n", np.uint8)
    columns = scan_fields([block], [12, 18], "t").columns
    assert columns[12].tolist() == [-1]
    assert columns[18].tolist() == [-1_000_000]


def test_no_blocks_give_no_rows() -> None:
    assert len(scan_fields([], [1], "t").columns[1]) == 0
    with pytest.raises(InputError, match="line 1"):
        scan_fields([np.frombuffer(b"x\n", np.uint8)], [1], "t")
