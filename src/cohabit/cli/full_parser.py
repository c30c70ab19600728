"""Declarations of declaring.py in typer's form: for help, completion, and calls the light parser does not handle."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from cohabit.cli.declaring import Argument, Option
from cohabit.model.errors import InputError


def for_typer(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same function with its options in typer's form. A function without declarations is unchanged."""
    if not isinstance(function, FunctionType):
        return function
    hints = get_type_hints(function, include_extras=True)
    marked = {name: _marked(hint) for name, hint in hints.items()}
    if marked == hints:
        return function
    twin = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    twin.__doc__, twin.__kwdefaults__, twin.__annotations__ = function.__doc__, function.__kwdefaults__, marked
    return twin


def _marked(hint: Any) -> Any:
    for told in getattr(hint, "__metadata__", ()):
        if isinstance(told, Option):
            return Annotated[
                hint.__origin__, typer.Option(*told.names, metavar=told.metavar, help=told.help, **told.more)
            ]
        if isinstance(told, Argument):
            completing = job_names if told.jobs else None
            return Annotated[
                hint.__origin__, typer.Argument(metavar=told.metavar, help=told.help, autocompletion=completing)
            ]
    return hint


def job_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return jobs that wait or run, for shell completion. Errors are ignored so that the prompt is not disturbed."""
    from cohabit.app.client.client import connect

    try:
        jobs, _ = connect(ctx.params.get("server")).jobs()
    except Exception:
        return []
    return [str(job["job"]) for job in jobs if str(job["job"]).startswith(incomplete)]


SAME_AS = {  # options of other schedulers and tools, and ours
    "--cores": "-n/--processes", "--cpus": "-n/--processes", "--ntasks": "-n/--processes", "--np": "-n/--processes",
    "--time": "--limit", "--walltime": "--limit", "--memory": "--mem", "--dependency": "--after",
    "--job-name": "--name", "--project": "--account",
}  # fmt: skip


def known_elsewhere(error: Exception, where: str = "") -> InputError | None:
    """Return a refusal that names our option, if the parser was given one of other schedulers; else None."""
    said = str(getattr(error, "option_name", ""))
    return InputError(f"there is no option {said}", where, f"use {SAME_AS[said]}") if said in SAME_AS else None


class SubmitCommand(TyperCommand):
    """Options end where the command begins; a script's own options come before those typed, so that the typed win."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the script's options in front."""
        try:
            if not ctx.resilient_parsing:
                args = self._script_words(ctx, args) + args
            return super().parse_args(ctx, args)
        except Exception as error:
            if (same := known_elsewhere(error)) is None:
                raise
            raise same from None

    def _script_words(self, ctx: Any, args: list[str]) -> list[str]:
        from cohabit.app.client.submission import is_script, script_options

        command = self.make_parser(ctx).parse_args(args=list(args))[0].get("command") or ()
        path = is_script(command[0]) if command else None
        found: list[str] = []
        for number, words in [] if path is None else script_options(path):
            where = f"{path}, line {number}"
            try:
                left = self.make_parser(ctx).parse_args(args=list(words))[0].get("command") or ()
            except Exception as error:
                explain = getattr(error, "format_message", None)
                if (same := known_elsewhere(error, where)) is not None:
                    raise same from None
                if explain is None:
                    raise
                raise InputError(explain().rstrip("."), where, "see `cohabit submit --help`") from None
            if left:
                raise InputError(f"{left[0]!r} is not an option", where, "only options belong there")
            found += words
        return found
