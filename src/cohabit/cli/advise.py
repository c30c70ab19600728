"""`cohabit advise`: what a site should do, from its own logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

EXAMPLES = """\b
Examples:
  cohabit advise coscheduling big.swf small.swf
  cohabit advise coscheduling theta.swf.xz gpu.swf --nodes 4392,24 --vicinity-s 3600 --proportion 0.1
  cohabit advise coscheduling big.csv small.csv --pairing column --days 10 --json"""
TOPICS = ("coscheduling",)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(name="advise", short_help="Which scheme to use, from your own logs.", epilog=EXAMPLES)(advise)


def advise(
    topic: Annotated[str, typer.Argument(metavar="coscheduling", help="What to advise on.")],
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
    from cohabit.app.advising import MOST_SIDES, Question
    from cohabit.app.advising import advise as ask
    from cohabit.app.coupling_scenario import check_pairing
    from cohabit.app.policies import build
    from cohabit.app.scenario import CouplingConfig, PolicyConfig
    from cohabit.cli.console import note, progress, show_json
    from cohabit.compiled import is_warm
    from cohabit.model.errors import InputError
    from cohabit.policy.registry import unknown

    if topic not in TOPICS:
        raise unknown("advice on", topic, TOPICS)
    if not 2 <= len(logs) <= MOST_SIDES:
        raise InputError(f"{len(logs)} log{'s' if len(logs) > 1 else ''} cannot be coupled", "", "give two to four")
    if seed < 0:
        raise InputError(f"--seed {seed} is negative", "", "use a number from 0 up")
    coupling = CouplingConfig(pairing=pairing, vicinity_s=vicinity_s, proportion=proportion)
    check_pairing(coupling, "advise")
    build(PolicyConfig(order=order, backfill=backfill))
    question = Question(tuple(logs), _sizes(nodes, len(logs)), coupling, days, order, backfill, seed)
    if not is_warm("kernels.enqueue"):
        note("first run of this version: compiling, once (about half a minute) ...")
    with progress("simulating") as advance:
        document = ask(question, advance)
    if as_json:
        show_json(document)
    else:
        _show(document)


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
