"""`cohabit nodes`: the resources and jobs of each node; draining and resuming nodes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cohabit.cli.server_options import AsJson, Server

EXAMPLES = """\b
Examples:
  cohabit nodes
  cohabit nodes --drain 0     (its jobs go on, no new ones start there)
  cohabit nodes --resume 0"""
MOST_JOBS = 8


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(name="nodes", short_help="Nodes, and who is on them.", epilog=EXAMPLES)(nodes)


def nodes(
    drain: Annotated[list[int] | None, typer.Option(metavar="NODE", help="Start nothing new there; operators.")] = None,
    resume: Annotated[list[int] | None, typer.Option(metavar="NODE", help="Use it again; operators.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List the nodes: how many of their cores are in use, and by which jobs."""
    from cohabit.cli.console import show_json, table
    from cohabit.cli.server_options import asking

    with asking(server) as client:
        for action, chosen in (("drain", drain), ("resume", resume)):
            for number in chosen or []:
                client.act_on_node(number, action)
        found = client.nodes()
    if as_json:
        show_json({"nodes": found})
        return
    extra = [key for key in ("ways", "bandwidth") if any(_use(node, key) for node in found)]
    rows = [[str(node["node"]), node["state"], f"{node['used_cores']} of {node['cores']}",
             *(_use(node, key) for key in extra), jobs_text(node["jobs"])] for node in found]  # fmt: skip
    table("", ["node", "state", "cores in use", *({"ways": "cache ways", "bandwidth": "GB/s"}[key] for key in extra),
               "jobs"], rows)  # fmt: skip


def jobs_text(names: list[str]) -> str:
    """Return job names, shortened to a count if there are many."""
    more = len(names) - MOST_JOBS
    return ", ".join(names[:MOST_JOBS]) + (f" and {more} more" if more > 0 else "")


def _use(node: dict[str, Any], key: str) -> str:
    """Return used of available, if the node has the resource."""
    unit = {"ways": ("used_ways", "ways"), "bandwidth": ("used_bandwidth_gbs", "bandwidth_gbs")}[key]
    used, offered = (node.get(name) for name in unit)
    return "" if offered is None else f"{used or 0:g} of {offered:g}"
