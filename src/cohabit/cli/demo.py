"""`cohabit demo`: a tour in about a minute, with real programs on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cohabit.cli.console import note, progress, show_json, table, table_of
from cohabit.cli.declaring import Option, verb
from cohabit.cli.options import AsJson

if TYPE_CHECKING:
    from cohabit.app.simulate.demonstrating import Interference, Measured
    from cohabit.model.records import RunTable
    from cohabit.report.intervals import Comparison

POLICIES = ("cohabit", "cs", "ce")  # the others are measured against the first
WORDS = {
    "cohabit": "spread, share, divide caches, promise",
    "cs": "blind: side by side by free cores",
    "ce": "exclusive: one job per node",
}
REPEATS = 10
KERNELS = "COHABIT_KERNELS"


@verb("demo", "A tour in about a minute.", "cohabit demo --out out/demo", "cohabit demo --simulated")
def demo(
    out: Annotated[Path, Option(metavar="DIR", help="File to write report.html to.")] = Path("out/demo"),
    simulated: Annotated[bool, Option("--simulated", help="Only the simulated part.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure how programs slow each other here, run them under three policies, then do so on a simulated cluster."""
    with _nothing_to_compile():
        from cohabit.app.simulate import outputs

        outputs.check_folder(out)
        document: dict[str, Any] = {}
        measured = None
        if not simulated:
            measured = _real(out, as_json)
            document["real"] = None if measured is None else measured.document()
        document["simulated"], last = _cluster(out / "cluster" if measured else out, as_json)
    if as_json:
        show_json(document)
        return
    typer.echo(f"\nopen {out / 'report.html'} to look at it; then run your own programs, or replay your own log:")
    if find_spec("polars") is None:  # `make demo` has installed what the demo needs
        typer.echo("  make setup; . .venv/bin/activate                        (first: the rest of the packages)")
    typer.echo("  cohabit up                                              (elsewhere: cohabit submit -- COMMAND)")
    typer.echo("  cohabit simulate YOUR.swf --backfill easy --out run1    (Slurm: cohabit import sacct ...)\n")
    if measured is not None:
        typer.echo(f"On two cores of this machine. {measured.conclusion()}")
    typer.echo(last)


@contextmanager
def _nothing_to_compile() -> Iterator[None]:
    """Run kernels as plain Python (cohabit/compiled.py), unless this process has them compiled.

    Small queues need no more, and nothing is compiled while programs are measured.
    """
    before = os.environ.get(KERNELS)
    os.environ[KERNELS] = "plain"
    try:
        yield
    finally:
        if before is None:
            del os.environ[KERNELS]
        else:
            os.environ[KERNELS] = before


def _real(out: Path, as_json: bool) -> Measured | None:
    """Run real programs on two cores; None if there are fewer."""
    from cohabit.app.measure.measuring import busy_load
    from cohabit.app.simulate import comparison, demonstrating
    from cohabit.report.html import INTERVAL_SEED, write_report
    from cohabit.report.summary_file import write_summary

    say = (lambda words: None) if as_json else note
    if not demonstrating.can_demonstrate():
        say("one core is too few to run programs beside each other: only the simulated part follows")
        return None
    if (load := busy_load()) is not None:
        say(f"this machine is busy (other work keeps {load:.1f} cores busy): every time below will be noisy")
    with demonstrating.two_cores():
        say(f"measuring {len(demonstrating.KINDS)} programs alone and beside each other, about 15 s ...")
        programs = demonstrating.commands()
        with progress("measuring") as advance:
            interference = demonstrating.measure_pairs(programs, out, advance)
        if not as_json:
            _show_interference(interference)
        jobs, turns = sum(demonstrating.COPIES.values()) + 1, demonstrating.TURNS
        say(f"running the same {jobs} jobs under three policies, {turns} times in turn, about 50 s ...")
        with progress("running") as advance:
            measured = demonstrating.schedule(programs, interference, say, advance)
    if not as_json:
        _show(measured)
    runs, title = measured.in_turns(), "Cohabit demo: real programs on two cores of this machine"
    write_report(runs, out / "report.html", title=title, intervals=comparison.judge(runs, INTERVAL_SEED))
    write_summary(measured.document(), out / "summary.json")
    return measured


def _show_interference(found: Interference) -> None:
    from cohabit.exercise.catalogue import EXERCISES

    kinds = list(found.solo_s)
    rows = []
    for one in kinds:
        slower = (f"{found.slower_pct[one][other]:+.0f} %" for other in kinds)
        rows.append([one, EXERCISES[one].stresses.split(":")[0], f"{found.solo_s[one]:.2f} s", *slower])
    title = "measured here: how much longer beside, on a core each"
    table(title, ["program", "uses", "alone", *kinds], rows)


def _show(measured: Measured) -> None:
    words = {
        "exclusive": "one job at a time",
        "blind": "side by side by free cores",
        "cohabit": "side by side, with a promised start",
    }
    records = []
    for policy in measured.runs:
        found = measured.figures(policy)
        times, waits = found["makespans_s"], found["wide_waits_s"]
        records.append(
            {
                "policy": policy,
                "": words[policy],
                "all done after": f"{found['makespan_s']:.1f} s",
                "fastest, slowest": f"{min(times):.1f} to {max(times):.1f} s",
                "mean turnaround": f"{found['mean_turnaround_s']:.1f} s",
                "the wide job waits": f"{min(waits):.1f} to {max(waits):.1f} s",
            }
        )
    jobs = len(next(iter(measured.runs.values()))[0])
    table_of(f"the same {jobs} real jobs on two cores, median of {len(times)} turns", records)


def _cluster(out: Path, as_json: bool) -> tuple[dict[str, Any], str]:
    """Simulate the bundled cluster under the same three ways; return the results, and what they say."""
    from importlib.resources import as_file, files

    from cohabit.app.scenario.reading import read_scenario
    from cohabit.app.simulate import comparison
    from cohabit.report.html import write_report
    from cohabit.report.summary_file import write_summary

    with as_file(files("cohabit.app") / "demo.toml") as path:
        scenario = read_scenario(path)
    if not as_json:
        note(f"a simulated cluster of large nodes under {len(POLICIES)} policies, {REPEATS} times over, about 10 s ...")
    runs: list[RunTable] = []
    with progress("simulating") as advance:
        comparison.compare(scenario, POLICIES, REPEATS, progress=advance, finished=runs)
    judged = comparison.judge(runs, scenario.seed)
    out.mkdir(parents=True, exist_ok=True)
    write_report(runs, out / "report.html", title="Cohabit demo: one cluster, three policies", intervals=judged)
    document = comparison.as_document(runs, judged, scenario.seed)
    write_summary(document, out / "summary.json")
    if not as_json:
        _show_cluster(runs, judged)
    return document, _said_of_cluster(runs, judged)


def _show_cluster(runs: list[RunTable], judged: Comparison) -> None:
    figures = {"mean_turnaround_s": "mean turnaround", "makespan_s": "all done after", "max_wait_s": "longest wait"}
    records = []
    for policy in POLICIES:
        cells = {head: judged.cells[policy, name].value for name, head in figures.items()}
        shown = {head: f"{one.mean:.0f} s ({one.low:.0f} to {one.high:.0f})" for head, one in cells.items()}
        records.append({"policy": policy, "": WORDS[policy], **shown})
    nodes, jobs = runs[0].cluster_nodes, len(runs[0])
    table_of(f"{jobs} simulated jobs on {nodes} nodes of 28 cores, mean of {REPEATS} and 95 % interval", records)


def _said_of_cluster(runs: list[RunTable], judged: Comparison) -> str:
    """Return by how much the jobs of each other policy turn around later than those of the first, if that is shown."""
    said = []
    for policy in POLICIES[1:]:
        ratio = judged.cells[policy, "mean_turnaround_s"].ratio
        assert ratio.mean is not None
        assert ratio.low is not None
        assert ratio.high is not None
        later, low, high = (100.0 * (one - 1.0) for one in (ratio.mean, ratio.low, ratio.high))
        much = f"{abs(later):.0f} % {'later' if later > 0 else 'sooner'}" if low * high > 0 else "not clearly different"
        said.append(f"{WORDS[policy].split(':')[0]} {much} ({low:+.0f} to {high:+.0f} %)")
    return (
        f"On {runs[0].cluster_nodes} simulated nodes, where programs fight over cache and bandwidth, jobs end on "
        f"average, against {POLICIES[0]}: {', '.join(said)}."
    )
