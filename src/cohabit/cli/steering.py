"""The verbs of a cluster under a resource manager: attach, status, reload, handback, detach.

Slurm and Grid Engine share them; `Steered` has the differences (slurm.py, gridengine.py). Nothing heavy is imported
before a verb runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from cohabit.cli.console import note, show_json, show_result, table
from cohabit.cli.declaring import add_group, verb
from cohabit.cli.interrupts import first_of, stop_on_signals
from cohabit.cli.options import AsRoot, Without, asking, names_of
from cohabit.cli.replay import show_replayed
from cohabit.model.errors import InputError

if TYPE_CHECKING:
    from cohabit.app.serve.separation import Held
    from cohabit.app.steer.site import SteeredSite
    from cohabit.app.steer.switch import Switch
    from cohabit.backend.steered.handback import Handed

WHERE = "Policy, lease and what is steered (docs/slurm.md, docs/gridengine.md)."
SITE = Annotated[Path, typer.Argument(metavar="SITE.toml", help=WHERE)]
JSON = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
VERIFY = Annotated[bool, typer.Option("--verify", help="Only replay the journal: exit 1 if an order differs.")]
ATTACH = """Steer until stopped (Ctrl-C) or switched off (`cohabit {word} detach`).

    Jobs go on when it stops. Held ones wait for it to come back for as long as the lease runs, and then belong to plain
    {title}. A killed one goes on where it was when started again.
    """


class Steered(NamedTuple):
    """One manager, for its users."""

    word: str  # in commands and JSON
    title: str
    about: str
    short: str
    read: Callable[[Path], SteeredSite]
    switch: Callable[[Path], Switch]
    headline: Callable[[dict[str, Any]], str]  # of `status`: what the manager reports of itself
    remarks: Callable[[dict[str, Any]], list[str]]  # what is missing there


def register(app: typer.Typer, steered: Steered, example: str, *more: Callable[..., None]) -> None:
    """Add the verbs of one manager, and those that only it has."""
    title = steered.title

    def call(name: str) -> str:
        return f"cohabit {steered.word} {name} site.toml"

    @verb("attach", "Steer a cluster: decide where and when its held jobs start.", call("attach"))
    def attach(
        site: SITE, verify: VERIFY = False, without: Without = "", as_root: AsRoot = False, as_json: JSON = False
    ) -> None:
        import asyncio
        import logging
        import time

        asked_s = time.time()
        from cohabit.app.steer.rights import give_up_rights

        read = steered.read(site)
        read = replace(read, config=replace(read.config, without=names_of(without)))
        if verify:
            _verify(read, as_json)
            return
        logging.basicConfig(level=logging.WARNING, format="cohabit: %(message)s")
        ended = asyncio.run(_attach(*give_up_rights(read, note, as_root), asked_s))
        if as_json:
            show_json(ended)

    @verb("status", f"{title}'s view, ours, and where they disagree.", call("status"))
    def status(site: SITE, as_json: JSON = False) -> None:
        """Changes nothing. A disagreement that lasts is worth a look; one that goes away was only a moment."""
        import asyncio

        from cohabit.app.steer.status import status as look

        show_result(asyncio.run(look(steered.read(site))), as_json, partial(_show, steered))

    @verb("reload", "Read the site file again: another policy for a running `attach`.", call("reload"))
    def reload(site: SITE, as_json: JSON = False) -> None:
        """All jobs are kept. The file is checked first: a mistake changes nothing.

        Only [policy] and the profiles can change while it steers; for other keys stop `attach` and start it again.
        """
        from cohabit.app.steer.reloading import contents_of
        from cohabit.live.controller.place import is_there

        read = steered.read(site)
        if not is_there(read.socket):
            raise InputError("no controller steers here", str(read.place), f"start one: {call('attach')}")
        with asking(str(read.socket)) as client:
            show_result(client.reload(*contents_of(read)), as_json, _say_reloaded)

    @verb("handback", f"If the lease is over, give held jobs back to plain {title}.", call("handback"))
    def handback(site: SITE, as_json: JSON = False) -> None:
        """For a timer: does nothing while the lease runs. Jobs that run are not touched."""
        import asyncio

        from cohabit.app.steer.switch import give_back

        _say(steered, asyncio.run(give_back(steered.switch(site), only_if_over=True)), as_json)

    @verb("detach", f"The kill switch: everything goes back to plain {title} now.", call("detach"))
    def detach(site: SITE, as_json: JSON = False) -> None:
        """A running `attach` stops steering, no new job is held, held ones are released.

        Jobs that run are not touched.
        """
        import asyncio

        from cohabit.app.steer.switch import detach as switch_off

        _say(steered, asyncio.run(switch_off(steered.switch(site))), as_json)

    attach.__doc__ = ATTACH.format(word=steered.word, title=title)
    about = f"{steered.about} All with --json."
    verbs = (attach, *more, status, reload, handback, detach)
    add_group(app, steered.word, steered.short, about, call(example), verbs=verbs)


def _say_reloaded(found: dict[str, Any]) -> None:
    told = f"; {found['profiles']} profiles told" if found["profiles"] else ""
    for said in found["remarks"]:
        note(said)
    if not found["changed"]:
        typer.echo(f"policy {found['policy']} stays: nothing else in the file has changed{told}")
        return
    same = found["was"] == found["policy"].partition(" ")[0]
    policy = f"other keys of policy {found['policy']}" if same else f"policy {found['was']} -> {found['policy']}"
    typer.echo(f"{policy}: {found['waiting']} waiting and {found['running']} running jobs are kept{told}")


def _show(steered: Steered, found: dict[str, Any]) -> None:
    theirs, ours, left = found[steered.word], found["cohabit"], found["lease_left_s"]
    lease = "there is no lease" if left is None else f"the lease runs {left:g} s" if left else "the lease is over"
    off = "; switched off" if found["switched_off"] else ""
    typer.echo(f"{steered.headline(theirs)}; {lease}{off}")
    typer.echo(f"{steered.title}: {theirs['running']} running, {theirs['held']} held, {theirs['waiting']} waiting")
    age = "" if found["view_age_s"] is None else f" ({found['view_age_s']:g} s ago)"
    under = f", policy {found['policy']}" if found["policy"] else ""
    typer.echo(f"Cohabit{under}{age}: {', '.join(f'{count} {state}' for state, count in ours.items())}")
    if took := found["latency"]:
        parts = {"submit": "a submission is seen", "start": "a start is carried out", "end": "an end is seen"}
        keys = {f"{key}_latency_s": text for key, text in parts.items()}
        said = [f"{text} in {took[key]:g} s" for key, text in keys.items() if key in took]
        typer.echo(f"Latency, mean of the last {took['starts']} starts: {', '.join(said)}")
    for text in [*steered.remarks(theirs), *found["warnings"]]:
        typer.echo(text)
    if found["disagreements"]:
        rows = [[one["job"], one["cohabit"], one[steered.word]] for one in found["disagreements"]]
        table("Disagreements", ["job", "Cohabit", steered.title], rows)


def _say(steered: Steered, handed: Handed | None, as_json: bool) -> None:
    if as_json:
        released, owners = ([], []) if handed is None else (list(handed.released), list(handed.to_owners))
        failed, left = ({}, []) if handed is None else (handed.failed, list(handed.left_held))
        show_json(
            {
                "lease_runs": handed is None,
                "released": released,
                "to_owners": owners,
                "left_held": left,
                "failed": failed,
            }
        )
    elif handed is None:
        typer.echo("the lease has not ended: nothing was done")
    else:
        mates = f"; {len(handed.to_owners)} with mates are held for their owners" if handed.to_owners else ""
        others = f"; {len(handed.left_held)} stay held, as others held them" if handed.left_held else ""
        many = len(handed.released)
        jobs = "1 job was" if many == 1 else f"{many} jobs were"
        typer.echo(f"{jobs} given back to {steered.title}{mates}{others}")
        for name, why in handed.failed.items():
            note(f"job {name} was not: {why}")
    if handed is not None and handed.failed:
        raise typer.Exit(1)


def _verify(site: SteeredSite, as_json: bool) -> None:
    import asyncio

    from cohabit.app.steer.deciding import verify_journal

    result = asyncio.run(verify_journal(site))
    stretches = result.stretches
    show_replayed(result.batches, result.commands, result.difference, result.left_out, as_json, stretches=stretches)
    if result.difference:
        raise typer.Exit(1)


async def _attach(site: SteeredSite, held: Held | None, asked_s: float) -> dict[str, Any]:
    from cohabit.app.steer.service import SwitchedOff
    from cohabit.app.steer.steering import open_service
    from cohabit.backend.launcher_link import LauncherGone

    service = await open_service(site, held, asked_s)
    stop = stop_on_signals()
    try:
        await service.open()
    except SwitchedOff:
        await service.link.close()
        note(f"`cohabit {site.word} detach` was run while it was starting: nothing is steered")
        return {"switched_off": True, "calls": service.backend.manager.made}
    if service.changed is not None:
        note(f"the site file has changed since the last attach: {service.changed}")
    for text in site.warnings(service.around):
        note(text)
    note(f"steering {service.around.what} under {service.words}")
    try:
        await first_of(stop.wait(), service.until_off())
    except LauncherGone as error:  # nothing can be steered any more: shut down cleanly
        await service.close()
        note(f"{error}; start it again; running jobs continue")
        raise typer.Exit(1) from error
    await service.close()
    return {"switched_off": service.switched_off, "calls": service.backend.manager.made}
