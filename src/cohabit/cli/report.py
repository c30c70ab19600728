"""`cohabit report`: the jobs that ran, their users and their times; as a table, a file, or a page with pictures."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cohabit.cli.server_options import AsJson, Server

if TYPE_CHECKING:
    from cohabit.app.client.client import Client

EXAMPLES = """\b
Examples:
  cohabit report --since 24h
  cohabit report --since 2026-01-01 --format csv -o january.csv
  cohabit report --format sacct -o jobs.txt     (what `cohabit import sacct` reads)
  cohabit report --out week --since 7d          (summary.json, jobs.csv and report.html)"""
FORMS = ("json", "csv", "sacct")
COLUMNS = ["job", "user", "program", "ended as", "cores", "submitted", "waited", "ran", "core-hours"]
SLOWED = ["slowed by", "expected"]


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(name="report", short_help="What ran, for whom and for how long.", epilog=EXAMPLES)(report)


def report(
    since: Annotated[str | None, typer.Option(metavar="WHEN", help="24h (ago), or 2026-01-31T12:00.")] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Likewise; now otherwise.")] = None,
    user: Annotated[str, typer.Option(metavar="NAME", help="Only jobs of this user.")] = "",
    form: Annotated[str | None, typer.Option("--format", metavar="FORM", help="csv, sacct or json.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where that goes.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write summary.json, jobs.csv, report.html.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Account for jobs: who ran what, how long it waited and ran, and how it ended."""
    from cohabit.cli.server_options import asking
    from cohabit.model.errors import InputError

    if form is not None and form not in FORMS:
        from cohabit.model.errors import unknown

        raise unknown("format", form, list(FORMS))
    if as_json and form not in (None, "json"):
        raise InputError(f"--json and --format {form} do not go together", "", "give one of them")
    if out is not None and (form is not None or output is not None):
        raise InputError("--out DIR does not go with --format or -o FILE", "", "give one of them")
    if output is not None and form is None:
        form = "json" if as_json else _form_of(output)
    span = (_when("--since", since), _when("--until", until))
    with asking(server) as client:
        if out is not None:
            _write_page(client, out, span, user, as_json)
        elif form is not None or as_json:
            _pass_on(client.accounting(*span, user, form or "json"), output, as_json)
        else:
            found = json.loads(client.accounting(*span, user, "json"))
            _show(found["jobs"])
            _say_removed(found.get("removed_before"), span[0])


def _say_removed(before: float | None, since: float | None) -> None:
    """Report that requested records are past their retention time."""
    from cohabit.cli.console import note
    from cohabit.cli.job_words import moment

    if before is not None and (since is None or since < before):
        note(f"records of jobs that ended before {moment(before)} were removed by retention ([keep] of the site file)")


def _form_of(file: Path) -> str:
    return {".csv": "csv", ".json": "json"}.get(file.suffix, "sacct")


def _when(option: str, text: str | None) -> float | None:
    """Parse an instant: a time before now, or a date and time, local unless it says otherwise."""
    from datetime import datetime

    from cohabit.cli.server_options import duration_s
    from cohabit.model.errors import InputError

    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        pass
    try:
        return time.time() - duration_s(option, text)
    except InputError:
        raise InputError(f"{text!r} is no point in time", option, "write 24h, 7d or 2026-01-31T12:00") from None


def _pass_on(text: str, output: Path | None, as_json: bool) -> None:
    from cohabit.cli.console import show_json
    from cohabit.whole_files import replacing

    if output is not None:
        with replacing(output) as stream:
            stream.write(text.encode())
        if as_json:
            show_json({"file": str(output)})
        else:
            typer.echo(f"wrote {output}")
    elif as_json:
        show_json(json.loads(text))
    else:
        typer.echo(text, nl=not text.endswith("\n"))


def _write_page(client: Client, out: Path, span: tuple[float | None, float | None], user: str, as_json: bool) -> None:
    from cohabit.app.client.report import allotted_utilisation, run_table, write_live_report
    from cohabit.app.simulate.outputs import check_folder
    from cohabit.cli.console import show_json
    from cohabit.cli.job_words import counted
    from cohabit.model.errors import InputError

    check_folder(out)
    jobs = json.loads(client.accounting(*span, user, "json"))["jobs"]
    if not jobs:
        raise InputError("no jobs have ended in that time", "", "choose an earlier --since")
    nodes = client.nodes()
    table = run_table(jobs, nodes, str(client.ping().get("policy") or "live"))
    seen = client.slowdowns()
    more = {
        "allotted_utilisation": allotted_utilisation(jobs, nodes),
        "slowdown_mean_abs_error": seen["mean_abs_error"],
        "slowdown_points": len(seen["points"]),
    }
    summary = write_live_report(table, out, f"Jobs of {client.address}", more)
    if as_json:
        show_json(summary)
    else:
        typer.echo(f"wrote summary.json, jobs.csv and report.html about {counted(len(table), 'job')} to {out}")


def _show(jobs: list[dict[str, Any]]) -> None:
    from cohabit.cli.console import table
    from cohabit.cli.job_words import counted, moment, outcome, plain, ran_s, shortened, slowdown, span, waited_s

    if not jobs:
        typer.echo("no jobs in that time")
        return
    now = time.time()
    slowed = any(job["actual_slowdown"] is not None or job.get("slowdown_why") for job in jobs)
    rows, core_s, states = [], 0.0, dict[str, int]()
    for job in jobs:
        ran = ran_s(job, now)
        cores = job["cores"] or job["processes"]
        used = (ran or 0.0) * cores
        core_s += used
        states[job["state"]] = states.get(job["state"], 0) + 1
        row = [job["job"], job["user"], shortened(job["program"] or "", 20), outcome(job), str(cores),
               moment(job["submitted_at"], now), span(waited_s(job, now)), span(ran), _core_hours(used)]  # fmt: skip
        rows.append(
            [plain(cell) for cell in row]
            + ([_slowed(job), slowdown(job["predicted_slowdown"])] if slowed else [])
        )
    table("", COLUMNS + (SLOWED if slowed else []), rows)
    told = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))
    typer.echo(f"{counted(len(jobs), 'job')}: {told}; {_core_hours(core_s)} core-hours")


def _slowed(job: dict[str, Any]) -> str:
    from cohabit.cli.job_words import slowdown

    return job.get("slowdown_why") or slowdown(job["actual_slowdown"])


def _core_hours(core_s: float) -> str:
    """Format with two decimals, or as many as a short job needs."""
    hours = core_s / 3600
    if 0 < hours < 0.0001:
        return "<0.0001"
    return f"{hours:,.2f}" if hours >= 0.1 or not hours else f"{hours:.4f}"
