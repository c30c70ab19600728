"""`cohabit nodes`: the resources and jobs of each node; draining and resuming nodes; closing them for a time."""

from __future__ import annotations

import time
from typing import Annotated, Any

from cohabit.cli.console import show_json, table_of
from cohabit.cli.declaring import Option, verb
from cohabit.cli.job_words import moment
from cohabit.cli.options import AsJson, Server, asking, duration_s
from cohabit.model.errors import InputError

MOST_JOBS = 8


@verb(
    "nodes",
    "Nodes, and the jobs on them.",
    "cohabit nodes",
    "cohabit nodes --drain 0     (its jobs continue, no new ones start there)",
    "cohabit nodes --resume 0",
    "cohabit nodes --reserve cooling --nodes 3-5 --from +2h --for 1h     (no job starts that would run into it)",
    "cohabit nodes --unreserve cooling",
)
def nodes(
    drain: Annotated[list[str] | None, Option(metavar="NODE", help="Start no new jobs there; operators.")] = None,
    resume: Annotated[list[str] | None, Option(metavar="NODE", help="Use this node again; operators.")] = None,
    reserve: Annotated[
        str | None, Option(metavar="NAME", help="Close nodes for a time, under a name; operators.")
    ] = None,
    on: Annotated[str | None, Option("--nodes", metavar="LIST", help="The nodes: 3-5,8.")] = None,
    begin: Annotated[
        str | None, Option("--from", metavar="WHEN", help="+2h, or 2026-01-31T12:00; default: now.")
    ] = None,
    length: Annotated[str | None, Option("--for", metavar="TIME", help="How long: 1h.")] = None,
    unreserve: Annotated[
        str | None, Option(metavar="NAME", help="Delete the window and open its nodes; operators.")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List the nodes: how many of their cores are in use, and by which jobs; and the windows in which some are closed.

    No job starts that would run into a window by its limit; a job that runs already goes on.
    """
    wish = _window(reserve, on, begin, length)
    with asking(server) as client:
        if wish is not None:
            client.reserve(wish)
        if unreserve is not None:
            client.unreserve(unreserve)
        for action, chosen in (("drain", drain), ("resume", resume)):
            for node in chosen or []:
                client.act_on_node(node, action)
        found = client.nodes_and_windows()
    if as_json:
        show_json(found)
        return
    records = [
        {
            "node": called(node),
            "state": node["state"],
            "cores in use": f"{node['used_cores']} of {node['cores']}",
            "cache ways": _use(node, "ways"),
            "GB/s": _use(node, "bandwidth_gbs"),
            "jobs": jobs_text(node["jobs"]),
        }
        for node in found["nodes"]
    ]
    for optional in ("cache ways", "GB/s"):
        if not any(record[optional] for record in records):
            for record in records:
                del record[optional]
    table_of("", records)
    if found["windows"]:
        table_of("", [_window_record(one) for one in found["windows"]])


def _window(name: str | None, nodes: str | None, begin: str | None, length: str | None) -> dict[str, Any] | None:
    """Return the window that the options describe, with instants of our own clock; None: no option does."""
    needed = {"--nodes": nodes, "--for": length}
    if name is None:
        if said := [option for option, text in (needed | {"--from": begin}).items() if text is not None]:
            raise InputError(f"{said[0]} describes a window that has no name", "", "add --reserve NAME")
        return None
    if missing := [option for option, text in needed.items() if text is None]:
        raise InputError(
            f"{missing[0]} is missing", "--reserve", "write --reserve NAME --nodes 3-5 --from +2h --for 1h"
        )
    begin_s = time.time() if begin is None else _when(begin)
    return {"name": name, "nodes": nodes, "begin": begin_s, "end": begin_s + duration_s("--for", str(length))}


def _when(text: str) -> float:
    """Parse an instant: +2h from now, or a date and time, local unless it says otherwise."""
    from datetime import datetime

    try:
        if text.startswith("+"):
            return time.time() + duration_s("--from", text[1:])
        return time.time() if text == "now" else datetime.fromisoformat(text).timestamp()
    except (ValueError, InputError):
        raise InputError(f"{text!r} is not a time", "--from", "write +2h or 2026-01-31T12:00") from None


def _window_record(one: dict[str, Any]) -> dict[str, str]:
    begun = one["begin"] <= time.time()
    return {
        "window": one["name"],
        "closes nodes": one["nodes"],
        "from": "now" if begun else moment(one["begin"]),
        "until": moment(one["end"]),
    }


def called(node: dict[str, Any]) -> str:
    """Return the name of a node; a server of an earlier version reports only its number."""
    return str(node.get("name") or node["node"])


def jobs_text(names: list[str]) -> str:
    """Return job names, shortened to a count if there are many."""
    more = len(names) - MOST_JOBS
    return ", ".join(names[:MOST_JOBS]) + (f" and {more} more" if more > 0 else "")


def _use(node: dict[str, Any], key: str) -> str:
    """Return used of available, if the node has the resource."""
    used, offered = node.get(f"used_{key}"), node.get(key)
    return "" if offered is None else f"{used or 0:g} of {offered:g}"
