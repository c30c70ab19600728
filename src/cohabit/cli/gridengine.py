"""`cohabit gridengine`: steer a cluster under Grid Engine, look at both views, give it back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from cohabit.app.gridengine_site import GridEngineSite
    from cohabit.backend.slurm.handback import Handed

SITE = Annotated[Path, typer.Argument(metavar="SITE.toml", help="Policy, queue and lease (docs/gridengine.md).")]
JSON = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    example = "\b\nExample:\n  cohabit gridengine status site.toml"
    about = "Decide for a Grid Engine cluster; Grid Engine keeps accounts, launching and limits. All with --json."
    verbs = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=about, epilog=example)
    for name, verb, short in (
        ("attach", attach, "Steer a cluster: decide where and when its held jobs start."),
        ("status", status, "Grid Engine's view, ours, and where they disagree."),
        ("handback", handback, "If the lease is over, give held jobs back to plain Grid Engine."),
        ("detach", detach, "The kill switch: everything goes back to plain Grid Engine now."),
    ):
        example = f"\b\nExample:\n  cohabit gridengine {name} site.toml"
        verbs.command(name=name, short_help=short, epilog=example)(verb)
    app.add_typer(verbs, name="gridengine", short_help="On top of Grid Engine: attach, status, detach.")


def attach(
    site: SITE,
    verify: Annotated[
        bool, typer.Option("--verify", help="Only replay the journal: exit 1 if an order differs.")
    ] = False,
    as_json: JSON = False,
) -> None:
    """Steer until stopped (Ctrl-C) or switched off (`cohabit gridengine detach`).

    Jobs go on when it stops. Held ones wait for it to come back for as long as the lease runs, and then belong to plain
    Grid Engine. A killed one goes on where it was when started again.
    """
    import asyncio
    import logging

    from cohabit.app.gridengine_site import read_gridengine_site
    from cohabit.cli.console import show_json

    read = read_gridengine_site(site)
    if verify:
        _verify(read, as_json)
        return
    logging.basicConfig(level=logging.WARNING, format="cohabit: %(message)s")
    ended = asyncio.run(_attach(read))
    if as_json:
        show_json(ended)


def status(site: SITE, as_json: JSON = False) -> None:
    """Changes nothing. A disagreement that lasts is worth a look; one that goes away was only a moment."""
    import asyncio

    from cohabit.app.gridengine import status as look
    from cohabit.app.gridengine_site import read_gridengine_site
    from cohabit.cli.console import show_json, table

    found = asyncio.run(look(read_gridengine_site(site)))
    if as_json:
        show_json(found)
        return
    theirs, ours, left = found["gridengine"], found["cohabit"], found["lease_left_s"]
    lease = "there is no lease" if left is None else f"the lease runs {left:g} s" if left else "the lease is over"
    off = "; switched off" if found["switched_off"] else ""
    typer.echo(f"{theirs['version']}, {theirs['hosts']} hosts of {theirs['queue']}; {lease}{off}")
    typer.echo(f"Grid Engine: {theirs['running']} running, {theirs['held']} held, {theirs['waiting']} waiting")
    age = "" if found["view_age_s"] is None else f" ({found['view_age_s']:g} s ago)"
    typer.echo(f"Cohabit{age}: {', '.join(f'{count} {state}' for state, count in ours.items())}")
    if theirs["exclusive"] is None:
        typer.echo("There is no complex that gives hosts to one job: jobs of Grid Engine's own may come beside ours.")
    if theirs["checkpoint"] is None:
        typer.echo("There is no checkpointing environment of ours: a run that must stop is deleted, not queued again.")
    if found["disagreements"]:
        rows = [[one["job"], one["cohabit"], one["gridengine"]] for one in found["disagreements"]]
        table("Disagreements", ["job", "Cohabit", "Grid Engine"], rows)


def handback(site: SITE, as_json: JSON = False) -> None:
    """For a timer: does nothing while the lease runs. Jobs that run are not touched."""
    import asyncio

    from cohabit.app.gridengine_switch import give_back, read_switch

    _say(asyncio.run(give_back(read_switch(site), only_if_over=True)), as_json)


def detach(site: SITE, as_json: JSON = False) -> None:
    """A running `attach` stops steering, no new job is held, held ones are released. Jobs that run are not touched."""
    import asyncio

    from cohabit.app.gridengine_switch import detach as switch_off
    from cohabit.app.gridengine_switch import read_switch

    _say(asyncio.run(switch_off(read_switch(site))), as_json)


def _say(handed: Handed | None, as_json: bool) -> None:
    from cohabit.cli.console import note, show_json

    if as_json:
        released, owners = ([], []) if handed is None else (list(handed.released), list(handed.to_owners))
        failed = {} if handed is None else handed.failed
        show_json({"lease_runs": handed is None, "released": released, "to_owners": owners, "failed": failed})
    elif handed is None:
        typer.echo("the lease runs: nothing was done")
    else:
        mates = f"; {len(handed.to_owners)} with mates are held for their owners" if handed.to_owners else ""
        typer.echo(f"{len(handed.released)} jobs were given back to Grid Engine{mates}")
        for name, why in handed.failed.items():
            note(f"job {name} was not: {why}")
    if handed is not None and handed.failed:
        raise typer.Exit(1)


def _verify(site: GridEngineSite, as_json: bool) -> None:
    import asyncio

    from cohabit.app.gridengine import verify_gridengine_journal
    from cohabit.cli.console import show_json

    result = asyncio.run(verify_gridengine_journal(site))
    if as_json:
        show_json({"steps": result.batches, "orders": result.commands, "identical": not result.difference,
                   "difference": result.difference or None})  # fmt: skip
    else:
        word = f"DIFFERENT {result.difference}" if result.difference else "identical"
        typer.echo(f"{result.batches:,} steps, {result.commands:,} orders: {word}")
    if result.difference:
        raise typer.Exit(1)


async def _attach(site: GridEngineSite) -> dict[str, Any]:
    import asyncio
    import signal

    from cohabit.app.gridengine import open_service
    from cohabit.cli.console import note

    service, stop = await open_service(site), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await service.open()
    found = service.found
    note(f"steering {len(found.names)} hosts of {site.gridengine.queue} under {site.policy.name}")
    ends = [asyncio.create_task(stop.wait()), asyncio.create_task(service.until_off())]
    done, waiting = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    for task in done:
        task.result()
    await service.close()
    return {"switched_off": service.switched_off, "calls": service.backend.manager.made}
