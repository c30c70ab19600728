"""`cohabit why`: what a job was waiting for, and for how long, in a finished run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        name="why", short_help="Explain why a job waited.", epilog="\b\nExample:\n  cohabit why 4711 --run DIR"
    )(why)


def why(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Job id as in jobs.csv.")],
    run: Annotated[Path, typer.Option(metavar="DIR", help="Folder written by simulate --out.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Explain a delay: every reason the job waited, with numbers, from submission to start."""
    from cohabit.app.explaining import explain_job
    from cohabit.cli.console import progress, show_json
    from cohabit.report.wording import duration

    with progress("replaying up to the job's start") as advance:
        story = explain_job(run, job, advance)
    if as_json:
        show_json(story)
        return
    typer.echo(story["summary"])
    shown = _condensed(story["reasons"])
    for entry in shown:
        since = entry["at_s"] - story["submit_s"]
        typer.echo(f"  after {duration(since):>9}  {entry['reason']}")
    if len(shown) < len(story["reasons"]):
        more = len(story["reasons"]) - len(shown)
        typer.echo(f"  ({more} more change{'s' if more > 1 else ''} on the way; all of them with --json)")
    if story["overtaken_by"]:
        typer.echo(f"  {story['overtaken_by']:,} submitted later started before it")


def _condensed(reasons: list[dict[str, Any]], most: int = 12) -> list[dict[str, Any]]:
    """The changes that matter: another kind of reason or another place in the queue, at most a dozen of them."""
    kept: list[dict[str, Any]] = []
    for entry in reasons:
        if not kept or _gist(entry["reason"]) != _gist(kept[-1]["reason"]):
            kept.append(entry)
    step = max(1, -(-len(kept) // most))
    return kept[::step]


def _gist(reason: str) -> tuple[str, str]:
    ahead = re.search(r"(\d+) jobs? ahead", reason)
    return reason.split()[0], ahead[1] if ahead else ""
