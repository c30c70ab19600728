"""`cohabit demo`: a tour in under two minutes, with real programs on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from cohabit.app.demonstrating import Measured
    from cohabit.model.records import RunTable
    from cohabit.report.intervals import Comparison

POLICIES = ("fcfs+none", "fcfs+easy", "sjf+easy", "wfp+easy", "fcfs+conservative")
EXAMPLES = "\b\nExamples:\n  cohabit demo --out out/demo\n  cohabit demo --simulated"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(name="demo", short_help="A tour in under two minutes.", epilog=EXAMPLES)(demo)


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where report.html goes.")] = Path("out/demo"),
    simulated: Annotated[bool, typer.Option("--simulated", help="Only the part without real programs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Run real programs under three policies and measure them; replay a made-up month under five; draw both."""
    from cohabit.app import outputs, warming
    from cohabit.cli.console import note, show_json

    outputs.check_folder(out)
    if not warming.demo_is_ready():
        note("compiling kernels first, once (two to three minutes): nothing may disturb what is measured ...")
        warming.compile_all(warming.DEMO)
    document: dict[str, Any] = {}
    if not simulated:
        document["real"] = _real(out, as_json)
    document["simulated"] = _month(out / "month" if not simulated else out, as_json)
    if as_json:
        show_json(document)
        return
    typer.echo(f"\nopen {out / 'report.html'} to look at it, then run your own programs, or replay your own log:")
    typer.echo("  cohabit up                                                (elsewhere: cohabit submit -- COMMAND)")
    typer.echo("  cohabit simulate YOUR.swf --backfill easy --out run1      (Slurm: cohabit import sacct ...)")


def _real(out: Path, as_json: bool) -> dict[str, Any]:
    """Real programs on two cores."""
    from cohabit.app.demonstrating import demonstrate
    from cohabit.cli.console import note, progress
    from cohabit.report.html import write_report
    from cohabit.report.summary_file import write_summary

    with progress("measuring pairs") as advance:
        measured = demonstrate(out, (lambda words: None) if as_json else note, advance)
    write_report(measured.runs, out / "report.html", title="Cohabit demo: real programs on two cores of this machine")
    document = measured.document()
    write_summary(document, out / "summary.json")
    if not as_json:
        _show(measured)
    return document


def _show(measured: Measured) -> None:
    from cohabit.cli.console import table

    kinds = list(measured.solo_s)
    beside = [
        [one, f"{measured.solo_s[one]:.2f} s", *(f"{measured.slower_pct[one][other]:+.0f} %" for other in kinds)]
        for one in kinds
    ]
    table("measured: slower beside", ["program", "alone", *kinds], beside)
    rows = []
    for run in measured.runs:
        found = measured.figures(run)
        rows.append([
            run.policy, f"{found['makespan_s']:.1f} s", f"{found['mean_turnaround_s']:.1f} s",
            f"{found['mean_slowdown']:.2f}", f"{found['worst_slowdown']:.2f}",
        ])  # fmt: skip
    titles = ["policy", "all done after", "mean turnaround", "mean slowdown", "worst slowdown"]
    table(f"the same {len(measured.runs[0])} real jobs, one node of two cores", titles, rows)
    typer.echo("exclusive: one job per node; share: by free cores; learned: pairs chosen by what was measured above.")


def _month(out: Path, as_json: bool) -> dict[str, Any]:
    """A bundled workload in the simulator."""
    from importlib.resources import as_file, files

    from cohabit.app import comparison
    from cohabit.app.scenario import read_scenario
    from cohabit.cli.compare import show_comparison
    from cohabit.cli.console import note, progress
    from cohabit.report.html import write_report
    from cohabit.report.summary_file import write_summary

    with as_file(files("cohabit.app") / "demo.toml") as path:
        scenario = read_scenario(path)
    if not as_json:
        note(f"a made-up month of a busy cluster under {len(POLICIES)} policies, three times over ...")
    runs: list[RunTable] = []
    with progress("simulating") as advance:
        comparison.compare(scenario, POLICIES, 3, progress=advance, finished=runs)
    judged = comparison.judge(runs, scenario.seed)
    out.mkdir(parents=True, exist_ok=True)
    write_report(runs, out / "report.html", title="Cohabit demo: one cluster, five policies", intervals=judged)
    document = comparison.as_document(runs, judged, scenario.seed)
    write_summary(document, out / "summary.json")
    if not as_json:
        show_comparison(runs, judged, 3)
        _say_what_happened(judged)
    return document


def _say_what_happened(judged: Comparison) -> None:
    waits = {str(row["policy"]): float(row["mean"] or 0.0) for row in judged.rows() if row["metric"] == "mean_wait_s"}
    (first, slowest), (best, least) = next(iter(waits.items())), min(waits.items(), key=lambda item: item[1])
    if least and slowest:
        typer.echo(
            f"On these jobs {best} cuts the mean wait of {first} from {slowest / 3600:.1f} h to {least / 3600:.1f} h."
        )
