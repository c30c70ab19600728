"""`cohabit doctor`: what this host offers, and what is missing for which feature."""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        name="doctor",
        short_help="What this host offers, what is missing.",
        epilog="\b\nExample:\n  cohabit doctor --json",
    )(doctor)


def doctor(as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False) -> None:
    """Look at Python, libraries, caches, cores and memory, and say plainly what works here."""
    from cohabit.app.health import examine
    from cohabit.cli.console import show_json, table

    findings = examine()
    if as_json:
        show_json({"ok": all(f.state != "missing" for f in findings), "findings": [vars(f) for f in findings]})
    else:
        table("", ["what", "state", "found", "what to do"], [[f.what, f.state, f.found, f.advice] for f in findings])
    if any(f.state == "missing" for f in findings):
        raise typer.Exit(1)
