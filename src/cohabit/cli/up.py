"""`cohabit up`: a scheduler for this machine, one command and nothing to configure."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cohabit.cli.server_options import AsJson

if TYPE_CHECKING:
    from cohabit.app.serving import Service
    from cohabit.app.site_file import Site

EXAMPLES = """\b
Examples:
  cohabit up
  cohabit up --nodes l3 --policy sns
  cohabit up --place /tmp/trial --listen 127.0.0.1:7000"""
LOOK_S = 0.2  # how often --until-idle looks


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(name="up", short_help="Start a scheduler for this machine.", epilog=EXAMPLES)(up)


def up(
    nodes: Annotated[
        str | None, typer.Option(metavar="N", help="The whole machine is one; N: split it; l3: by cache.")
    ] = None,
    policy: Annotated[str | None, typer.Option(metavar="NAME", help="See `cohabit policies`; else cs.")] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Also for callers elsewhere, with tokens.")
    ] = None,
    place: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keeps its jobs; else ~/.local/state/cohabit.")
    ] = None,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Leave when no job waits or runs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run jobs on this machine until Ctrl-C. Jobs that run go on then, and the next `cohabit up` finds them.

    The first call in a place writes site.toml there, which keeps what was chosen.
    """
    import asyncio

    from cohabit.app.client_connection import default_place
    from cohabit.cli.console import note, show_json
    from cohabit.cli.up_site import site_file

    chosen = default_place() if place is None else place.expanduser()
    file = site_file(chosen, nodes, policy, listen)
    if sys.stderr.isatty():
        note(f"starting in {chosen} ...")
    from cohabit.app.site_file import read_site
    from cohabit.live.api import logs

    site = read_site(file)
    logs.set_up(site.log.level, site.log.format)
    left = asyncio.run(_serve(site, until_idle, place is None))
    if as_json:
        show_json(left)


async def _serve(site: Site, until_idle: bool, at_home: bool) -> dict[str, Any]:
    import asyncio
    import signal

    from cohabit.app.serving import Service
    from cohabit.cli.console import note

    service, stop = Service(site.config), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await service.open()
    await service.submit_new(site.jobs)
    for text in _greeting(service, site, at_home):
        note(text)
    ends = [asyncio.create_task(stop.wait()), asyncio.create_task(service.controller.failed())]
    if until_idle:
        ends.append(asyncio.create_task(_idle(service)))
    done, others = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    for task in done:
        task.result()
    left = await _left(service)
    await service.close()
    note(_farewell(left))
    return {"place": str(site.config.place), **left}


def _greeting(service: Service, site: Site, at_home: bool) -> list[str]:
    """What it is, where it is, and what to do next."""
    from cohabit.cli.job_words import counted

    assert service.api is not None and site.config.api is not None
    groups = service.parts.cluster.groups
    nodes = ", ".join(f"{counted(one.count, 'node')} of {counted(one.cores, 'core')}" for one in groups)
    where = service.api.server.path
    call = "cohabit submit -- sleep 60" if at_home else f"cohabit submit --server {site.config.place} -- sleep 60"
    lines = [f"up: {nodes}, policy {site.config.policy.name}", f"it listens on {where}"]
    if service.api.server.port:
        scheme = "http" if site.config.api.certificate is None else "https"
        host = site.config.api.host
        lines.append(f"and, for callers with a token, on {scheme}://{host}:{service.api.server.port}")
    return [
        *lines, f"now, in another terminal: {call}",
        "Ctrl-C ends this; jobs that run go on, and the next `cohabit up` finds them",
    ]  # fmt: skip


async def _left(service: Service) -> dict[str, Any]:
    """What runs and how many wait."""
    from cohabit.live.recovery import active_runs

    def look(core: Any) -> dict[str, Any]:
        running = sorted(name for name, _ in active_runs(core))
        return {"running": running, "waiting": len(core.state.rows) - len(running)}

    return await service.controller.ask(look)


async def _idle(service: Service) -> None:
    import asyncio

    while (left := await _left(service))["running"] or left["waiting"]:
        await asyncio.sleep(LOOK_S)


def _farewell(left: dict[str, Any]) -> str:
    from cohabit.cli.job_words import counted

    running, waiting = len(left["running"]), left["waiting"]
    if not running and not waiting:
        return "stopped; no jobs are left"
    runs = f"{counted(running, 'job')} still running go on by themselves" if running else "nothing runs"
    waits = f", {counted(waiting, 'job')} wait until the next `cohabit up`" if waiting else ""
    return f"stopped; {runs}{waits}"
