"""`cohabit policies`: every policy name, one line each, with its source."""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        name="policies",
        short_help="List every policy and where it is from.",
        epilog="\b\nExample:\n  cohabit policies --json",
    )(policies)


def policies(as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False) -> None:
    """List orders, kinds of backfilling, placements and bundles."""
    from cohabit.cli.console import show_json, table
    from cohabit.policy.registry import BACKFILLS, BUNDLES, GATES, ORDERS, PARTITIONS, PLACEMENTS

    kinds = {
        "order": {name: (entry.summary, entry.source) for name, entry in ORDERS.items()},
        "backfill": {name: (entry.summary, entry.source) for name, entry in BACKFILLS.items()},
        "placement": {name: (entry.summary, entry.source) for name, entry in PLACEMENTS.items()},
        "partition": {name: (entry.summary, entry.source) for name, entry in PARTITIONS.items()},
        "gate": {name: (entry.summary, entry.source) for name, entry in GATES.items()},
        "policy": {name: (entry.summary, entry.source) for name, (_, entry) in BUNDLES.items()},
    }
    if as_json:
        show_json(
            {
                kind: {name: {"summary": s, "source": f} for name, (s, f) in known.items()}
                for kind, known in kinds.items()
            }
        )
        return
    for kind, known in kinds.items():
        table(f"--{kind}", ["name", "what it does", "from"], [[name, *about] for name, about in known.items()])
