"""`cohabit replay`: feed a journal to a fresh core and compare its commands with the recorded ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cohabit.cli.console import show_result
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.options import AsJson


@verb(
    "replay",
    "Feed a journal to a fresh core: the same orders must come out.",
    "cohabit simulate jobs.swf --out DIR --journal",
    "cohabit replay DIR --verify",
    "cohabit replay site.toml --verify",
)
def replay(
    journal: Annotated[
        Path,
        Argument(
            "JOURNAL",
            "Of a simulation: its folder or journal.parquet; of any controller: its site file, place or journal.",
        ),
    ],
    verify: Annotated[bool, Option("--verify", help="Exit with 1 if an order differs.")] = False,
    as_json: AsJson = False,
) -> None:
    """The same facts again, through the live core one step at a time: the same orders must come out, byte for byte."""
    from cohabit.app.serve.replaying import is_live, replay_live

    among: dict[str, Any] | None = None
    stretches = 1
    if is_live(journal):
        steps, orders, difference, left_out, stretches = replay_live(journal)
    else:
        from cohabit.app.serve.journals import replay_journal

        simulated = replay_journal(journal)
        steps, orders, difference, left_out = simulated.steps, simulated.orders, simulated.difference, 0
        if simulated.domains:
            among = {"domains": list(simulated.domains), "messages": simulated.messages}
    show_replayed(steps, orders, difference, left_out, as_json, among, stretches)
    if verify and difference:
        raise typer.Exit(1)


def show_replayed(
    steps: int,
    orders: int,
    difference: str,
    left_out: int,
    as_json: bool,
    among: dict[str, Any] | None = None,
    stretches: int = 1,
) -> None:
    """Print how a replay went; `among`: the domains, and the messages they have heard of each other."""
    skipped = f" in {stretches} stretches, each under its own settings" if stretches > 1 else ""
    skipped += f", {left_out:,} events left out" if left_out else ""
    if among is not None:
        skipped += f", {among['messages']:,} messages between {', '.join(among['domains'])}"
    text = f"{steps:,} steps, {orders:,} orders{skipped}: {f'DIFFERENT {difference}' if difference else 'identical'}"
    facts = {"identical": not difference, "difference": difference or None, "left_out": left_out}
    facts["stretches"] = stretches
    show_result({"steps": steps, "orders": orders, **facts, **(among or {})}, as_json, text)
