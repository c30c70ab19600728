"""A draft of what a policy remembers is equal to it, and no change of the draft reaches the memory."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cohabit.core.memory import draft_of

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=12,
)


def spoil(one: Any) -> None:
    """Change every dict and list, however deep."""
    for inner in one.values() if isinstance(one, dict) else one if isinstance(one, list | tuple) else ():
        spoil(inner)
    if isinstance(one, dict | list):
        one.clear()


@given(memory=PLAIN)
def test_a_draft_is_equal_and_of_its_own(memory: Any) -> None:
    draft, before = draft_of(memory), deepcopy(memory)
    assert draft == memory
    spoil(draft)
    assert memory == before


def test_lists_in_tuples_are_of_their_own() -> None:
    memory = {"jobs": ([1], {"log": [2]})}
    draft = draft_of(memory)
    assert draft == memory
    assert isinstance(draft["jobs"], tuple)
    spoil(draft)
    assert memory == {"jobs": ([1], {"log": [2]})}
