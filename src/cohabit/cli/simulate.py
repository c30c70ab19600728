"""`cohabit simulate`: replay a trace or a scenario under one policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """\b
Examples:
  cohabit simulate jobs.swf.xz --backfill easy
  cohabit simulate jobs.swf --nodes 512 --order wfp --backfill conservative --out run1
  cohabit simulate scenario.toml --order ./my_order.py --json
  cohabit simulate scenarios/coupled.toml --policy cosched-agree --out run2"""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(name="simulate", short_help="Replay a log under one policy.", epilog=EXAMPLES)(simulate)


def simulate(
    source: Annotated[
        Path, typer.Argument(metavar="TRACE|SCENARIO.toml", help="SWF (plain, .gz, .xz), jobs.csv or TOML.")
    ],
    nodes: Annotated[int | None, typer.Option(help="Machine size; otherwise the trace's header.")] = None,
    cores: Annotated[int | None, typer.Option(help="Cores per node; processors are packed into nodes.")] = None,
    order: Annotated[str | None, typer.Option(help="Queue order by name, or a .py file with scores().")] = None,
    backfill: Annotated[str | None, typer.Option(help="none, easy, conservative, first-fit or a depth.")] = None,
    backfill_order: Annotated[str | None, typer.Option(help="Order in which jobs may overtake.")] = None,
    placement: Annotated[str | None, typer.Option(help="Where jobs go; `cohabit policies` lists them.")] = None,
    policy: Annotated[str | None, typer.Option(help="A bundle by name; see `cohabit policies`.")] = None,
    seed: Annotated[int | None, typer.Option(help="For everything random.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write summary.json, jobs.csv, jobs.parquet, report.html.")
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write summary.json and jobs.csv only.")] = False,
    journal: Annotated[bool, typer.Option("--journal", help="Also write the journal, for `cohabit replay`.")] = False,
    no_kill: Annotated[bool, typer.Option("--no-kill", help="Let jobs run past their requested time.")] = False,
    engine: Annotated[str, typer.Option(help="auto, fast or steps; all give the same schedule.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Replay a log under any mix of order, backfilling and placement, and look at the result."""
    import time

    from cohabit.app.scenario.policies import build
    from cohabit.app.simulate import outputs, simulation
    from cohabit.cli.console import note, progress, show_json
    from cohabit.cli.scenario_options import naming, scenario_for
    from cohabit.model.errors import InputError

    if engine not in ("auto", "fast", "steps"):
        raise InputError(f"--engine {engine!r} is unknown", "", "use auto, fast or steps")
    if out is None and (journal or no_report):
        raise InputError("--journal and --no-report need --out DIR", "", "say where to write")
    if out is not None:
        outputs.check_folder(out)
        outputs.load_writers()
    scenario = scenario_for(
        source, nodes=nodes, cores=cores, order=order, backfill=backfill, backfill_order=backfill_order,
        placement=placement, policy=policy, seed=seed, kill=not no_kill,
    )  # fmt: skip
    if scenario.domain:
        from cohabit.cli.simulate_domains import simulate_domains

        if journal or engine == "fast":
            raise InputError(f"--{'journal' if journal else 'engine fast'} does not go with several domains yet",
                             str(source), "leave it out")  # fmt: skip
        simulate_domains(source, scenario, out, report=not no_report, as_json=as_json)
        return
    with naming(source):
        policies = build(scenario.policy)
    if policies.changing and policies.order.entry is None:
        note(f"order {policies.names['order']} cannot be compiled; it runs as plain Python, several times slower")
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
        summary = outputs.write_run(
            table, lines, out, opened_at, report=not no_report, keep_journal=journal,
            title=f"{source.name}: {table.policy}",
        )  # fmt: skip
    if as_json:
        show_json(summary)
    else:
        _show(table.policy, summary, out, not no_report)


def _show(policy: str, summary: dict, out: Path | None, report: bool) -> None:  # type: ignore[type-arg]
    from cohabit.cli.console import table
    from cohabit.report.wording import GLOSSARY, shown

    names = (
        "mean_wait_s", "max_wait_s", "mean_turnaround_s", "mean_bounded_slowdown", "utilisation", "makespan_s",
        "node_hours",
    )  # fmt: skip
    rows = [
        [GLOSSARY[name].label, shown(GLOSSARY[name].kind, summary["metrics"][name]), GLOSSARY[name].meaning]
        for name in names
    ]
    table(
        f"{policy}: {summary['jobs']:,} jobs, {summary['rejected']:,} rejected", ["metric", "value", "what it is"], rows
    )
    typer.echo(
        f"{summary['jobs']:,} jobs in {summary['wall_s']:.2f} s ({summary['jobs_per_s']:,.0f} jobs/s), "
        f"{summary['rss_mb']:.0f} MB, journal {summary['journal_hash'][:12]}"
    )
    for name, told in summary.get("gates", {}).items():
        typer.echo(f"gate {name}: asked {told.get('asked', 0):,} times, delayed {told.get('delayed', 0):,}"
                   f", gave in at the threshold {told.get('at_threshold', 0):,}")  # fmt: skip
        if told.get("without_data"):
            typer.echo(f"not gated {told['without_data']:,} times, last because {told['why_without_data']}")
    if out is not None:
        files = "summary.json and jobs.csv" if not report else "summary.json, jobs.csv, jobs.parquet and report.html"
        typer.echo(f"wrote {files} to {out}")
