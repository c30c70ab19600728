"""`cohabit demo`: a tour in under two minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

POLICIES = ("fcfs+none", "fcfs+easy", "sjf+easy", "wfp+easy", "fcfs+conservative")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        name="demo", short_help="A tour in under two minutes.", epilog="\b\nExample:\n  cohabit demo --out out/demo"
    )(demo)


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where report.html goes.")] = Path("out/demo"),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Replay a bundled month of a busy cluster under several policies and draw the comparison."""
    from importlib.resources import as_file, files

    from cohabit.app import comparison, outputs
    from cohabit.app.scenario import read_scenario
    from cohabit.cli.compare import show_comparison
    from cohabit.cli.console import note, progress, show_json
    from cohabit.model.records import RunTable
    from cohabit.report.html import write_report
    from cohabit.report.tables import write_summary

    outputs.check_folder(out)
    with as_file(files("cohabit.app") / "demo.toml") as path:
        scenario = read_scenario(path)
    if not as_json:
        note(f"a made-up month of a busy cluster under {len(POLICIES)} policies, three times over ...")
    runs: list[RunTable] = []
    with progress("simulating") as advance:
        comparison.compare(scenario, POLICIES, 3, progress=advance, finished=runs)
    judged = comparison.judge(runs, scenario.seed)
    write_report(runs, out / "report.html", title="Cohabit demo: one cluster, five policies", intervals=judged)
    document = comparison.as_document(runs, judged, scenario.seed)
    write_summary(document, out / "summary.json")
    if as_json:
        show_json(document)
        return
    show_comparison(runs, judged, 3)
    _say_what_happened(judged)
    typer.echo(f"\nopen {out / 'report.html'} to look at it, then try your own log:")
    typer.echo("  cohabit simulate YOUR.swf --backfill easy --out run1      (Slurm: cohabit import sacct ...)")


def _say_what_happened(judged) -> None:  # type: ignore[no-untyped-def]
    waits = {row["policy"]: row["mean"] for row in judged.rows() if row["metric"] == "mean_wait_s"}
    (first, slowest), (best, least) = next(iter(waits.items())), min(waits.items(), key=lambda item: item[1])
    if least and slowest:
        typer.echo(
            f"On these jobs {best} cuts the mean wait of {first} from {slowest / 3600:.1f} h to {least / 3600:.1f} h."
        )
