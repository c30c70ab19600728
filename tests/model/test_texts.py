"""What names, words and variables may hold, and that whatever is left can be written everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.model.texts import one_line, wrong_in_name, wrong_in_variable, wrong_in_word

anything = st.text(st.characters(exclude_categories=[]), max_size=40)  # lone surrogates too


@given(anything)
def test_a_sound_word_has_an_encoding_and_no_nul(text: str) -> None:
    sound = not any(0xD800 <= ord(one) < 0xE000 for one in text) and "\0" not in text
    assert (wrong_in_word(text) == "") == sound
    if sound:
        text.encode()


@given(anything)
def test_a_sound_name_is_one_line_without_control_characters(text: str) -> None:
    if not wrong_in_name(text):
        assert wrong_in_word(text) == ""
        assert len(text.splitlines()) <= 1
        assert not any(ord(one) < 32 or 127 <= ord(one) < 160 for one in text)


@given(anything, st.integers(1, 30))
def test_one_line_can_be_written_anywhere(text: str, most: int) -> None:
    short = one_line(text, most)
    assert len(short) <= most
    assert wrong_in_name(short) == ""


@pytest.mark.parametrize("text", ["größer", "日本語", "a b", "BASH_FUNC_x%%", "\u200d", "C:\\x", "%s", "~"])
def test_what_people_write_is_taken(text: str) -> None:
    assert (wrong_in_name(text), wrong_in_word(text + "\n\t"), wrong_in_variable(text)) == ("", "", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [("a\nb", "a line break"), ("a\0", "a NUL"), ("\x1b[2J", "U+001B"), ("\x85", "U+0085"), ("\u202e", "U+202E"),
     ("\u2028", "a line break"), ("\udcff", "half a surrogate pair")],
)  # fmt: skip
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    assert said in wrong_in_name(text)
    assert said in wrong_in_variable(text)


@pytest.mark.parametrize("name", ["", "=", "A=B"])
def test_a_variable_needs_a_name(name: str) -> None:
    assert "no '='" in wrong_in_variable(name)
