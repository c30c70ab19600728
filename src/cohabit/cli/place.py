"""`cohabit place`: which programs share a node, and how its cache is divided."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cohabit.cli.console import note, progress, show_json, table
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
    check_not_both,
    check_seed,
    limits_from,
    mix_from,
)
from cohabit.model.errors import InputError, unknown

if TYPE_CHECKING:
    from cohabit.app.learn.optimising import SearchSettings
    from cohabit.model.mix import Mix
    from cohabit.optimise.ways import Limits


MOST_SWAPS, MOST_RESTARTS = 10**12, 10**4


@verb(
    "place",
    "Choose which programs share a node.",
    "cohabit place mix.json --scheme shepherd",
    "cohabit place mix.json --scheme shepherd --swaps 100000 --restarts 4 --json",
    "cohabit place mix.json --scheme shepherd --ways 12 --inseparable 10-11",
    "cohabit place mix.json --scheme shepherd --ways 20 --min-ways 2 --domains-per-server 2",
    "cohabit place mix.json --scheme baseline --seed 7",
    "cohabit place --programs solver,stream,solver,sort --nodes 2",
)
def place(
    mix: Annotated[Path | None, Argument("MIX.json", "The nodes and the programs' miss curves.")] = None,
    programs: Programs = "",
    store: Store = None,
    nodes: Annotated[int, Option("--nodes", metavar="N", help="With --programs: how many nodes; 2 otherwise.")] = 2,
    scheme: Annotated[str, Option(help="baseline, part-only, place-only, place-only-direct or shepherd.")] = "shepherd",
    seed: Annotated[int, Option(help="Seed of all random numbers.")] = 1,
    swaps: Annotated[int | None, Option(metavar="K", help="Swaps to try; 256 per program otherwise.")] = None,
    budget_s: Annotated[float | None, Option("--budget-s", metavar="T", help="Search for T seconds instead.")] = None,
    restarts: Annotated[int, Option(help="Independent searches of K swaps each; the best counts.")] = 1,
    workers: Annotated[int | None, Option(help="Searches at a time; all cores otherwise.")] = None,
    start: Annotated[str, Option(help="random, or utility: programs that need most cache apart.")] = "random",
    objective: Annotated[str, Option(help="weighted (speedup) or harmonic (mean).")] = "weighted",
    ways: Ways = None,
    min_ways: MinWays = None,
    groups: Groups = None,
    io_ways: IoWays = None,
    inseparable: Inseparable = None,
    domains: Annotated[
        int, Option("--domains-per-server", metavar="D", help="Nodes of the mix that are L3 domains of one server.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Place programs on nodes by one of the schemes of the Shepherd poster, and say how fast each of them runs.

    The same seed and number of swaps give the same placement, whatever the number of cores; a budget in seconds does
    not.
    """
    from cohabit.app.learn import optimising
    from cohabit.trace.mixes import read_mix

    limits = limits_from(ways, min_ways, groups, io_ways, inseparable)
    settings = optimising.SearchSettings(seed, swaps, budget_s, restarts, workers, start, objective, limits)
    _check(scheme, settings)
    _check_limits(scheme, domains, limits)
    known = mix_from(mix, programs, store, nodes, read_mix)
    if not optimising.is_ready():
        note("compiling kernels, once (about a minute) ...")
    optimising.get_ready(limits is not None)
    if not as_json and len(known) * restarts > 1000:
        note(f"placing {len(known):,} programs on {known.nodes:,} nodes ...")
    with progress("placing") as advance:
        found = optimising.place(known, scheme, settings, advance)
    document = optimising.placed_document(found, known, seed, domains)
    if as_json:
        show_json(document)
    else:
        _show(document, known)


def _check(scheme: str, settings: SearchSettings) -> None:
    from cohabit.optimise.schemes import SCHEMES
    from cohabit.optimise.starts import STARTS

    objectives = ("weighted", "harmonic")
    known = (
        ("scheme", scheme, SCHEMES),
        ("start", settings.start, STARTS),
        ("objective", settings.objective, objectives),
    )
    for what, value, names in known:
        if value not in names:
            raise unknown(what, value, names)
    check_seed(settings.seed)
    swaps, budget_s = settings.swaps, settings.budget_s
    check_not_both("--swaps", "--budget-s", swaps is not None and budget_s is not None)
    if swaps is not None and not 0 <= swaps <= MOST_SWAPS:
        raise InputError(f"--swaps {swaps} is out of range", "", f"give a number from 0 to {MOST_SWAPS:,}")
    if budget_s is not None and not 0 < budget_s < 1e9:
        raise InputError(f"--budget-s {budget_s:g} is not a time", "", "give seconds, above 0")
    for name, number in (("--restarts", settings.restarts), ("--workers", settings.workers)):
        if number is not None and not 1 <= number <= MOST_RESTARTS:
            raise InputError(f"{name} {number} is out of range", "", f"give a whole number from 1 to {MOST_RESTARTS:,}")


def _check_limits(scheme: str, domains: int, limits: Limits | None) -> None:
    from cohabit.optimise.schemes import DIVIDING

    if limits is not None and scheme not in DIVIDING:
        what = f"--ways has no effect with --scheme {scheme}, which divides no cache"
        raise InputError(what, "", f"leave it out, or use {' or '.join(DIVIDING)}")
    if domains < 1:
        raise InputError(f"--domains-per-server {domains} is not a positive number", "", "give 2 for two L3 caches")
    if domains > 1 and limits is None:
        raise InputError("--domains-per-server is about lines for whole ways", "", "add --ways W")


def _show(document: dict[str, Any], mix: Mix) -> None:
    by_node: dict[int, list[str]] = {}
    for name, node in document["placement"].items():
        by_node.setdefault(node, []).append(name)
    sizes = document["partition"]
    rows = []
    for node, names in sorted(by_node.items()):
        speed = sum(document["ipc"][name] / document["ipc_alone"][name] for name in names)
        parts = [name if sizes is None else f"{name} {sizes[str(node)][name]:.3g}" for name in names]
        rows.append([str(node), f"{speed:.3f}", f"{100 * document['memory_load'][str(node)]:.0f} %", ", ".join(parts)])
    what = "programs" if sizes is None else "programs and their buckets"
    table(
        f"{len(mix)} programs on {mix.nodes} nodes, scheme {document['scheme']}",
        ["node", "speedup", "memory", what],
        rows,
    )
    _show_groups(document)
    typer.echo(
        f"weighted speedup {document['weighted_speedup']:.4f}, harmonic mean {document['harmonic_speed']:.4f}, slowest "
        f"program at {100 * document['lowest_speed']:.1f} % of its speed alone"
    )
    if document.get("bounds_missed"):
        typer.echo(f"Below the speed they must keep: {', '.join(document['bounds_missed'])}.")
    if document["swaps"]:
        known = 100 * document["memo_hit_rate"]
        typer.echo(
            f"{document['swaps']:,} swaps at {document['swap_us']:.1f} us each, {known:.0f} % of the nodes evaluated "
            f"were known; {document['solve_s']:.2f} s in all"
        )


def _show_groups(document: dict[str, Any]) -> None:
    """Print the lines for the hardware: by server if several nodes make one, else by node."""
    what = "server" if "servers" in document else "node"
    rows = [
        [number, one["schemata"], ", ".join(one["jobs"])]
        for number, groups in document.get("servers", document.get("groups", {})).items()
        for one in groups
    ]
    if rows:
        table("groups, as the kernel takes them", [what, "schemata", "programs"], rows)
