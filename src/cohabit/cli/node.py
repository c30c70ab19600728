"""`cohabit node`: the daemon on a node of a cluster under Slurm or Grid Engine, and what it knows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cohabit.cli.console import note, show_json, table_of
from cohabit.cli.declaring import add_group, verb
from cohabit.cli.steering import JSON

FOLDER = Annotated[Path, typer.Option(metavar="DIR", help="Where prolog and epilog tell of jobs; as in those scripts.")]
NAME = Annotated[str, typer.Option(help="What the manager calls this node; otherwise its host name.")]
USUAL = Path("/run/cohabit/node")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    about = "On a node of a cluster: cache groups and counters of its jobs (docs/node-side.md). All with --json."
    short = "On a node of a cluster: groups and counters of its jobs."
    add_group(app, "node", short, about, "cohabit node serve site.toml", verbs=(serve, status, key))


@verb("serve", "Keep resctrl groups of the node's jobs and count what they use.", "cohabit node serve")
def serve(
    site: Annotated[
        Path | None,
        typer.Argument(metavar="[SITE.toml]", help="The controller's file: the manager, [node] and [nodes]."),
    ] = None,
    name: NAME = "",
    folder: FOLDER = USUAL,
    store: Annotated[
        str, typer.Option(help="Profiles go there: a file or postgresql://...; otherwise nothing is learned.")
    ] = "",
    orders: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where the controller says how caches are divided; else the file's."),
    ] = None,
    controller: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where the controller hears nodes; else [nodes] of the file.")
    ] = "",
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="This node's key (cohabit node key); else the file's.")
    ] = None,
    manager: Annotated[str, typer.Option(help="Without a site file: slurm or gridengine.")] = "slurm",
    as_json: JSON = False,
) -> None:
    """Serve until stopped (Ctrl-C). Jobs do not notice whether it runs, ends or is killed."""
    import logging
    import signal
    import threading

    from cohabit.app.doctor.site_needs import steered_site
    from cohabit.app.steer.node_agent import NodeDaemon, config_for, own_name
    from cohabit.model.node_report import lacks

    read = None if site is None else steered_site(site)
    config = config_for(read, name or own_name(), folder, store or None, orders, controller, key, manager)
    logging.basicConfig(level=logging.WARNING, format="cohabit: %(message)s")
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    daemon = NodeDaemon(config)
    told = "prolog and epilog tell of jobs in" if config.manager == "slurm" else "jobs are found by shepherds, noted in"
    note(f"serving node {config.name} ({daemon.hardware}); {told} {daemon.place}")
    for words in lacks(daemon.meters):
        note(f"curves of programs cannot be measured whole here: {words}; `cohabit doctor` says what would change that")
    if config.controller is not None:
        note(f"runs and telemetry are reported to the controller at {config.controller.address}")
    daemon.run(stop.is_set)
    if as_json:
        show_json({"node": config.name, "finished": daemon.finished})


@verb("status", "Which jobs are here, on which cores, in which groups.", "cohabit node status")
def status(name: NAME = "", folder: FOLDER = USUAL, as_json: JSON = False) -> None:
    """Changes nothing."""
    from cohabit.agent.topology import format_cpus
    from cohabit.app.steer.node_agent import own_name, read_status

    found = read_status(folder, name or own_name())
    if as_json:
        show_json(found)
        return
    alive = "serves" if found["alive"] else "is not running"
    typer.echo(f"node {found['node']} ({found['hardware']}): the daemon {alive}; {found['finished']} jobs have ended")
    typer.echo(_reporting(found.get("reports")))
    for words in found.get("lacks", []):
        typer.echo(f"not measured here: {words}")
    for why, count in found.get("discarded", {}).items():
        typer.echo(f"{count} measurement{'' if count == 1 else 's'} discarded: {why}")
    jobs = [
        {
            "job": one["job"],
            "for": f"{one['since_s']:g} s",
            "CPUs": format_cpus(tuple(one["cpus"])) or "not known",
            "told by": one["told_by"],
            "group": one["group"] or "none",
            "stepped to": f"{one['stepped_to']} ways" if one.get("stepped_to") else "",
        }
        for one in found["jobs"]
    ]
    table_of("Jobs on it", jobs)


def _reporting(reports: dict[str, Any] | None) -> str:
    if reports is None:
        return "nothing is reported to a controller"
    text = f"controller {reports['controller']}: "
    if reports["trouble"]:
        waiting = f"{reports['runs_waiting']} runs and {reports['samples_waiting']} samples wait"
        dropped = f", {reports['runs_dropped']} runs were dropped" if reports["runs_dropped"] else ""
        return f"{text}{reports['trouble']}; {waiting}{dropped}"
    last = f", the last {reports['last_s']:g} s ago" if reports["sent"] else ""
    return f"{text}{reports['sent']} reports taken{last}"


@verb("key", "Make the key with which a node's daemon signs its reports.", "cohabit node key n0 --site site.toml")
def key(
    node: Annotated[str, typer.Argument(metavar="NODE", help="What the manager calls the node.")],
    site: Annotated[Path, typer.Option(metavar="SITE.toml", help="The controller's file, with [nodes].")],
    new: Annotated[bool, typer.Option("--new", help="Replace the key the node has.")] = False,
    as_json: JSON = False,
) -> None:
    """Write it into the folder of [nodes] keys, for its owner only; it is not shown. Copy it to the node.

    The controller reads keys when it attaches.
    """
    from cohabit.app.steer.node_channel import keys_of

    file = keys_of(site).make(node, new)
    if as_json:
        show_json({"node": node, "file": str(file)})
        return
    typer.echo(f"{file}: the key of node {node}. Copy it there, for root only, and attach anew")
