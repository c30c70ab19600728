"""`cohabit simulate`: replay a trace or a scenario under one policy."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cohabit.cli.console import INTERFERENCE, VARIATION, note, progress, show_json, show_result, table
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.options import AsJson, naming, scenario_for
from cohabit.model.errors import InputError

if TYPE_CHECKING:
    from cohabit.app.scenario.tables import Scenario

SHOWN = (
    "mean_turnaround_s", "mean_wait_s", "max_wait_s", "mean_slowdown_alone", "utilisation", "makespan_s",
    "node_hours_occupied",
)  # fmt: skip
SHOWN_OF_DOMAINS = (
    "mean_wait_s", "mean_slowdown", "utilisation", "mates_total", "mean_sync_s", "held_node_hours", "held_share",
)  # fmt: skip


@verb(
    "simulate",
    "Replay a log under one policy.",
    "cohabit simulate jobs.swf.xz --backfill easy",
    "cohabit simulate jobs.swf --nodes 512 --order wfp --backfill conservative --out run1",
    "cohabit simulate scenario.toml --order ./my_order.py --json",
    "cohabit simulate scenarios/coupled.toml --policy cosched-agree --out run2",
)
def simulate(
    source: Annotated[Path, Argument("TRACE|SCENARIO.toml", "SWF (plain, .gz, .xz), jobs.csv or TOML.")],
    nodes: Annotated[int | None, Option(help="Machine size; otherwise the trace's header.")] = None,
    cores: Annotated[int | None, Option(help="Cores per node; processors are packed into nodes.")] = None,
    order: Annotated[str | None, Option(help="Queue order by name, or a .py file with scores().")] = None,
    backfill: Annotated[str | None, Option(help="none, easy, conservative, first-fit or a depth.")] = None,
    backfill_order: Annotated[str | None, Option(help="Order in which jobs may overtake.")] = None,
    placement: Annotated[str | None, Option(help="Placement: see `cohabit policies`.")] = None,
    policy: Annotated[str | None, Option(help="A bundle by name; see `cohabit policies`.")] = None,
    seed: Annotated[int | None, Option(help="Seed of all random numbers.")] = None,
    out: Annotated[
        Path | None, Option(metavar="DIR", help="Write summary.json, jobs.csv, jobs.parquet, report.html.")
    ] = None,
    no_report: Annotated[bool, Option("--no-report", help="Write summary.json and jobs.csv only.")] = False,
    journal: Annotated[bool, Option("--journal", help="Also write the journal, for `cohabit replay`.")] = False,
    no_kill: Annotated[bool, Option("--no-kill", help="Let jobs run past their requested time.")] = False,
    engine: Annotated[str, Option(help="auto, fast or steps; all give the same schedule.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Replay a log under any mix of order, backfilling and placement, and look at the result."""
    from cohabit.app.scenario.policies import build
    from cohabit.app.simulate import outputs, simulation
    from cohabit.compiled import PLAIN

    if engine not in ("auto", "fast", "steps"):
        raise InputError(f"--engine {engine!r} is unknown", "", "use auto, fast or steps")
    if out is None and (journal or no_report):
        raise InputError("--journal and --no-report need --out DIR", "", "say where to write")
    if out is not None:
        outputs.check_folder(out)
        outputs.load_writers()
    scenario = scenario_for(
        source,
        nodes=nodes,
        cores=cores,
        order=order,
        backfill=backfill,
        backfill_order=backfill_order,
        placement=placement,
        policy=policy,
        seed=seed,
        kill=not no_kill,
    )
    if scenario.domain:
        if engine == "fast":
            raise InputError("the fast engine cannot do this: several domains", "--engine", "use auto or steps")
        _simulate_domains(source, scenario, out, not no_report, journal, as_json)
        return
    with naming(source):
        policies = build(scenario.policy)
    if policies.changing and policies.order.entry is None and not PLAIN:
        note(f"order {policies.names['order']} cannot be compiled: numpy scores the queue in each pass, much slower")
    opened_at = time.perf_counter()
    with naming(source):
        prepared = simulation.prepare(scenario, policies=policies)
    for text in prepared.notes:
        note(text)
    wants_nodes = out is not None and (journal or not no_report)
    with progress("simulating") as advance:
        table, lines = simulation.run(prepared, engine=engine, record_nodes=wants_nodes, progress=advance)
    if out is None:
        summary = outputs.document(table, opened_at)
    else:
        title = f"{source.name}: {table.policy}"
        summary = outputs.write_run(
            table, lines, out, opened_at, report=not no_report, keep_journal=journal, title=title
        )
    show_result(summary, as_json, partial(_show, table.policy, out, not no_report, journal))


def _show(policy: str, out: Path | None, report: bool, journal: bool, summary: dict[str, Any]) -> None:
    from cohabit.report.predicted import in_words
    from cohabit.report.wording import GLOSSARY, shown

    metrics = summary["metrics"]
    slows = metrics["run_against_alone"] is not None and abs(metrics["run_against_alone"] - 1.0) > 1e-6
    varied = [name for name in VARIATION if metrics[name] is not None]
    known = [(GLOSSARY[name], metrics[name]) for name in (*SHOWN, *(INTERFERENCE if slows else ()), *varied)]
    rows = [[one.label, shown(one.kind, value), one.meaning] for one, value in known]
    table(
        f"{policy}: {summary['jobs']:,} jobs, {summary['rejected']:,} rejected", ["metric", "value", "what it is"], rows
    )
    typer.echo(
        f"{summary['jobs']:,} jobs in {summary['wall_s']:.2f} s ({summary['jobs_per_s']:,.0f} jobs/s), "
        f"{summary['rss_mb']:.0f} MB, journal {summary['journal_hash'][:12]}"
    )
    if "slowdowns" in summary:
        typer.echo(in_words(summary["slowdowns"]))
    for name, told in summary.get("gates", {}).items():
        typer.echo(
            f"gate {name}: asked {told.get('asked', 0):,} times, delayed {told.get('delayed', 0):,}"
            f", gave in at the threshold {told.get('at_threshold', 0):,}"
        )
        if told.get("without_data"):
            typer.echo(f"not gated {told['without_data']:,} times, last because {told['why_without_data']}")
    _say_written(out, report, journal)


def _say_written(out: Path | None, report: bool, journal: bool) -> None:
    if out is not None:
        files = ["summary.json", "jobs.csv"] + ["jobs.parquet"] * (report or journal)
        files += ["journal.parquet"] * journal + ["report.html"] * report
        typer.echo(f"wrote {', '.join(files[:-1])} and {files[-1]} to {out}")


def _simulate_domains(
    source: Path, scenario: Scenario, out: Path | None, report: bool, journal: bool, as_json: bool
) -> None:
    """Run all domains side by side and show or write the results."""
    from cohabit.app.simulate.coupling import prepare_domains, run_domains
    from cohabit.app.simulate.coupling_results import document, write_run

    opened_at = time.perf_counter()
    with naming(source):
        prepared = prepare_domains(scenario)
    for text in prepared.notes:
        note(text)
    with progress("simulating") as advance:
        wants_nodes = out is not None and (journal or report)
        run = run_domains(prepared, record_nodes=wants_nodes, keep_journals=journal, progress=advance)
    if out is None:
        summary = document(run, scenario, opened_at)
    else:
        title = f"{source.name}: {len(run.tables)} domains"
        summary = write_run(run, scenario, out, opened_at, report=report, title=title)
    if as_json:
        show_json(summary)
        return
    _show_domains(summary)
    _say_written(out, report, journal)


def _show_domains(summary: dict[str, Any]) -> None:
    from cohabit.report.mates import MATES_GLOSSARY
    from cohabit.report.wording import GLOSSARY, shown

    known = GLOSSARY | MATES_GLOSSARY
    rows = [
        [known[key].label, *(shown(known[key].kind, one[key]) for one in summary["domains"].values())]
        for key in SHOWN_OF_DOMAINS
    ]
    table(f"{summary['jobs']:,} jobs in {len(summary['domains'])} domains", ["metric", *summary["domains"]], rows)
    told = summary["coupling"]
    if told["groups"]:
        apart = f", at most {shown('duration', told['max_apart_s'])} apart" if told["max_apart_s"] else ""
        typer.echo(f"{told['groups']:,} groups, {told['groups_together']:,} started at the same instant{apart}")
    if told["deadlock"]:
        typer.echo(f"deadlock: {' waits for '.join(told['deadlock'])}")
    typer.echo(
        f"{summary['jobs']:,} jobs in {summary['wall_s']:.2f} s, {told['messages']:,} messages, "
        f"{summary['rss_mb']:.0f} MB"
    )
