"""`cohabit partition`: divide one node's cache between the programs on it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cohabit.cli.console import note, show_json, table
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.options import (
    AsJson,
    Groups,
    Inseparable,
    IoWays,
    MinWays,
    Programs,
    Store,
    Ways,
    limits_from,
    mix_from,
)
from cohabit.model.errors import InputError, unknown

if TYPE_CHECKING:
    from cohabit.model.mix import Mix


@verb(
    "partition",
    "Divide a node's cache between programs.",
    "cohabit partition node.json",
    "cohabit partition node.json --objective min --json",
    "cohabit partition node.json --method clusters --ways 12 --inseparable 10-11",
    "cohabit partition node.json --method clusters --ways 20 --min-ways 2 --groups 3 --domains 0,1",
    "cohabit partition --programs solver,stream",
)
def partition(
    node: Annotated[Path | None, Argument("NODE.json", "The node and its programs' miss curves.")] = None,
    programs: Programs = "",
    store: Store = None,
    method: Annotated[str, Option(help="dp (the best division), equal, or clusters (programs share).")] = "dp",
    objective: Annotated[str, Option(help="weighted (speedup), harmonic (mean) or min (fairness).")] = "weighted",
    ways: Ways = None,
    min_ways: MinWays = None,
    groups: Groups = None,
    io_ways: IoWays = None,
    inseparable: Inseparable = None,
    domains: Annotated[str, Option(metavar="D,...", help="L3 domains of the schemata lines.")] = "0",
    as_json: AsJson = False,
) -> None:
    """Divide the cache of one node: by buckets, or by whole ways as hardware can enforce.

    The IPC of every program is the law's at the sizes found. A program with "alpha" keeps that share of its speed alone
    where any division allows it.
    """
    from cohabit.app.learn.optimising import METHODS, divide_node, get_ready, is_ready, node_document
    from cohabit.optimise.tables import OBJECTIVES
    from cohabit.trace.mixes import read_node

    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if objective not in OBJECTIVES:
        raise unknown("objective", objective, OBJECTIVES)
    limits = limits_from(ways, min_ways, groups, io_ways, inseparable)
    where = _domains(domains)
    mix = mix_from(node, programs, store, 1, read_node)
    if not is_ready():
        note("compiling kernels, once (about a minute) ...")
    get_ready(method == "clusters" or limits is not None)
    found = divide_node(mix, method, objective, limits)
    document = node_document(found, mix, method, objective, where)
    if as_json:
        show_json(document)
    else:
        _show(document, mix)


def _domains(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,6}", part) for part in parts) or len(set(map(int, parts))) < len(parts):
        raise InputError(f"--domains {text!r} is not a list of cache ids", "", "write 0, or 0,1")
    return [int(part) for part in parts]


def _show(document: dict[str, Any], mix: Mix) -> None:
    sizes, rows = document["partition"]["0"], []
    for name in mix.names:
        ipc, alone = document["ipc"][name], document["ipc_alone"][name]
        size = f"{sizes[name]:g}" if isinstance(sizes[name], int) else f"{sizes[name]:.2f}"
        rows.append([name, size, f"{ipc:.3f}", f"{alone:.3f}", f"{100 * ipc / alone:.1f} %"])
    title = f"{len(mix)} programs, {mix.buckets} buckets, method {document['scheme']}"
    table(title, ["program", "buckets", "IPC", "IPC alone", "speed"], rows)
    if "groups" in document:
        groups = [[one["schemata"], str(one["ways"]), ", ".join(one["jobs"])] for one in document["groups"]]
        table("groups, as the kernel takes them", ["schemata", "ways", "programs"], groups)
    if document.get("bounds_missed"):
        typer.echo(f"No division keeps the bounds of {', '.join(document['bounds_missed'])}; this one comes nearest.")
    typer.echo(
        f"weighted speedup {document['weighted_speedup']:.4f}, harmonic mean {document['harmonic_speed']:.4f}, slowest "
        f"{document['lowest_speed']:.4f}; memory is {100 * document['memory_load']['0']:.0f} % busy"
    )
