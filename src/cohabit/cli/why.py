"""`cohabit why`: what a job waits for, live or in a finished run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from cohabit.cli.console import progress, show_json
from cohabit.cli.declaring import Option, verb
from cohabit.cli.job_words import moment
from cohabit.cli.options import AsJson, OneJob, Server, asking
from cohabit.model.errors import InputError
from cohabit.model.units import duration, without_durations

MOST_REASONS = 12  # shown of a delay


@verb(
    "why",
    "Explain why a job waits, and how it runs.",
    "cohabit why 12                (a job of the running scheduler)",
    "cohabit why 4711 --run DIR    (a finished run of `cohabit simulate --out DIR`)",
    "cohabit why gpu:17 --run DIR  (a job of domain gpu, in a run of several domains)",
)
def why(
    job: OneJob,
    run: Annotated[Path | None, Option(metavar="DIR", help="Folder written by simulate --out.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Explain a job: every reason it waited, with numbers, and how it runs: scale, shares, neighbours, profile."""
    if run is None:
        _why_live(job, server, as_json)
    elif server is not None:
        raise InputError("--run and --server do not go together", "", "give one of them")
    else:
        _why_in_run(job, run, as_json)


def _why_live(job: str, server: str | None, as_json: bool) -> None:
    """Show what the scheduler says now, and what it said before."""
    with asking(server) as client:
        story = client.why(job)
    if as_json:
        show_json(story)
        return
    short, full = story.get("short", ""), story["why"]  # a server of an earlier version has no short reason
    said = (short or full).removeprefix(f"{story['state']}: ")
    typer.echo(f"job {story['job']} is {story['state']}" + (f": {said}" if said else ""))
    if short and full and short != full:
        typer.echo(f"  in full: {_lines(full, 11)}")
    if story.get("profile") and "its profile: " not in full:
        typer.echo(f"  profile: {story['profile']}")
    reasons = [{"at_s": entry["at"], "reason": entry["why"]} for entry in story["history"]]
    shown = _condensed(reasons)
    for entry in shown:
        typer.echo(f"  {moment(entry['at_s'])}  {entry['reason']}")
    _say_left_out(len(reasons) - len(shown))


def _why_in_run(job: str, run: Path, as_json: bool) -> None:
    from cohabit.app.simulate.explaining import explain_job

    with progress("replaying up to the job's start") as advance:
        story = explain_job(run, job, advance)
    if as_json:
        show_json(story)
        return
    typer.echo(story["summary"])
    kept, said = _condensed(story["reasons"]), list[str]()
    for entry in kept:
        reason = entry["reason"] if entry is kept[-1] else _one_scale(entry["reason"])
        if said[-1:] != [reason]:
            said.append(reason)
            typer.echo(f"  after {duration(entry['at_s'] - story['submit_s']):>11}  {_lines(reason, 21)}")
    _say_left_out(len(story["reasons"]) - len(said))
    if story["how"]:
        typer.echo(f"  it then {story['how']}")
    if story["overtaken_by"]:
        typer.echo(f"  {story['overtaken_by']:,} submitted later started before it")


def _say_left_out(more: int) -> None:
    if more > 0:
        typer.echo(f"  ({more} more change{'s' if more > 1 else ''} in between; --json has all of them)")


def _condensed(reasons: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the relevant changes: another kind of reason or another place in the queue."""
    kept: list[dict[str, Any]] = []
    for entry in reasons:
        if not kept or _gist(entry["reason"]) != _gist(kept[-1]["reason"]):
            kept.append(entry)
    step = max(1, -(-len(kept) // MOST_REASONS))
    return [entry for place, entry in enumerate(kept) if place % step == 0 or entry is kept[-1]]


def _one_scale(reason: str) -> str:
    """Return a reason without the scales after the first."""
    first, *more = re.split(_SCALES, reason)
    return f"{first}; likewise at {len(more)} more scale{'s' if len(more) > 1 else ''}" if more else reason


def _lines(reason: str, indent: int) -> str:
    """Return a reason with each scale on a line of its own."""
    return re.sub(_SCALES, "\n" + " " * indent, reason)


_SCALES = r"; (?=scale \d)"


def _gist(reason: str) -> tuple[str, str, str]:
    ahead = re.search(r"(\d+) jobs? ahead", reason)
    mates = re.search(r"\bmates\b[^:]*: (.*)", reason)
    kind = " ".join(reason.split()[:2])
    return kind, ahead[1] if ahead else "", without_durations(mates[1]) if mates else ""
