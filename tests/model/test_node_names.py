"""Names of nodes in short form, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.model.node_names import expanded, names_in, nodes_text, read_nodes, short_form

NAMES = ("n0", "n1", "n2", "n3", "login", "big08", "big09", "big10")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("n0", "n1", "n2", "n7"), "n[0-2,7]"),
        (("n9", "n10"), "n[9-10]"),
        (("n09", "n10", "n11"), "n[09-11]"),
        (("n09", "n9"), "n[09,9]"),
        (("n3",), "n3"),
        (("login", "n1", "n2"), "login,n[1-2]"),
        (("0", "1", "3"), "0-1,3"),
        ((), ""),
    ],
)
def test_names_in_short(names: tuple[str, ...], text: str) -> None:
    assert short_form(names) == text


DRAWN = st.tuples(st.sampled_from(["n", "rack1-n", "x0y"]), st.integers(0, 30), st.integers(1, 3))


@given(st.lists(DRAWN, unique_by=lambda one: f"{one[0]}{one[1]:0{one[2]}d}"))
def test_the_short_form_means_the_same_names(drawn: list[tuple[str, int, int]]) -> None:
    names = [f"{head}{number:0{width}d}" for head, number, width in drawn]
    assert sorted(expanded(short_form(names))) == sorted(names)


def test_nodes_by_their_names_or_their_numbers() -> None:
    assert names_in([(1, 2), (4, 1)], NAMES) == ["n1", "n2", "login"]
    assert names_in([(1, 2)], ()) == ["1", "2"]
    assert nodes_text([(0, 2), (5, 3)], NAMES) == "n[0-1],big[08-10]"
    assert nodes_text([(0, 2), (5, 3)], ()) == "0-1,5-7"


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("n[1-2],login", ((1, 2), (4, 1))),
        ("big[08,10]", ((5, 1), (7, 1))),
        ("0-3, 7", ((0, 4), (7, 1))),
        ("n3,4", ((3, 2),)),
    ],
)
def test_what_an_operator_writes(text: str, ranges: tuple[tuple[int, int], ...]) -> None:
    assert read_nodes(text, NAMES) == ranges


@pytest.mark.parametrize("text", ["", "n9", "n[x]", "n[1-", "n[0-99999999999]", "all"])
def test_what_names_no_node_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a list of nodes \(try n\[0-3\]\)"):
        read_nodes(text, NAMES)
    with pytest.raises(ValueError, match="try 0-3,7"):
        read_nodes(text, ())
