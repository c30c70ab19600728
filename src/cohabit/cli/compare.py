"""`cohabit compare`: the same jobs under several policies, with confidence intervals over repeats."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.cli.console import INTERFERENCE, SHORT_LABELS, VARIATION, note, progress, show_json, table
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.options import AsJson, naming, scenario_for

if TYPE_CHECKING:
    from cohabit.model.records import RunTable
    from cohabit.report.intervals import Comparison


@verb(
    "compare",
    "The same jobs under several policies.",
    "cohabit compare scenario.toml --policies ce,ce-easy,sjf+easy --repeat 5 --out comparison",
    "cohabit compare jobs.swf --policies fcfs+easy,wfp+easy,fcfs+conservative",
)
def compare(
    source: Annotated[Path, Argument("SCENARIO.toml|TRACE", "What to run.")],
    policies: Annotated[str, Option(help="Names separated by commas: bundles, or order+backfill.")] = "ce,ce-easy",
    repeat: Annotated[int, Option(help="Repeats with seeds SEED, SEED + 1, ...")] = 1,
    nodes: Annotated[int | None, Option(help="Machine size; otherwise the file's.")] = None,
    cores: Annotated[int | None, Option(help="Cores per node.")] = None,
    seed: Annotated[int | None, Option(help="First seed.")] = None,
    out: Annotated[Path | None, Option(metavar="DIR", help="Write summary.json and report.html.")] = None,
    no_report: Annotated[bool, Option("--no-report", help="Write summary.json only.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run several policies on the same jobs and compare how they serve jobs and users."""
    from cohabit.app.simulate import comparison, outputs
    from cohabit.report.summary_file import write_summary

    if out is not None:
        outputs.check_folder(out)
    scenario = scenario_for(source, nodes=nodes, cores=cores, seed=seed)
    names = [name.strip() for name in policies.split(",") if name.strip()]
    runs: list[RunTable] = []
    stopped = False
    try:
        with naming(source), progress("comparing") as advance:
            comparison.compare(scenario, names, repeat, progress=advance, finished=runs)
    except KeyboardInterrupt:
        stopped = True
        if not runs:
            raise
        note(f"stopped: {len(runs)} of {repeat * len(names)} runs are finished and kept")
    judged = comparison.judge(runs, scenario.seed)
    document = comparison.as_document(runs, judged, scenario.seed) | {"complete": not stopped}
    if out is not None:
        if not no_report:
            from cohabit.report.html import write_report

            write_report(runs, out / "report.html", title=f"{source.name}: {len(names)} policies", intervals=judged)
        write_summary(document, out / "summary.json")
    if as_json:
        show_json(document)
    else:
        show_comparison(runs, judged, repeat)
        say_ungated(runs)
        if out is not None:
            typer.echo(f"wrote {'summary.json' if no_report else 'summary.json and report.html'} to {out}")
    if stopped:
        sys.exit(130)


def show_comparison(runs: list[RunTable], judged: Comparison, repeat: int) -> None:
    """Print the table: one row per policy."""
    from cohabit.report.against_alone import slowed

    policies = list(dict.fromkeys(run.policy for run in runs))
    gated = any(run.gates for run in runs)
    slows = any(slowed(run) for run in runs)
    names = [
        name
        for name in dict.fromkeys(columns(slows, repeat > 1) + (VARIATION if gated else ()))
        if any(judged.cells[policy, name].value.mean is not None for policy in policies)
    ]
    rows = [[policy, *(_cell(judged, policy, name) for name in names)] for policy in policies]
    title = f"{len(runs[0]):,} jobs on {runs[0].cluster_nodes:,} nodes"
    table(
        title + (f": mean of {repeat} and 95 % interval" if repeat > 1 else ""),
        ["policy", *(SHORT_LABELS[name] for name in names)],
        rows,
    )


def columns(slows: bool, with_intervals: bool) -> tuple[str, ...]:
    """Return the metrics of a table: those of interference where jobs slow each other down; fewer beside intervals."""
    names = ["mean_turnaround_s", "mean_wait_s", "p95_wait_s", "mean_slowdown_alone"]
    names += [*INTERFERENCE, "node_hours_occupied", "varying_runs"] if slows else ["utilisation"]
    names += ["makespan_s", "user_max_slowdown_alone"]
    left_out = ("p95_wait_s", "user_max_slowdown_alone") if with_intervals and slows else ()
    return tuple(name for name in names if name not in left_out)


def say_ungated(runs: list[RunTable]) -> None:
    """Say why a gate could not judge, once for each policy: its table then shows nothing of the gate."""
    for policy in dict.fromkeys(run.policy for run in runs):
        first = next(run for run in runs if run.policy == policy)
        for name, told in first.gates.items():
            if told.get("without_data"):
                note(
                    f"{policy}: gate {name} could not judge {told['without_data']:,} of {told['asked']:,} times, "
                    f"last because {told['why_without_data']}"
                )


def _cell(judged: Comparison, policy: str, name: str) -> str:
    from cohabit.report.wording import GLOSSARY, shown, shown_range

    value, kind = judged.cells[policy, name].value, GLOSSARY[name].kind
    text = shown(kind, value.mean)
    if value.repeats > 1 and value.low is not None and value.high is not None:
        text += f"\n{shown_range(kind, value.low, value.high)}"
    return text
