"""`cohabit up`: a scheduler for this machine, one command and nothing to configure."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cohabit.cli.console import note, show_json
from cohabit.cli.declaring import Option, verb
from cohabit.cli.job_words import counted
from cohabit.cli.options import AsJson, AsRoot, UntilIdle, Without, names_of
from cohabit.cli.serve import addresses, left, load_kernels_late, serve_until

if TYPE_CHECKING:
    from cohabit.app.serve.separation import Held
    from cohabit.app.serve.serving import Service
    from cohabit.app.serve.site_file import Site


@verb(
    "up",
    "Start a scheduler for this machine.",
    "cohabit up",
    "cohabit up --nodes l3 --policy sns",
    "cohabit up --place /tmp/trial --listen 127.0.0.1:7000",
)
def up(
    nodes: Annotated[str | None, Option(metavar="N", help="N nodes; machine: one; l3: one for each L3 cache.")] = None,
    policy: Annotated[str | None, Option(metavar="NAME", help="A name of `cohabit policies`; default cohabit.")] = None,
    listen: Annotated[
        str | None, Option(metavar="HOST:PORT", help="Also listen for remote callers, with tokens.")
    ] = None,
    place: Annotated[
        Path | None, Option(metavar="DIR", help="Its folder; default ~/.local/state/cohabit (root: /var/lib/).")
    ] = None,
    root_jobs: Annotated[bool, Option("--root-jobs", help="Run jobs of root, too (in a new place).")] = False,
    without: Without = "",
    as_root: AsRoot = False,
    until_idle: UntilIdle = False,
    as_json: AsJson = False,
) -> None:
    """Run jobs on this machine until Ctrl-C. Jobs that run go on then, and the next `cohabit up` finds them.

    The first call in a place writes site.toml there, which keeps what was chosen.
    """
    import asyncio
    from dataclasses import replace
    from functools import partial

    load_kernels_late()
    from cohabit.app.client.connection import default_place, home_place
    from cohabit.cli.up_site import site_file
    from cohabit.live.controller.place_moving import move_whole

    chosen, home = Path(default_place()) if place is None else place.expanduser(), Path(home_place())
    if place is None and chosen != home and move_whole(home, chosen):
        note(f"the scheduler's place was moved from {home} to {chosen}, where other accounts reach its socket")
    file = site_file(chosen, nodes, policy, listen, root_jobs)
    if sys.stderr.isatty():
        note(f"starting in {chosen} ...")
    from cohabit.app.doctor.needs import checked
    from cohabit.app.serve.separation import separate
    from cohabit.app.serve.site_file import read_site
    from cohabit.live.api import logs

    site = read_site(file)
    logs.set_up(site.log.level, site.log.format)
    site = replace(site, config=checked(site.config, names_of(without), str(file)))
    held = separate(site.config, note, production=False, as_root=as_root)
    greeting = partial(_greeting, site=site, at_home=place is None, held=held)
    found = asyncio.run(serve_until(site, until_idle, greeting, left, held))
    note(_farewell(found))
    if as_json:
        show_json({"place": str(site.config.place), **found})


def _greeting(service: Service, _new: int, site: Site, at_home: bool, held: Held | None) -> list[str]:
    """Return what was started, where it is, and what to do next."""
    groups = service.parts.cluster.groups
    nodes = ", ".join(f"{counted(one.count, 'node')} of {counted(one.cores, 'core')}" for one in groups)
    server = "" if at_home else f" --server {site.config.place}"
    as_whom = ""
    if held is not None and 0 not in site.config.launcher.uids:
        as_whom = ", as an ordinary user (`cohabit up --root-jobs` in a new place runs jobs of root, too)"
    return [
        f"up: {nodes}, policy {site.config.policy_words}",
        *addresses(service),
        f"now, in another terminal{as_whom}: cohabit submit{server} -- sleep 60",
        f"in a browser: cohabit page{server}",
        "Ctrl-C ends this; running jobs continue, and the next `cohabit up` finds them",
    ]


def _farewell(left: dict[str, Any]) -> str:
    running, waiting = len(left["running"]), left["waiting"]
    if not running and not waiting:
        return "stopped; no jobs are left"
    runs = f"{counted(running, 'job')} still running without the scheduler" if running else "nothing runs"
    waits = f", {counted(waiting, 'job')} left waiting for the next `cohabit up`" if waiting else ""
    return f"stopped; {runs}{waits}"
