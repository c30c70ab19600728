"""Options and arguments of a verb, declared once, in its signature; both parsers read them there.

    def queue(limit: Annotated[int, Option(metavar="N", help="At most so many.")] = 1000, ...) -> None:

The light parser (light.py) handles correct calls of the most frequent verbs. Typer's (full_parser.py) handles every
call, explains wrong ones, and prints help. Nothing here may import typer: that takes 0.1 s. Modules of such verbs do
without `from __future__ import annotations`: reading annotations from text takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Option:
    """`names` as typed, `-n` or `--name`; without any, `--` and the parameter's name."""

    def __init__(self, *names: str, metavar: str | None = None, help: str = "") -> None:
        self.names, self.metavar, self.help = names, metavar, help


class Argument:
    """A positional word, or all of them.

    `jobs`: the shell completes names of jobs. `command`: from its first word on nothing is an option of the verb.
    """

    def __init__(self, metavar: str, help: str, jobs: bool = False, command: bool = False) -> None:
        self.metavar, self.help, self.jobs, self.command = metavar, help, jobs, command


class Parameter:
    """A parameter of a verb, as declared in its signature."""

    def __init__(self, name: str, kind: type, default: Any, told: Option | Argument) -> None:
        self.name = name
        self.kind = kind  # bool: an option without a value; list: all remaining arguments
        self.default = default  # ...: it is required
        self.told = told
        self.names: tuple[str, ...] = ()  # of an option, as typed
        if isinstance(told, Option):
            self.names = told.names or (f"--{name.replace('_', '-')}",)


def declared(function: Callable[..., None]) -> list[Parameter]:
    """Return all parameters of the verb, in the order of declaration."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = dict(zip(reversed(names), reversed(function.__defaults__ or ()), strict=False))
    found = []
    for name in names:
        hint = function.__annotations__[name]
        found.append(Parameter(name, _kind(hint.__origin__), defaults.get(name, ...), hint.__metadata__[0]))
    return found


def _kind(hint: Any) -> type:
    """Return `str` for `str | None`, `list` for `list[str]`."""
    first = getattr(hint, "__args__", (hint,))[0]
    whole: type = list if list in (getattr(one, "__origin__", None) for one in (hint, first)) else first
    return whole
