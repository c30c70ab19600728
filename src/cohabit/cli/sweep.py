"""`cohabit sweep`: a grid of settings over all cores."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cohabit.cli.console import SHORT_LABELS, VARIATION, note, progress, show_json, table
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.options import AsJson, scenario_for


@verb(
    "sweep",
    "Every combination of settings, on all cores.",
    "cohabit sweep scenario.toml --vary policy.order=fcfs,sjf,wfp --vary jobs.load=0.7,0.85,1.0 --out grid",
    "cohabit sweep scenario.toml --vary seed=1,2,3 --dask tcp://127.0.0.1:8786",
)
def sweep(
    source: Annotated[Path, Argument("SCENARIO.toml|TRACE", "What to run.")],
    vary: Annotated[list[str], Option(metavar="key=v1,v2,...", help="A setting and its values; may be repeated.")],
    nodes: Annotated[int | None, Option(help="Machine size; otherwise the file's.")] = None,
    workers: Annotated[int | None, Option(help="Number of processes; default: all cores.")] = None,
    dask: Annotated[str | None, Option(metavar="ADDRESS", help="Run on an existing Dask cluster.")] = None,
    out: Annotated[Path | None, Option(metavar="DIR", help="Write sweep.csv and summary.json.")] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate every combination of settings and put the metrics side by side."""
    from cohabit.app.simulate import outputs, sweeping
    from cohabit.report.summary_file import write_summary
    from cohabit.report.tables import write_table
    from cohabit.report.wording import GLOSSARY, shown

    if out is not None:
        outputs.check_folder(out)
    cells = sweeping.grid(scenario_for(source, nodes=nodes), vary)
    finished: list[dict[str, Any]] = []
    stopped = False
    try:
        with progress("sweeping") as advance:
            sweeping.sweep(cells, workers, dask, finished=finished, progress=advance)
    except KeyboardInterrupt:
        stopped = True
        note(f"stopped: {len(finished)} of {len(cells)} cells are finished and kept")
    order = [tuple(cell["settings"].values()) for cell in cells]
    keys = list(cells[0]["settings"])
    finished.sort(key=lambda row: order.index(tuple(row[key] for key in keys)))
    failed = [row for row in finished if "error" in row]
    document = {"cells": finished, "complete": not stopped, "failed": len(failed)}
    if out is not None:
        write_table(finished, out / "sweep.csv")
        write_summary(document, out / "summary.json")
    if as_json:
        show_json(document)
    else:
        varied = [name for name in VARIATION if any(row.get(name) is not None for row in finished)]
        names = ("mean_turnaround_s", "mean_wait_s", "mean_slowdown_alone", "utilisation", "makespan_s", *varied)
        rows = []
        for row in finished:
            values = ["failed"] if "error" in row else [shown(GLOSSARY[name].kind, row[name]) for name in names]
            rows.append([str(row[key]) for key in keys] + values)
        table("", [*keys, *(SHORT_LABELS[name] for name in names)], rows)
        if out is not None:
            typer.echo(f"wrote sweep.csv and summary.json to {out}")
    if stopped:
        sys.exit(130)
    if failed:
        for why in dict.fromkeys(row["error"] for row in failed):
            note(why)
        note(f"{len(failed)} of {len(cells)} cells could not run")
        raise typer.Exit(1)
