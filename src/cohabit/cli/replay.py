"""`cohabit replay`: feed a journal to a fresh core and compare its orders with those written down."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        name="replay",
        epilog="\b\nExample:\n  cohabit simulate jobs.swf --out DIR --journal\n  cohabit replay DIR --verify",
    )(replay)


def replay(
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL", help="journal.parquet, or the folder it is in.")],
    verify: Annotated[bool, typer.Option("--verify", help="Exit with 1 if an order differs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """The same facts again, through the live core one step at a time: the same orders must come out."""
    from cohabit.app.journals import replay_journal
    from cohabit.cli.console import show_json

    result = replay_journal(journal)
    same = not result.difference
    if as_json:
        show_json(
            {"steps": result.steps, "orders": result.orders, "identical": same, "difference": result.difference or None}
        )
    else:
        word = "identical" if same else f"DIFFERENT {result.difference}"
        typer.echo(f"{result.steps:,} steps, {result.orders:,} orders: {word}")
    if verify and not same:
        raise typer.Exit(1)
