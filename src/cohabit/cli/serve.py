"""`cohabit controller`: run real jobs on this machine, together with those of other domains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from cohabit.app.serving import Service
    from cohabit.app.site_file import Site

LOOK_S = 0.2  # how often --until-idle looks


def serve(
    site: Annotated[Path, typer.Argument(metavar="SITE.toml", help="Nodes, policy, peers, groups and jobs.")],
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Leave when all its jobs have ended.")] = False,
    log_json: Annotated[bool, typer.Option("--log-json", help="Log lines on stderr as JSON.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Serve until stopped (Ctrl-C): jobs survive it, and a killed server goes on where it was when started again.

    Callers reach it over PLACE/cohabit.sock. Jobs of the file are submitted once, by their names. docs/live.md
    describes the file, docs/api.md what callers may ask.
    """
    import asyncio

    from cohabit.app.site_file import read_site
    from cohabit.cli.console import note, show_json
    from cohabit.live.api import logs

    read = read_site(site)
    logs.set_up(read.log.level, "json" if log_json else read.log.format)
    standing = asyncio.run(_serve(read, until_idle, note))
    if as_json:
        show_json(standing)
    else:
        for name, status in standing["jobs"].items():
            typer.echo(f"{name}: {status}")


def peer_key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it; copy it to the other domain.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Write a fresh key that only its owner can read, never over another file."""
    from cohabit.cli.console import note, show_json
    from cohabit.live.peer_keys import write_new_key

    write_new_key(file)
    if as_json:
        show_json({"file": str(file)})
    else:
        note(f"wrote {file}; name it as key of the peer in both site files")


async def _serve(site: Site, until_idle: bool, note: Any) -> dict[str, Any]:
    import asyncio
    import signal

    from cohabit.app.serving import Service

    service, stop = Service(site.config), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await service.open()
    if service.port:
        note(f"peers reach domain {service.domain} at {site.config.host}:{service.port}")
    if service.api is not None:
        note(f"callers reach it at {service.api.server.path}")
        if service.api.server.port:
            assert site.config.api is not None
            note(f"and with tokens at {site.config.api.host}:{service.api.server.port}")
    new = await service.submit_new(site.jobs)
    note(f"{new} of {len(site.jobs)} jobs are new; serving from {site.config.place}")
    ends = [asyncio.create_task(stop.wait()), asyncio.create_task(service.controller.failed())]
    if until_idle:
        ends.append(asyncio.create_task(_idle(service, site)))
    done, waiting = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    for task in done:
        task.result()
    standing = {"domain": service.domain or None, "jobs": await service.standing(site.jobs)}
    await service.close()
    return standing


async def _idle(service: Service, site: Site) -> None:
    import asyncio

    while any(status in ("queued", "running") for status in (await service.standing(site.jobs)).values()):
        await asyncio.sleep(LOOK_S)
