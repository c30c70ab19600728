"""`cohabit advise`: advice for a site, from its own logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

EXAMPLES = """\b
Examples:
  cohabit advise coscheduling big.swf small.swf
  cohabit advise coscheduling theta.swf.xz gpu.swf --nodes 4392,24 --vicinity-s 3600 --proportion 0.1
  cohabit advise coscheduling big.csv small.csv --pairing column --days 10 --json"""
SHARING = """\b
Examples:
  sacct -a -X --parsable2 -o JobID,User,JobName,Submit,Start,End,ElapsedRaw,TimelimitRaw,NCPUS,State > log.txt
  cohabit advise sharing log.txt --nodes 64 --cores 32
  cohabit advise sharing jobs.swf --nodes 64 --cores 32 --today cores --days 7 --repeat 10 --json"""


class Topics(TyperGroup):
    """The topics of advice; an unknown topic is refused with one sentence."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command for the first word."""
        from cohabit.model.errors import unknown

        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise unknown("advice on", args[0], list(self.commands))
        return super().resolve_command(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    about = "What a site should do, from its own logs: coscheduling of two machines, or sharing of nodes. With --json."
    topics = typer.Typer(
        cls=Topics, no_args_is_help=True, rich_markup_mode=None, help=about,
        epilog="\b\nExample:\n  cohabit advise sharing log.txt --nodes 64 --cores 32",
    )  # fmt: skip
    topics.command(name="coscheduling", short_help="Which scheme, for two to four machines.", epilog=EXAMPLES)(
        coscheduling
    )
    topics.command(name="sharing", short_help="Whether jobs should share nodes, and what it gains.", epilog=SHARING)(
        sharing
    )
    app.add_typer(topics, name="advise", short_help="What to do, from your own logs.")


def coscheduling(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Two to four logs: SWF or jobs.csv.")],
    nodes: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Machine sizes, in the order of the logs; else their headers.")
    ] = None,
    pairing: Annotated[str, typer.Option(help="Who belongs together: vicinity, proportion or column.")] = "vicinity",
    vicinity_s: Annotated[float, typer.Option(help="vicinity: submitted less than this apart.")] = 120.0,
    proportion: Annotated[
        float | None, typer.Option(help="proportion: share of the jobs; with vicinity at most this share.")
    ] = None,
    days: Annotated[float, typer.Option(help="Length of the part of the logs that is simulated.")] = 5.0,
    order: Annotated[str, typer.Option(help="Queue order on every side.")] = "wfp",
    backfill: Annotated[str, typer.Option(help="Backfilling on every side.")] = "easy",
    seed: Annotated[int, typer.Option(help="For everything random.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Simulate a part of your own logs under every coscheduling scheme and say which to use and what it would cost."""
    from cohabit.app.advise.coscheduling import MOST_SIDES, Question
    from cohabit.app.advise.coscheduling import advise as ask
    from cohabit.app.scenario.policies import build
    from cohabit.app.scenario.reading import CouplingConfig, PolicyConfig
    from cohabit.app.simulate.coupling_scenario import check_pairing
    from cohabit.cli.console import note, progress, show_json
    from cohabit.compiled import is_warm
    from cohabit.model.errors import InputError

    if not 2 <= len(logs) <= MOST_SIDES:
        raise InputError(f"{len(logs)} log{'s' if len(logs) > 1 else ''} cannot be coupled", "", "give two to four")
    if seed < 0:
        raise InputError(f"--seed {seed} is negative", "", "use a number from 0 up")
    coupling = CouplingConfig(pairing=pairing, vicinity_s=vicinity_s, proportion=proportion)
    check_pairing(coupling, "advise")
    build(PolicyConfig(order=order, backfill=backfill))
    question = Question(tuple(logs), _sizes(nodes, len(logs)), coupling, days, order, backfill, seed)
    if not is_warm("moves.enqueue"):
        note("first run of this version: compiling, once (two minutes; COHABIT_KERNELS=plain does without) ...")
    with progress("simulating") as advance:
        document = ask(question, advance)
    if as_json:
        show_json(document)
    else:
        _show(document)


def sharing(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="What sacct wrote (--parsable2), SWF or jobs.csv.")],
    nodes: Annotated[int, typer.Option(help="Nodes of the machine.")],
    cores: Annotated[int, typer.Option(help="Cores of a node.")],
    today: Annotated[str, typer.Option(help="How nodes are given out now: whole or cores.")] = "whole",
    days: Annotated[float, typer.Option(help="Length of each stretch of the log that is simulated.")] = 3.0,
    repeat: Annotated[int, typer.Option(help="Stretches, each with other assumed programs.")] = 5,
    memory_gb: Annotated[float, typer.Option(help="Memory of a node; 0: memory is not looked at.")] = 0.0,
    ways: Annotated[int, typer.Option(help="Ways of the last-level cache.")] = 20,
    bandwidth_gbs: Annotated[float, typer.Option(help="Memory bandwidth of a node; 0: assumed by its cores.")] = 0.0,
    seed: Annotated[int, typer.Option(help="For everything random.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Simulate your own log under today's rule and under policies that share nodes, and say which to use.

    What programs ask of cache and memory is in no log: it is assumed in three ways, and the advice says how much hangs
    on that. Nothing is written and no cluster is asked.
    """
    from cohabit.app.advise.sharing import Question
    from cohabit.app.advise.sharing import advise as ask
    from cohabit.cli.console import note, progress, show_json
    from cohabit.compiled import is_warm
    from cohabit.model.errors import InputError

    if seed < 0:
        raise InputError(f"{seed} is negative", "--seed", "use a number from 0 up")
    question = Question(log, nodes, cores, today, days, repeat, seed, memory_gb, ways, bandwidth_gbs)
    if not is_warm("moves.enqueue"):
        note("first run of this version: compiling, once (two minutes; COHABIT_KERNELS=plain does without) ...")
    with progress("simulating") as advance:
        document = ask(question, advance)
    if as_json:
        show_json(document)
    else:
        _show_sharing(document)


def _show_sharing(document: dict[str, Any]) -> None:
    from cohabit.cli.console import note, table
    from cohabit.report.wording import shown

    for what, count in document["defects"].items():
        note(f"{count:,} {what}")
    rows = []
    for case in document["cases"]:
        change = case["mean_turnaround_change_pct"]
        bounds = "" if change["low"] is None else f" ({change['low']:+.0f} to {change['high']:+.0f})"
        wait, turnaround = (shown("duration", case[name]) for name in ("mean_wait_s", "mean_turnaround_s"))
        row = [case["assumption"], case["policy"], wait, turnaround, f"{change['mean']:+.1f}{bounds}"]
        rows.append([*row, f"{case['node_hours']:,.0f}", f"{case['slowed_pct']:.0f}"])
    heads = ["programs", "policy", "wait", "turnaround", "change %", "node-hours", "slowed %"]
    table(f"{document['jobs_simulated']:,} jobs, mean of {document['repeats']} stretches", heads, rows)
    for sentence in document["words"]:
        typer.echo(sentence)


def _sizes(text: str | None, logs: int) -> tuple[int, ...]:
    from cohabit.model.errors import InputError

    if text is None:
        return ()
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{text!r} is not a list of whole numbers", "--nodes", "write 4392,24") from None
    if len(found) != logs or min(found) < 1:
        raise InputError(f"{text!r} does not give a size to each of {logs} logs", "--nodes", "write 4392,24")
    return found


def _show(document: dict[str, Any]) -> None:
    from cohabit.cli.console import table

    names = list(document["domains"])
    rows = []
    for case in document["cases"]:
        told = case["domains"]
        row = [", ".join(case["schemes"][name] for name in names)]
        for name in names:
            one = told[name]
            row += [f"{one['extra_wait_min']:+.1f}", f"{one['sync_min']:.1f}", f"{one['loss_pct']:.2f}"]
        rows.append(row)
    heads = ["schemes"]
    for name in names:
        heads += [f"{name}: wait (min)", "sync (min)", "loss (%)"]
    table(f"{document['groups']:,} groups in {document['days']:g} days", heads, rows)
    for sentence in document["words"]:
        typer.echo(sentence)
