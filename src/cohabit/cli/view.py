"""`cohabit view`: a finished run in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        name="view", short_help="Open a finished run in the browser.", epilog="\b\nExample:\n  cohabit view DIR"
    )(view)


def view(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder written by simulate or compare.")],
    as_json: Annotated[bool, typer.Option("--json", help="Only say where the report is.")] = False,
) -> None:
    """Open report.html; make it first if the run was written without one."""
    import webbrowser

    from cohabit.cli.console import show_json
    from cohabit.model.errors import InputError

    report = folder / "report.html"
    if not report.is_file():
        if not (folder / "jobs.parquet").is_file():
            raise InputError("has neither report.html nor jobs.parquet", str(folder), "simulate with --out DIR")
        from cohabit.app.journals import load_run
        from cohabit.report.html import write_report

        table = load_run(folder)[1]
        write_report([table], report, title=f"{folder.name}: {table.policy}")
    if as_json:
        show_json({"report": str(report)})
    elif not webbrowser.open(report.resolve().as_uri()):
        typer.echo(f"no browser here; open {report} yourself")
