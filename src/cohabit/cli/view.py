"""`cohabit view`: finished runs in the browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cohabit.cli.console import note, show_json
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.page import open_privately
from cohabit.model.errors import InputError


@verb(
    "view",
    "Look at finished runs in the browser.",
    "cohabit view run1",
    "cohabit view run1 run2          (side by side)",
    "cohabit view comparison         (the report of `cohabit compare --out comparison`)",
    "cohabit view run1 --report      (the report alone, which needs no server)",
)
def view(
    folders: Annotated[list[Path], Argument("DIR...", "Written by simulate or compare --out.")],
    report: Annotated[bool, Option("--report", help="Open report.html instead of the page.")] = False,
    port: Annotated[int, Option(metavar="N", min=0, max=65535, help="Port on loopback; default: any free one.")] = 0,
    no_open: Annotated[bool, Option("--no-open", help="Only print the link.")] = False,
    as_json: Annotated[bool, Option("--json", help="Only print the path of the report.")] = False,
) -> None:
    """Serve the page over finished runs on this machine until Ctrl-C; it is read-only."""
    pages = [folder for folder in folders if (folder / "jobs.parquet").is_file()]
    if as_json or report or (len(folders) == 1 and not pages):
        found = _report_of(folders[0])
        if as_json:
            show_json({"report": str(found)})
        else:
            _open_file(found)
        return
    _serve(folders, port, no_open)


def _report_of(folder: Path) -> Path:
    """Return report.html; create it first if the run was written without one."""
    report = folder / "report.html"
    if not report.is_file():
        if not (folder / "jobs.parquet").is_file():
            raise InputError("has neither report.html nor jobs.parquet", str(folder), "simulate with --out DIR")
        _write_report(folder, report)
    return report


def _write_report(folder: Path, path: Path) -> None:
    from cohabit.app.simulate.finished import load_run

    run = load_run(folder)
    if run.coupled is None:
        from cohabit.report.html import write_report

        write_report([run.table], path, title=f"{folder.name}: {run.table.policy}")
        return
    from cohabit.report.coupled import write_coupled_report

    try:
        coupling = json.loads((folder / "summary.json").read_text())["coupling"]
    except (OSError, ValueError, KeyError) as error:
        raise InputError("has no summary.json of its run", str(folder), "simulate again with --out DIR") from error
    tables = {name: one.table for name, one in run.domains.items()}
    write_coupled_report(tables, coupling, path, f"{folder.name}: {len(tables)} domains")


def _open_file(report: Path) -> None:
    import webbrowser

    if not webbrowser.open(report.resolve().as_uri()):
        typer.echo(f"no browser here; open {report} yourself")


def _serve(folders: list[Path], port: int, no_open: bool) -> None:
    from cohabit.app.view.run import FinishedRun
    from cohabit.app.view.server import Viewer, listen, serve

    viewer = Viewer([FinishedRun(folder) for folder in folders])
    listener = listen(port)
    link = f"http://127.0.0.1:{listener.getsockname()[1]}/#key={viewer.key}"
    typer.echo(link)
    if no_open or not open_privately(link):
        note("open this link in a browser of this machine")
    note("Ctrl-C ends this")
    serve(viewer, listener)
