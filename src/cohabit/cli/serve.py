"""`cohabit controller`, `agent` and `peer-key`: serve a site file until stopped, as `up` does; keys for peers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cohabit.cli import node
from cohabit.cli.console import note, show_json
from cohabit.cli.declaring import Argument, Option, add_verb
from cohabit.cli.interrupts import first_of, stop_on_signals
from cohabit.cli.options import AsJson, AsRoot, UntilIdle, Without, names_of

if TYPE_CHECKING:
    from cohabit.app.serve.separation import Held
    from cohabit.app.serve.serving import Service
    from cohabit.app.serve.site_file import Site

LOOK_S = 0.2  # polling period of --until-idle
T = TypeVar("T")


def register(app: typer.Typer) -> None:
    """Add the daemons of a cluster: `controller`, whose earlier name is `serve`, and `agent`; and `peer-key`."""
    examples = ("cohabit controller site.toml", "cohabit controller site.toml --until-idle")
    add_verb(app, serve, "controller", "Serve a site file: the daemon, for a cluster.", *examples)
    short = "The daemon on a node of a cluster (as `node serve`)."
    add_verb(app, node.serve, "agent", short, "cohabit agent /etc/cohabit/site.toml")
    add_verb(app, serve, "serve", "", "cohabit serve site.toml --until-idle", hidden=True)
    add_verb(app, peer_key, "peer-key", "Make a key for two domains to share.", "cohabit peer-key pair.key")


def serve(
    site: Annotated[Path, Argument("SITE.toml", "Nodes, policy, peers, groups and jobs.")],
    until_idle: UntilIdle = False,
    without: Without = "",
    as_root: AsRoot = False,
    log_json: Annotated[bool, Option("--log-json", help="Log lines on stderr as JSON.")] = False,
    as_json: AsJson = False,
) -> None:
    """Serve until stopped (Ctrl-C): jobs survive it, and a killed server goes on where it was when started again.

    Callers reach it over PLACE/cohabit.sock. Jobs of the file are submitted once, by their names. docs/live.md
    describes the file, docs/api.md what callers may ask.
    """
    import asyncio

    load_kernels_late()
    from cohabit.app.doctor.needs import checked
    from cohabit.app.serve.separation import separate
    from cohabit.app.serve.site_file import read_site
    from cohabit.live.api import logs

    read = read_site(site)
    logs.set_up(read.log.level, "json" if log_json else read.log.format)
    read = replace(read, config=checked(read.config, names_of(without), str(site)))
    held = separate(read.config, note, production=True, as_root=as_root)
    standing = asyncio.run(
        serve_until(read, until_idle, partial(_greeting, site=read), partial(_standing, site=read), held)
    )
    if as_json:
        show_json(standing)
    else:
        for name, status in standing["jobs"].items():
            typer.echo(f"{name}: {status}")


def load_kernels_late() -> None:
    """Run kernels as plain Python until machine code pays off; call it before importing anything that has kernels."""
    import os

    os.environ.setdefault("COHABIT_KERNELS", "late")


def peer_key(
    file: Annotated[Path, Argument("FILE", "Where to write it; copy it to the other domain.")],
    as_json: AsJson = False,
) -> None:
    """Write a fresh key that only its owner can read, never over another file."""
    from cohabit.live.peers.keys import write_new_key

    write_new_key(file)
    if as_json:
        show_json({"file": str(file)})
    else:
        note(f"wrote {file}; name it as key of the peer in both site files")


async def serve_until(
    site: Site,
    until_idle: bool,
    greeting: Callable[[Service, int], Iterable[str]],
    result: Callable[[Service], Awaitable[T]],
    held: Held | None = None,
) -> T:
    """Serve until a signal, a failure, or (if asked) until no job waits or runs; return what `result` finds then.

    `greeting` returns the lines to print once callers can connect; its argument is the number of new jobs of the site
    file.
    """
    from cohabit.app.serve.serving import Service
    from cohabit.backend.protocol import BackendError

    service = Service(site.config, held)
    stop = stop_on_signals()
    await service.open()
    if service.parts.changed is not None:
        note(f"the site file has changed since the last start: {service.parts.changed}")
    new = await service.submit_new(site.jobs)
    for text in greeting(service, new):
        note(text)
    idle = [_idle(service)] if until_idle else []
    try:
        await first_of(stop.wait(), service.failed(), *idle)
    except BackendError as error:  # no job can be run any more: shut down cleanly
        await service.close()
        note(f"{error}; start it again; running jobs continue")
        raise typer.Exit(1) from error
    found = await result(service)
    await service.close()
    return found


async def left(service: Service) -> dict[str, Any]:
    """Return the running jobs and the number of waiting ones."""
    from cohabit.live.controller.recovery import active_runs

    def look(core: Any) -> dict[str, Any]:
        running = sorted(name for name, _ in active_runs(core))
        return {"running": running, "waiting": len(core.state.rows) - len(running)}

    return await service.controller.ask(look)


def addresses(service: Service) -> list[str]:
    """Return the addresses for callers."""
    if service.api is None:
        return []
    lines = [f"it listens on {service.api.server.path}"]
    settings = service.config.api
    if service.api.server.port and settings is not None:
        scheme = "http" if settings.certificate is None else "https"
        lines.append(f"and, for callers with a token, on {scheme}://{settings.host}:{service.api.server.port}")
    return lines


async def _idle(service: Service) -> None:
    import asyncio

    while (now := await left(service))["running"] or now["waiting"]:
        await asyncio.sleep(LOOK_S)


def _greeting(service: Service, new: int, site: Site) -> list[str]:
    peers = [f"peers reach domain {service.domain} at {site.config.host}:{service.port}"] if service.port else []
    return [*peers, *addresses(service), f"{new} of {len(site.jobs)} jobs are new; serving from {site.config.place}"]


async def _standing(service: Service, site: Site) -> dict[str, Any]:
    return {"domain": service.domain or None, "jobs": await service.standing(site.jobs)}
