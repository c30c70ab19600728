"""Run the most frequent verbs without imports that take longer than the verbs themselves.

A call is handled here only if every word of it is understood. Anything else (help, a mistake, another verb, shell
completion) goes to the whole command, and its parser decides; both read the same declarations (declaring.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

from cohabit.cli.declaring import Argument, Parameter, declared
from cohabit.model.errors import InputError

VERBS = {  # verb -> its module
    "submit": "submit", "queue": "queue", "wait": "wait", "logs": "logs",
    "show": "jobs", "cancel": "jobs", "hold": "jobs", "release": "jobs", "requeue": "jobs", "change": "jobs",
}  # fmt: skip
COMPLETION = "_COHABIT_COMPLETE"  # set by the shell

Values = dict[str, Any]


class NotUnderstood(Exception):
    """The call must be handled by the whole command."""


def find(words: list[str]) -> Callable[[], None] | None:
    """Return the function for such a call; None: use the whole command."""
    if not words or words[0] not in VERBS or COMPLETION in os.environ:
        return None
    module = import_module(f"cohabit.cli.{VERBS[words[0]]}")
    verb = getattr(module, words[0])
    try:
        values = read(verb, words[1:], getattr(module, "script_lines", None))
    except (NotUnderstood, InputError):
        return None
    return lambda: verb(**values)


def read(verb: Callable[..., None], words: list[str], script_lines: Callable[..., list[list[str]]] | None) -> Values:
    """Return the verb's arguments by name. `script_lines`: options from a script, before those typed."""
    parameters = declared(verb)
    given = _typed(parameters, words)
    if script_lines is not None and (lines := script_lines(given.get("command") or [])):
        if any("command" in _typed(parameters, line) for line in lines):
            raise NotUnderstood
        given = _typed(parameters, [word for line in lines for word in line] + words)
    if any(one.default is ... and one.name not in given for one in parameters):
        raise NotUnderstood
    return {one.name: given.get(one.name, one.default) for one in parameters}


def _typed(parameters: list[Parameter], words: list[str]) -> Values:
    """Return what was typed, as click would parse it; of an option given twice, the last."""
    options = {name: one for one in parameters for name in one.names}
    places = [one for one in parameters if isinstance(one.told, Argument)]
    command = any(isinstance(one.told, Argument) and one.told.command for one in places)
    given: Values = {}
    left, rest = list(reversed(words)), []
    while left:
        word = left.pop()
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            rest.append(word)
            if command:
                break
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            _take(given, options.get(name), [value] if equals else left, attached=bool(equals))
        else:
            _take_short(given, options, word, left)
    rest += reversed(left)
    for one in places:
        if one.kind is list:
            if rest:
                given[one.name] = rest
            rest = []
        elif rest:
            given[one.name] = rest.pop(0)
    if rest:
        raise NotUnderstood
    return given


def _take_short(given: Values, options: dict[str, Parameter], word: str, left: list[str]) -> None:
    """Parse `-n 4`, `-n4`, or several without values in one word."""
    for at, character in enumerate(word[1:], start=2):
        option = options.get(f"-{character}")
        if option is not None and option.kind is not bool and word[at:]:
            left.append(word[at:])
            _take(given, option, left)
            return
        _take(given, option, left)


def _take(given: Values, option: Parameter | None, left: list[str], attached: bool = False) -> None:
    """Take an option with its value, which is the last word of `left`."""
    if option is None or (attached if option.kind is bool else not left):
        raise NotUnderstood
    try:
        given[option.name] = True if option.kind is bool else option.kind(left.pop())
    except ValueError:
        raise NotUnderstood from None
