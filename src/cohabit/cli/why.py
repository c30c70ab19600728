"""`cohabit why`: what a job was waiting for, and for how long, in a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(name="why", epilog="Example:\n\n  cohabit why 4711 --run DIR")(why)


def why(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Job id as in jobs.csv.")],
    run: Annotated[Path, typer.Option(metavar="DIR", help="Folder written by simulate --out.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Explain a delay: every reason the job waited, with numbers, from submission to start."""
    from cohabit.app.explaining import explain_job
    from cohabit.cli.console import progress, show_json

    with progress("replaying up to the job's start") as advance:
        story = explain_job(run, job, advance)
    if as_json:
        show_json(story)
        return
    typer.echo(story["summary"])
    for entry in story["reasons"]:
        typer.echo(f"  {entry['at_s']:>14,.0f} s  {entry['reason']}")
    if story["overtaken_by"]:
        typer.echo(f"  {story['overtaken_by']:,} job(s) submitted later started before it")
