"""Options and arguments of a verb, declared once, in its signature; both parsers read them there.

    def queue(limit: Annotated[int, Option(metavar="N", help="At most so many.")] = 1000, ...) -> None:

The light parser (light.py) understands calls that are right, for the verbs people type all day. Typer's (full_parser.py)
understands all of them, explains wrong ones, and prints help. Nothing here may import typer: it takes 0.1 s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, get_type_hints


class Option:
    """`names` as typed, `-n` or `--name`; without any, `--` and the parameter's name."""

    def __init__(self, *names: str, metavar: str | None = None, help: str = "") -> None:
        self.names, self.metavar, self.help = names, metavar, help


class Argument:
    """A word without a name before it, or all of them.

    `jobs`: the shell completes names of jobs. `command`: from its first word on nothing is an option of the verb.
    """

    def __init__(self, metavar: str, help: str, jobs: bool = False, command: bool = False) -> None:
        self.metavar, self.help, self.jobs, self.command = metavar, help, jobs, command


class Parameter(NamedTuple):
    """What a verb takes, as its signature says it."""

    name: str
    kind: type  # bool: an option without a value; list: all arguments that are left
    default: Any  # ...: it must be given
    told: Option | Argument

    @property
    def names(self) -> tuple[str, ...]:
        """Of an option, as typed; of an argument, none."""
        if isinstance(self.told, Argument):
            return ()
        return self.told.names or (f"--{self.name.replace('_', '-')}",)


def declared(function: Callable[..., None]) -> list[Parameter]:
    """Everything the verb takes, in the order it is declared."""
    hints = get_type_hints(function, include_extras=True)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = dict(zip(reversed(names), reversed(function.__defaults__ or ()), strict=False))
    found = []
    for name in names:
        hint = hints[name]
        told = next(one for one in hint.__metadata__ if isinstance(one, Option | Argument))
        found.append(Parameter(name, _kind(hint.__origin__), defaults.get(name, ...), told))
    return found


def _kind(hint: Any) -> type:
    """`str` of `str | None`, `list` of `list[str]`."""
    first = getattr(hint, "__args__", (hint,))[0]
    whole: type = list if list in (getattr(one, "__origin__", None) for one in (hint, first)) else first
    return whole
