"""`cohabit advise`: advice for a site, from its own logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cohabit.cli.console import note, progress, show_result, table, table_of
from cohabit.cli.declaring import Argument, Option, add_group, verb
from cohabit.cli.options import AsJson, announce_compilation, check_seed, whole_numbers
from cohabit.model.errors import InputError, unknown


class Topics(TyperGroup):
    """The topics of advice; an unknown topic is refused with one sentence."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command for the first word."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise unknown("advice on", args[0], list(self.commands))
        return super().resolve_command(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    about = "What a site should do, from its own logs: coscheduling of two machines, or sharing of nodes. With --json."
    example = "cohabit advise sharing log.txt --nodes 64 --cores 32"
    short = "What to do, from your own logs."
    add_group(app, "advise", short, about, example, verbs=(coscheduling, sharing), cls=Topics)


@verb(
    "coscheduling",
    "Which scheme, for two to four machines.",
    "cohabit advise coscheduling big.swf small.swf",
    "cohabit advise coscheduling theta.swf.xz gpu.swf --nodes 4392,24 --vicinity-s 3600 --proportion 0.1",
    "cohabit advise coscheduling big.csv small.csv --pairing column --days 10 --json",
)
def coscheduling(
    logs: Annotated[list[Path], Argument("LOG...", "Two to four logs: SWF or jobs.csv.")],
    nodes: Annotated[
        str | None, Option(metavar="N,N,...", help="Machine sizes, in the order of the logs; else their headers.")
    ] = None,
    pairing: Annotated[str, Option(help="How jobs are paired: vicinity, proportion or column.")] = "vicinity",
    vicinity_s: Annotated[float, Option(help="vicinity: submitted less than this apart.")] = 120.0,
    proportion: Annotated[
        float | None, Option(help="proportion: share of the jobs; with vicinity at most this share.")
    ] = None,
    days: Annotated[float, Option(help="Length of the part of the logs that is simulated.")] = 5.0,
    order: Annotated[str, Option(help="Queue order on every side.")] = "wfp",
    backfill: Annotated[str, Option(help="Backfilling on every side.")] = "easy",
    seed: Annotated[int, Option(help="Seed of all random numbers.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Simulate a part of your own logs under every coscheduling scheme and say which to use and what it would cost."""
    from cohabit.app.advise.coscheduling import MOST_SIDES, Question
    from cohabit.app.advise.coscheduling import advise as ask
    from cohabit.app.scenario.policies import build
    from cohabit.app.scenario.tables import CouplingConfig, PolicyConfig
    from cohabit.app.simulate.coupling_scenario import check_pairing

    if not 2 <= len(logs) <= MOST_SIDES:
        raise InputError(f"{len(logs)} log{'s' if len(logs) > 1 else ''} cannot be coupled", "", "give two to four")
    check_seed(seed)
    sizes = whole_numbers("--nodes", nodes, "4392,24") or []
    if nodes is not None and (len(sizes) != len(logs) or min(sizes) < 1):
        raise InputError(f"{nodes!r} does not give a size to each of {len(logs)} logs", "--nodes", "write 4392,24")
    coupling = CouplingConfig(pairing=pairing, vicinity_s=vicinity_s, proportion=proportion)
    check_pairing(coupling, "advise")
    build(PolicyConfig(order=order, backfill=backfill))
    question = Question(tuple(logs), tuple(sizes), coupling, days, order, backfill, seed)
    _answer(ask, question, as_json, _show)


@verb(
    "sharing",
    "Whether jobs should share nodes, and what it gains.",
    "sacct -a -X --parsable2 -o JobID,User,JobName,Submit,Start,End,ElapsedRaw,TimelimitRaw,NCPUS,State > log.txt",
    "cohabit advise sharing log.txt --nodes 64 --cores 32",
    "cohabit advise sharing jobs.swf --nodes 64 --cores 32 --today cores --days 7 --repeat 10 --json",
)
def sharing(
    log: Annotated[Path, Argument("LOG", "What sacct wrote (--parsable2), SWF or jobs.csv.")],
    nodes: Annotated[int, Option(help="Nodes of the machine.")] = 0,
    cores: Annotated[int, Option(help="Cores of a node.")] = 0,
    site: Annotated[
        Path | None,
        Option(metavar="SITE.toml", help="Instead of --nodes and --cores: a site file (cohabit import slurm-conf)."),
    ] = None,
    today: Annotated[str, Option(help="How nodes are given out now: whole or cores.")] = "whole",
    days: Annotated[float, Option(help="Length of each stretch of the log that is simulated.")] = 3.0,
    repeat: Annotated[int, Option(help="How many stretches, each with other assumed programs.")] = 5,
    memory_gb: Annotated[float, Option(help="Memory of a node; 0: memory is left out.")] = 0.0,
    ways: Annotated[int, Option(help="Ways of the last-level cache.")] = 20,
    bandwidth_gbs: Annotated[float, Option(help="Memory bandwidth of a node; 0: assumed by its cores.")] = 0.0,
    seed: Annotated[int, Option(help="Seed of all random numbers.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Simulate your own log under today's rule and under policies that share nodes, and say which to use.

    First the waits of today's rule are compared with those of the log; if they are far off, no advice is given.

    What programs ask of cache and memory is in no log: it is assumed in three ways, and the advice says what changes
    with that. Nothing is written and no cluster is asked.
    """
    from cohabit.app.advise.sharing import Question
    from cohabit.app.advise.sharing import advise as ask

    check_seed(seed)
    question = Question(log, nodes, cores, today, days, repeat, seed, memory_gb, ways, bandwidth_gbs, site)
    _answer(ask, question, as_json, _show_sharing)


def _answer(
    ask: Callable[[Any, Any], dict[str, Any]], question: Any, as_json: bool, show: Callable[[Any], None]
) -> None:
    announce_compilation(
        "moves.enqueue",
        "first run of this version: compiling, once (two minutes; COHABIT_KERNELS=plain does without) ...",
    )
    with progress("simulating") as advance:
        document = ask(question, advance)
    show_result(document, as_json, show)


def _show_sharing(document: dict[str, Any]) -> None:
    from cohabit.report.wording import shown

    for what, count in document["defects"].items():
        note(f"{count:,} {what}")
    above = document["words_above"]
    for sentence in document["words"][:above]:
        typer.echo(sentence)
    if not document["cases"]:
        return
    rows = []
    for case in document["cases"]:
        change = case["mean_turnaround_change_pct"]
        bounds = "" if change["low"] is None else f" ({change['low']:+.0f} to {change['high']:+.0f})"
        wait, turnaround = (shown("duration", case[name]) for name in ("mean_wait_s", "mean_turnaround_s"))
        row = [case["assumption"], case["policy"], wait, turnaround, f"{change['mean']:+.1f}{bounds}"]
        rows.append([*row, f"{case['node_hours']:,.0f}", f"{case['slowed_pct']:.0f}"])
    heads = ["programs", "policy", "wait", "turnaround", "change %", "node-hours", "slowed %"]
    table(f"{document['jobs_simulated']:,} jobs, mean of {document['repeats']} repeats", heads, rows)
    show_gains(document, "today", str(document["advice"]))
    for sentence in document["words"][above:]:
        typer.echo(sentence)


def show_gains(document: dict[str, Any], before: str, after: str) -> None:
    """Print the tables of which jobs gain and which pay."""
    from cohabit.report.wording import shown

    for key, head in (("by_size", "size of job"), ("by_user", "user")):
        rows = [
            {
                head: one["group"],
                "jobs": f"{one['jobs']:,}",
                f"turnaround {before}": shown("duration", one["before_s"]),
                after: shown("duration", one["after_s"]),
                "change %": f"{one['change_pct']:+.1f}",
            }
            for one in document[key]
        ]
        table_of("", rows)


def _show(document: dict[str, Any]) -> None:
    names = list(document["domains"])
    rows = []
    for case in document["cases"]:
        row = [", ".join(case["schemes"][name] for name in names)]
        for name in names:
            one = case["domains"][name]
            row += [f"{one['extra_wait_min']:+.1f}", f"{one['sync_min']:.1f}", f"{one['loss_pct']:.2f}"]
        rows.append(row)
    heads = ["schemes"]
    for name in names:
        heads += [f"{name}: wait (min)", "sync (min)", "loss (%)"]
    table(f"{document['groups']:,} groups in {document['days']:g} days", heads, rows)
    for sentence in document["words"]:
        typer.echo(sentence)
