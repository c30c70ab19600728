"""`cohabit replay`: feed a journal to a fresh core and compare its commands with the recorded ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = (
    "\b\nExamples:\n  cohabit simulate jobs.swf --out DIR --journal\n  cohabit replay DIR --verify\n"
    "  cohabit replay site.toml --verify"
)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(name="replay", epilog=EXAMPLE)(replay)


def replay(
    journal: Annotated[
        Path,
        typer.Argument(
            metavar="JOURNAL",
            help="Of a simulation: its folder or journal.parquet; of a controller: its site file, place or journal.",
        ),
    ],
    verify: Annotated[bool, typer.Option("--verify", help="Exit with 1 if an order differs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """The same facts again, through the live core one step at a time: the same orders must come out, byte for byte."""
    from cohabit.app.serve.replaying import is_live, replay_live
    from cohabit.cli.console import show_json

    if is_live(journal):
        live = replay_live(journal)
        steps, orders, difference, left_out = live.batches, live.commands, live.difference, live.left_out
    else:
        from cohabit.app.serve.journals import replay_journal

        simulated = replay_journal(journal)
        steps, orders, difference, left_out = simulated.steps, simulated.orders, simulated.difference, 0
    if as_json:
        show_json({
            "steps": steps, "orders": orders, "identical": not difference, "difference": difference or None,
            "left_out": left_out,
        })  # fmt: skip
    else:
        word = "identical" if not difference else f"DIFFERENT {difference}"
        skipped = f", {left_out:,} events left out" if left_out else ""
        typer.echo(f"{steps:,} steps, {orders:,} orders{skipped}: {word}")
    if verify and difference:
        raise typer.Exit(1)
