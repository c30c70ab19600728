"""Verbs: name, help and examples in a decorator, options and arguments in the signature; both parsers read them there.

    @verb("queue", "Jobs that wait and run.", "cohabit queue", "cohabit queue --all")
    def queue(limit: Annotated[int, Option(metavar="N", help="At most this many.")] = 1000, ...) -> None:

The light parser (light.py) handles correct calls of the most frequent verbs. Typer's (full_parser.py) handles every
call, explains wrong ones, and prints help. Nothing here may import typer: that takes 0.1 s. Modules of such verbs do
without `from __future__ import annotations`: reading annotations from text takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import typer

Function = TypeVar("Function", bound=Callable[..., None])


def verb(name: str, short_help: str, *examples: str, **settings: Any) -> Callable[[Function], Function]:
    """Mark a function as a verb, with one line of help and calls as examples; settings are click's."""

    def mark(function: Function) -> Function:
        function.__dict__["verb"] = (name, short_help, examples, settings)
        return function

    return mark


def add_verbs(app: typer.Typer, *functions: Callable[..., None]) -> None:
    """Add marked functions to a command or to a group of verbs."""
    for function in functions:
        name, short_help, examples, settings = function.__dict__["verb"]
        add_verb(app, function, name, short_help, *examples, **settings)


def add_verb(
    app: typer.Typer, function: Callable[..., None], name: str, short_help: str, *examples: str, **settings: Any
) -> None:
    """Add a function under a name; without a short help, typer takes the first sentence of its docstring."""
    app.command(name=name, short_help=short_help or None, epilog=epilog_of(*examples), **settings)(function)


def add_group(
    app: typer.Typer, name: str, short_help: str, help: str, *examples: str, verbs: Sequence[Any], **settings: Any
) -> None:
    """Add a group of marked functions as one verb with verbs of its own."""
    import typer

    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=help, epilog=epilog_of(*examples), **settings)
    add_verbs(group, *verbs)
    app.add_typer(group, name=name, short_help=short_help)


def epilog_of(*examples: str) -> str:
    """Return the end of a help text: calls as examples, each on a line of its own."""
    return "\n  ".join([f"\b\nExample{'s' if len(examples) > 1 else ''}:", *examples])


class Option:
    """`names` as typed, `-n` or `--name`; without any, `--` and the parameter's name. `more`: only for typer."""

    def __init__(self, *names: str, metavar: str | None = None, help: str = "", **more: Any) -> None:
        self.names, self.metavar, self.help, self.more = names, metavar, help, more


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
