"""`cohabit doctor` and `cohabit warm-up`: what this host offers and lacks; compile every kernel (make setup does)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.cli.console import note, show_json, table
from cohabit.cli.declaring import Option, verb
from cohabit.cli.options import AsJson, Without, names_of

if TYPE_CHECKING:
    from cohabit.app.doctor.health import Finding

MARKS = {"ok": "ok", "optional": "-", "missing": "MISSING"}


@verb("doctor", "What this host offers, what is missing.", "cohabit doctor --json", "cohabit doctor --site site.toml")
def doctor(
    site: Annotated[
        Path | None, Option("--site", metavar="SITE.toml", help="Site file: what its policy needs, and what exists.")
    ] = None,
    without: Without = "",
    as_json: AsJson = False,
) -> None:
    """Look at Python, libraries, processor, caches, control groups and tools, and say plainly what works here."""
    if site is not None:
        _needs(site, names_of(without), as_json)
        return
    from cohabit.app.doctor.health import examine

    findings = examine()
    missing = [one for one in findings if one.state == "missing"]
    if as_json:
        show_json({"ok": not missing, "findings": [vars(one) for one in findings]})
    else:
        table("", ["what", "", "found"], [[one.what, MARKS[one.state], one.found] for one in findings])
        _advise(findings)
    if missing:
        raise typer.Exit(1)


def _needs(site: Path, without: tuple[str, ...], as_json: bool) -> None:
    """Show the needs of a site's policy; exit with 2 if one that makes it what it is cannot be met."""
    from cohabit.app.doctor.needs import UNMET, as_data
    from cohabit.app.doctor.site_needs import policy_and_needs

    policy, rows = policy_and_needs(site, without)
    unmet = [row for row in rows if row.state == UNMET]
    if as_json:
        show_json({"ok": not unmet, "policy": policy, "needs": as_data(rows)})
    elif not rows:
        typer.echo(f"policy {policy} needs nothing that a site may lack")
    else:
        table(f"policy {policy}", ["needs", "", "found"], [[row.need, row.state, row.found] for row in rows])
        for row in rows:
            if row.remedy:
                typer.echo(f"  {row.need}: {row.without}. To change that: {row.remedy}")
    if unmet:
        raise typer.Exit(2)


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


@verb("warm-up", "Compile everything now, not at the first run.", "cohabit warm-up", "cohabit warm-up --first")
def warm_up(
    first: Annotated[bool, Option("--first", help="Only FCFS with EASY; others on first use.")] = False,
    demo: Annotated[bool, Option("--demo", hidden=True, help="Nothing: what `cohabit demo` needs.")] = False,
    parts: Annotated[str, Option(hidden=True, help="Compile only these parts, in this process.")] = "",
) -> None:
    """Compile the kernels and the built-in orders that change with time, on two cores where there are two."""
    from cohabit.app.doctor import warming

    if parts:
        warming.compile_parts(parts.split(","))
        return
    if demo:
        note("`cohabit demo` needs no compiled kernels")
        return
    note(f"compiling kernels, once ({'half a minute' if first else 'two minutes'}) ...")
    warming.compile_all(warming.FIRST if first else warming.EVERYTHING)
    note("kernels are ready")
