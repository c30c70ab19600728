"""Convert declarations of declaring.py for typer: for help, completion, and calls the light parser does not handle."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Annotated, Any, get_type_hints

import typer

from cohabit.cli.declaring import Argument, Option


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
            return Annotated[hint.__origin__, typer.Option(*told.names, metavar=told.metavar, help=told.help)]
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
