"""`cohabit slurm`: steer a cluster under Slurm, watch it without touching it, look at both views, give it back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from cohabit.app.slurm_site import SlurmSite
    from cohabit.backend.slurm.handback import Handed

SITE = Annotated[Path, typer.Argument(metavar="SITE.toml", help="Policy, partitions and lease (docs/slurm.md).")]
JSON = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    example = "\b\nExample:\n  cohabit slurm shadow site.toml"
    about = "Decide for a Slurm cluster, or only watch it; Slurm keeps accounts, launching and limits. All with --json."
    slurm = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=about, epilog=example)
    for name, verb, short in (
        ("attach", attach, "Steer a cluster: decide where and when its held jobs start."),
        ("shadow", shadow, "Watch without touching anything, then say what the policy would have done."),
        ("status", status, "Slurm's view, ours, and where they disagree."),
        ("handback", handback, "If the lease is over, give held jobs back to plain Slurm."),
        ("detach", detach, "The kill switch: everything goes back to plain Slurm now."),
    ):
        example = f"\b\nExample:\n  cohabit slurm {name} site.toml"
        slurm.command(name=name, short_help=short, epilog=example)(verb)
    app.add_typer(slurm, name="slurm", short_help="On top of Slurm: attach, shadow, status, detach.")


def attach(
    site: SITE,
    verify: Annotated[
        bool, typer.Option("--verify", help="Only replay the journal: exit 1 if an order differs.")
    ] = False,
    as_json: JSON = False,
) -> None:
    """Steer until stopped (Ctrl-C) or switched off (`cohabit slurm detach`).

    Jobs go on when it stops. Held ones wait for it to come back for as long as the lease runs, and then belong to plain
    Slurm. A killed one goes on where it was when started again.
    """
    import asyncio
    import logging

    from cohabit.app.slurm_site import read_slurm_site
    from cohabit.cli.console import show_json

    read = read_slurm_site(site)
    if verify:
        _verify(read, as_json)
        return
    logging.basicConfig(level=logging.WARNING, format="cohabit: %(message)s")
    ended = asyncio.run(_attach(read))
    if as_json:
        show_json(ended)


def shadow(
    site: SITE,
    how_long: Annotated[str, typer.Option("--for", help="How long to watch, such as 90s, 2h or 3d.")] = "1h",
    slower_pct: Annotated[
        float, typer.Option("--slower", help="Pessimistic case: jobs that share are so much slower (percent).")
    ] = 10.0,
    as_json: JSON = False,
) -> None:
    """Issues no command that could change anything. Ctrl-C ends it early; the next run adds to what was seen.

    The answer is a simulation of the policy with the jobs and run times Slurm saw.
    """
    import asyncio

    from cohabit.app.slurm_site import read_slurm_site
    from cohabit.cli.console import show_json, table
    from cohabit.model.errors import InputError
    from cohabit.model.units import SECOND, parse_duration

    try:
        length_s = parse_duration(how_long) / SECOND
    except ValueError as error:
        raise InputError(str(error), "--for") from None
    if not 0 <= slower_pct <= 1000:
        raise InputError(f"{slower_pct:g} %", "--slower", "give a number from 0 to 1000")
    found = asyncio.run(_shadow(read_slurm_site(site), length_s, slower_pct / 100))
    if as_json:
        show_json(found)
        return
    cases = {"Slurm": "slurm", found["policy"]: "policy", f"{found['policy']}, pessimistic": "policy_pessimistic"}
    rows = [[title, *(f"{value:,.2f}" for value in found[case].values())] for title, case in cases.items()]
    table(f"{found['jobs']} jobs in {found['hours']:g} h", ["", "mean wait s", "mean turnaround s", "node-hours"], rows)
    for case, one in found["difference"].items():
        wait = one["wait_s"]
        bounds = "" if wait["low"] is None else f" (95 %: {wait['low']:+.1f} to {wait['high']:+.1f} s)"
        typer.echo(f"{case.replace('_', ', ')}: wait {wait['mean']:+.1f} s against Slurm{bounds}")
    typer.echo(
        f"{found['would_share']} jobs would have shared nodes (pessimistic: each {found['slower_pct']:g} % slower); "
        f"{found['left_to_slurm']} would have been left to Slurm; {found['still_going']} were not over"
    )


def status(site: SITE, as_json: JSON = False) -> None:
    """Changes nothing. A disagreement that lasts is worth a look; one that goes away was only a moment."""
    import asyncio

    from cohabit.app.slurm import status as look
    from cohabit.app.slurm_site import read_slurm_site
    from cohabit.cli.console import show_json, table

    found = asyncio.run(look(read_slurm_site(site)))
    if as_json:
        show_json(found)
        return
    theirs, ours = found["slurm"], found["cohabit"]
    left = found["lease_left_s"]
    lease = "there is no lease" if left is None else f"the lease runs {left:g} s" if left else "the lease is over"
    off = "; switched off" if found["switched_off"] else ""
    typer.echo(f"Slurm {theirs['version']}, {theirs['nodes']} nodes of {', '.join(theirs['partitions'])}; {lease}{off}")
    typer.echo(f"Slurm: {theirs['running']} running, {theirs['held']} held, {theirs['waiting']} waiting")
    age = "" if found["view_age_s"] is None else f" ({found['view_age_s']:g} s ago)"
    typer.echo(f"Cohabit{age}: {', '.join(f'{count} {state}' for state, count in ours.items())}")
    if found["disagreements"]:
        rows = [[one["job"], one["cohabit"], one["slurm"]] for one in found["disagreements"]]
        table("Disagreements", ["job", "Cohabit", "Slurm"], rows)


def handback(site: SITE, as_json: JSON = False) -> None:
    """For a timer: does nothing while the lease runs. Jobs that run are not touched."""
    import asyncio

    from cohabit.app.slurm import give_back
    from cohabit.app.slurm_site import read_slurm_site

    _say(asyncio.run(give_back(read_slurm_site(site), only_if_over=True)), as_json)


def detach(site: SITE, as_json: JSON = False) -> None:
    """A running `attach` stops steering, no new job is held, held ones are released. Jobs that run are not touched."""
    import asyncio

    from cohabit.app.slurm import detach as switch_off
    from cohabit.app.slurm_site import read_slurm_site

    _say(asyncio.run(switch_off(read_slurm_site(site))), as_json)


def _say(handed: Handed | None, as_json: bool) -> None:
    from cohabit.cli.console import note, show_json

    if as_json:
        failed = {} if handed is None else handed.failed
        released = [] if handed is None else list(handed.released)
        show_json({"lease_runs": handed is None, "released": released, "failed": failed})
    elif handed is None:
        typer.echo("the lease runs: nothing was done")
    else:
        typer.echo(f"{len(handed.released)} jobs were given back to Slurm")
        for name, why in handed.failed.items():
            note(f"job {name} was not: {why}")
    if handed is not None and handed.failed:
        raise typer.Exit(1)


def _verify(site: SlurmSite, as_json: bool) -> None:
    import asyncio

    from cohabit.app.slurm import verify_slurm_journal
    from cohabit.cli.console import show_json

    result = asyncio.run(verify_slurm_journal(site))
    if as_json:
        show_json({"steps": result.batches, "orders": result.commands, "identical": not result.difference,
                   "difference": result.difference or None})  # fmt: skip
    else:
        word = f"DIFFERENT {result.difference}" if result.difference else "identical"
        typer.echo(f"{result.batches:,} steps, {result.commands:,} orders: {word}")
    if result.difference:
        raise typer.Exit(1)


async def _shadow(site: SlurmSite, length_s: float, slower: float) -> dict[str, Any]:
    import asyncio
    import signal
    import time

    from cohabit.app.slurm import look_around
    from cohabit.app.slurm_shadow import judge, watch
    from cohabit.backend.slurm.calls import ReadOnly
    from cohabit.cli.console import note

    ended, stop = time.monotonic() + length_s, asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    seen = await watch(site, lambda: stop.is_set() or time.monotonic() > ended, note)
    return judge(site, await look_around(site, ReadOnly(site.slurm.conf)), seen, slower)


async def _attach(site: SlurmSite) -> dict[str, Any]:
    import asyncio
    import signal

    from cohabit.app.slurm import open_service
    from cohabit.cli.console import note

    service, stop = await open_service(site), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await service.open()
    found = service.found
    note(f"steering {len(found.names)} nodes of {', '.join(found.terms.partitions)} under {site.policy.name}")
    ends = [asyncio.create_task(stop.wait()), asyncio.create_task(service.until_off())]
    done, waiting = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    for task in done:
        task.result()
    await service.close()
    return {"switched_off": service.switched_off, "calls": service.backend.calls.made}
