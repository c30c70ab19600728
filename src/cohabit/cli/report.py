"""`cohabit report`: the jobs that ran, their users and their times; as a table, a file, or a page with pictures."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cohabit.cli.console import note, show_json, show_result, table_of
from cohabit.cli.declaring import Option, verb
from cohabit.cli.job_words import counted, moment, outcome, plain, ran_s, shortened, slowdown, span, waited_s
from cohabit.cli.options import AsJson, Server, asking, instant_s
from cohabit.model.errors import InputError, unknown

if TYPE_CHECKING:
    from cohabit.app.client.client import Client
    from cohabit.report.variation import Variation

FORMS = ("json", "csv", "sacct")


@verb(
    "report",
    "What ran: jobs, users and times.",
    "cohabit report --since 24h",
    "cohabit report --since 2026-01-01 --format csv -o january.csv",
    "cohabit report --format sacct -o jobs.txt     (what `cohabit import sacct` reads)",
    "cohabit report --out week --since 7d          (summary.json, jobs.csv and report.html)",
)
def report(
    since: Annotated[str | None, Option(metavar="WHEN", help="24h (ago), or 2026-01-31T12:00.")] = None,
    until: Annotated[str | None, Option(metavar="WHEN", help="The same; default: now.")] = None,
    user: Annotated[str, Option(metavar="NAME", help="Only jobs of this user.")] = "",
    form: Annotated[str | None, Option("--format", metavar="FORM", help="csv, sacct or json.")] = None,
    output: Annotated[Path | None, Option("-o", "--output", metavar="FILE", help="File to write.")] = None,
    out: Annotated[Path | None, Option(metavar="DIR", help="Write summary.json, jobs.csv, report.html.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Account for jobs: their users and programs, how long they waited and ran, and how they ended."""
    if form is not None and form not in FORMS:
        raise unknown("format", form, list(FORMS))
    if as_json and form not in (None, "json"):
        raise InputError(f"--json and --format {form} do not go together", "", "give one of them")
    if out is not None and (form is not None or output is not None):
        raise InputError("--out DIR does not go with --format or -o FILE", "", "give one of them")
    if output is not None and form is None:
        form = "json" if as_json else _form_of(output)
    span = (instant_s("--since", since), instant_s("--until", until))
    with asking(server) as client:
        if out is not None:
            _write_page(client, out, span, user, as_json)
        elif form is not None or as_json:
            text = client.accounting(*span, user, form or "json")
            _pass_on(_with_programs(text) if form in (None, "json") else text, output, as_json)
        else:
            found = json.loads(client.accounting(*span, user, "json"))
            _show(found["jobs"])
            _show_programs(found["jobs"])
            _show_predicted(found["jobs"])
            _say_removed(found.get("removed_before"), span[0])


def _say_removed(before: float | None, since: float | None) -> None:
    """Report that requested records are past their retention time."""
    if before is not None and (since is None or since < before):
        note(f"records of jobs that ended before {moment(before)} were removed by retention ([keep] of the site file)")


def _form_of(file: Path) -> str:
    return {".csv": "csv", ".json": "json"}.get(file.suffix, "sacct")


def _pass_on(text: str, output: Path | None, as_json: bool) -> None:
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

    check_folder(out)
    jobs = json.loads(client.accounting(*span, user, "json"))["jobs"]
    if not jobs:
        raise InputError("no jobs have ended in that time", "", "choose an earlier --since")
    nodes = client.nodes()
    table = run_table(jobs, nodes, str(client.ping().get("policy") or "live"))
    more = {"allotted_utilisation": allotted_utilisation(jobs, nodes)}
    summary = write_live_report(table, out, f"Jobs of {client.address}", more)
    show_result(
        summary, as_json, f"wrote summary.json, jobs.csv and report.html about {counted(len(table), 'job')} to {out}"
    )


def _show(jobs: list[dict[str, Any]]) -> None:
    if not jobs:
        typer.echo("no jobs in that time")
        return
    now = time.time()
    slowed = any(job["actual_slowdown"] is not None or job.get("slowdown_why") for job in jobs)
    records, core_s, states = [], 0.0, Counter[str]()
    for job in jobs:
        ran, cores = ran_s(job, now), job["cores"] or job["processes"]
        used = (ran or 0.0) * cores
        core_s += used
        states[job["state"]] += 1
        record = {
            "job": job["job"],
            "user": job["user"],
            "program": shortened(job["program"] or "", 20),
            "ended as": outcome(job),
            "cores": str(cores),
            "submitted": moment(job["submitted_at"], now),
            "waited": span(waited_s(job, now)),
            "ran": span(ran),
            "core-hours": _core_hours(used),
        }
        if slowed:
            record["slowed by"] = job.get("slowdown_why") or slowdown(job["actual_slowdown"])
            record["expected"] = slowdown(job["predicted_slowdown"])
        records.append({head: plain(cell) for head, cell in record.items()})
    table_of("", records)
    told = ", ".join(f"{count:,} {state}" for state, count in sorted(states.items()))
    typer.echo(f"{counted(len(jobs), 'job')}: {told}; {_core_hours(core_s)} core-hours")


def _programs(jobs: list[dict[str, Any]]) -> list[Variation]:
    """Return how far the runs of each program vary; a program with fewer than five runs is absent."""
    from cohabit.app.client.report import run_table
    from cohabit.report.variation import by_program

    return by_program(run_table(jobs, [], "live")) if jobs else []


def _slowdowns(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return `slowdowns`: predicted against measured; empty if no job can be compared."""
    from cohabit.app.client.report import run_table
    from cohabit.report.predicted import slowdown_figures

    return slowdown_figures(run_table(jobs, [], "live")) if jobs else {}


def _with_programs(text: str) -> str:
    found = json.loads(text)
    return json.dumps(found | {"programs": _programs(found["jobs"])} | _slowdowns(found["jobs"]))


def _show_programs(jobs: list[dict[str, Any]]) -> None:
    records = [
        {
            "program": shortened(one["program"], 20),
            "cores": str(one["processes"]),
            "runs": f"{one['runs']:,}",
            "mean run": span(one["mean_run_s"]),
            "variation": f"{100 * one['run_variation']:.1f} %",
            "varying runs": str(one["varying_runs"]),
            "longest/mean": f"{one['longest_run_ratio']:.2f}",
        }
        for one in _programs(jobs)
    ]
    if records:
        table_of("", [{head: plain(cell) for head, cell in record.items()} for record in records])


def _show_predicted(jobs: list[dict[str, Any]]) -> None:
    """Show how far predicted slowdowns were right, by program."""
    from cohabit.report.predicted import in_words, percent

    told = _slowdowns(jobs).get("slowdowns")
    if not told:
        return
    records = [
        {
            "program": shortened(one["program"], 20),
            "jobs": f"{one['jobs']:,}",
            "predicted": percent(one["mean_predicted"]),
            "measured": percent(one["mean_measured"]),
            "mean error": f"{100 * one['mean_abs_error']:.1f} points",
        }
        for one in told["programs"]
    ]
    table_of("", [{head: plain(cell) for head, cell in record.items()} for record in records])
    typer.echo(in_words(told))


def _core_hours(core_s: float) -> str:
    """Format with two decimals, or as many as a short job needs."""
    hours = core_s / 3600
    if 0 < hours < 0.0001:
        return "<0.0001"
    return f"{hours:,.2f}" if hours >= 0.1 or not hours else f"{hours:.4f}"
