"""`cohabit warm-up`: compile every kernel once, so that the first real run starts at once. make setup calls it."""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    example = "\b\nExamples:\n  cohabit warm-up\n  cohabit warm-up --first"
    app.command(name="warm-up", short_help="Compile everything now, not at the first run.", epilog=example)(warm_up)


def warm_up(
    first: Annotated[bool, typer.Option("--first", help="Only FCFS with EASY; others when first used.")] = False,
    demo: Annotated[bool, typer.Option("--demo", hidden=True, help="What `cohabit demo` needs: nothing.")] = False,
    parts: Annotated[str, typer.Option(hidden=True, help="Only these parts, in this process.")] = "",
) -> None:
    """Compile the kernels and the built-in orders that change with time, on two cores where there are two."""
    from cohabit.app.doctor import warming
    from cohabit.cli.console import note

    if parts:
        warming.compile_parts(parts.split(","))
        return
    if demo:
        note("`cohabit demo` needs no compiled kernels")
        return
    note(f"compiling kernels, once ({'half a minute' if first else 'two minutes'}) ...")
    warming.compile_all(warming.FIRST if first else warming.EVERYTHING)
    note("kernels are ready")
