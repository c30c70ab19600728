"""`cohabit simulate` for a scenario of several domains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from cohabit.app.scenario.reading import Scenario

SHOWN = ("mean_wait_s", "mean_slowdown", "utilisation", "mates_total", "mean_sync_s", "held_node_hours", "held_share")


def simulate_domains(source: Path, scenario: Scenario, out: Path | None, *, report: bool, as_json: bool) -> None:
    """Run all domains side by side and show or write the results."""
    import time

    from cohabit.app.simulate.coupling import prepare_domains, run_domains
    from cohabit.app.simulate.coupling_results import document, write_run
    from cohabit.cli.console import note, progress, show_json
    from cohabit.cli.scenario_options import naming

    opened_at = time.perf_counter()
    with naming(source):
        prepared = prepare_domains(scenario)
    for text in prepared.notes:
        note(text)
    with progress("simulating") as advance:
        run = run_domains(prepared, record_nodes=out is not None and report, progress=advance)
    if out is None:
        summary = document(run, scenario, opened_at)
    else:
        title = f"{source.name}: {len(run.tables)} domains"
        summary = write_run(run, scenario, out, opened_at, report=report, title=title)
    if as_json:
        show_json(summary)
        return
    _show(summary)
    if out is not None:
        files = "summary.json, jobs.csv, jobs.parquet and report.html" if report else "summary.json and jobs.csv"
        typer.echo(f"wrote {files} to {out}")


def _show(summary: dict[str, Any]) -> None:
    from cohabit.cli.console import table
    from cohabit.report.mates import MATES_GLOSSARY
    from cohabit.report.wording import GLOSSARY, shown

    known = GLOSSARY | MATES_GLOSSARY
    rows = [
        [known[key].label, *(shown(known[key].kind, one[key]) for one in summary["domains"].values())] for key in SHOWN
    ]
    table(f"{summary['jobs']:,} jobs in {len(summary['domains'])} domains", ["metric", *summary["domains"]], rows)
    told = summary["coupling"]
    if told["groups"]:
        apart = f", at most {shown('duration', told['max_apart_s'])} apart" if told["max_apart_s"] else ""
        typer.echo(f"{told['groups']:,} groups, {told['groups_together']:,} started at the same instant{apart}")
    if told["deadlock"]:
        typer.echo(f"deadlock: {' waits for '.join(told['deadlock'])}")
    typer.echo(f"{summary['jobs']:,} jobs in {summary['wall_s']:.2f} s, {told['messages']:,} messages, "
               f"{summary['rss_mb']:.0f} MB")  # fmt: skip
