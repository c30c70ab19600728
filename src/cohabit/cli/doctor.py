"""`cohabit doctor`: what this host offers, what is missing for which feature, and the commands to change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cohabit.app.doctor.health import Finding

MARKS = {"ok": "ok", "optional": "-", "missing": "MISSING"}


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        name="doctor",
        short_help="What this host offers, what is missing.",
        epilog="\b\nExample:\n  cohabit doctor --json",
    )(doctor)


def doctor(as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False) -> None:
    """Look at Python, libraries, processor, caches, control groups and tools, and say plainly what works here."""
    from cohabit.app.doctor.health import examine
    from cohabit.cli.console import show_json, table

    findings = examine()
    missing = [one for one in findings if one.state == "missing"]
    if as_json:
        show_json({"ok": not missing, "findings": [vars(one) for one in findings]})
    else:
        table("", ["what", "", "found"], [[one.what, MARKS[one.state], one.found] for one in findings])
        _advise(findings)
    if missing:
        raise typer.Exit(1)


def _advise(findings: list[Finding]) -> None:
    """Print what is missing, its use, and the command."""
    missing = [one for one in findings if one.state == "missing"]
    more = [one for one in findings if one.state == "optional"]
    for title, group in (("Needed, and not here:", missing), ("Not here, and not needed unless you want it:", more)):
        if group:
            typer.echo(title)
        for one in group:
            typer.echo(f"  {one.what}" + (f": {one.advice}" if one.advice else ""))
            if one.command:
                typer.echo(f"      {one.command}")
    typer.echo("" if missing else "Everything that is needed is here.")
