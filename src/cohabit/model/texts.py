"""Check texts from outside; every entry point does so before anything else reads them.

A *name* is shown to people, written into logs and made part of file names: no control characters, no line breaks,
nothing that changes the direction of writing. A *word* is given to a program (a word of a command, the value of a
variable): anything but NUL. Neither has a lone surrogate, which no encoding can write.
"""

from __future__ import annotations

import re

LONGEST_NAME = 255
NOT_IN_NAMES = r"\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069"  # a character class for patterns
_NOT_IN_NAMES = re.compile(f"[{NOT_IN_NAMES}]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def wrong_in_word(text: str) -> str:
    """Return what is wrong with a word of a program, in one sentence; empty: nothing."""
    if "\0" in text:
        return "there is a NUL character in it"
    if _SURROGATE.search(text):
        return "there is half a surrogate pair in it, which is not text in any encoding"
    return ""


def wrong_in_name(text: str) -> str:
    """Return what is wrong with a name or a path, in one sentence; empty: nothing."""
    if found := _NOT_IN_NAMES.search(text):
        what = "a line break" if found[0] in "\n\r\u2028\u2029" else f"the control character U+{ord(found[0]):04X}"
        return f"there is {what} in it" if found[0] != "\0" else "there is a NUL character in it"
    return wrong_in_word(text)


def wrong_in_variable(name: str) -> str:
    """Return what is wrong with the name of an environment variable, in one sentence; empty: nothing."""
    if not name or "=" in name:
        return "the name of a variable is not empty and has no '=' in it"
    return wrong_in_name(name)


def one_line(text: str, most: int) -> str:
    """Return any text as one line that can be written anywhere, of at most `most` characters."""
    short = _NOT_IN_NAMES.sub(" ", text[: 4 * most])
    return " ".join(_SURROGATE.sub("?", short).split())[:most]
