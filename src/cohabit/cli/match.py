"""`cohabit match`: which jobs should run beside each other, from a matrix of degradations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cohabit.cli.console import note, show_result, table
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.options import AsJson, announce_compilation
from cohabit.model.errors import InputError, unknown


@verb(
    "match",
    "Pair jobs so that they hurt each other least.",
    "cohabit match degradation.csv",
    "cohabit match degradation.csv --method greedy --threshold 50 --json",
    "cohabit match degradation.csv --method saving --durations seconds.csv",
    "cohabit match degradation.csv --group-size 3",
)
def match(
    degradation: Annotated[
        Path, Argument("DEGRADATION.csv", "Percent by which the row's job is slowed beside the column's.")
    ],
    method: Annotated[str, Option(help="optimal, greedy or saving (most seconds gained).")] = "optimal",
    durations: Annotated[Path | None, Option(metavar="FILE", help="Seconds alone: job,seconds or JSON.")] = None,
    threshold: Annotated[
        float | None,
        Option(metavar="PERCENT", help="Jobs of pairs above this percentage run alone; 100, with saving none."),
    ] = None,
    group_size: Annotated[int, Option(metavar="K", help="Jobs together on a node: 2, 3 or 4.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Pair the jobs of a queue by predicted or measured degradation.

    A pair weighs the larger of its two degradations. Optimal has the least total weight over all pairings, greedy takes
    the lightest pair first; pairs above the threshold then run alone. Saving pairs for the most seconds gained against
    one job after the other and leaves apart what gains nothing. In groups of three and four degradations add up.
    """
    from cohabit.app.learn.matching import GROUP_SIZES, METHODS, SAVING, get_ready, match_document
    from cohabit.trace.degradation import read_degradation, read_durations

    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if group_size not in GROUP_SIZES:
        raise InputError(f"--group-size {group_size} is not possible", "", "give 2, 3 or 4")
    if threshold is not None and not threshold >= 0:
        raise InputError(f"--threshold {threshold:g} is not a percentage", "", "give 0 or more")
    if method == SAVING and durations is None:
        raise InputError("--method saving needs the jobs' durations", "", "add --durations FILE")
    matrix = read_degradation(degradation)
    seconds = read_durations(durations, matrix.names) if durations is not None else None
    if matrix.clamped:
        note(f"{matrix.clamped} degradations are below 0 and count as 0")
    announce_compilation("blossom.heaviest", "compiling kernels, once (about a minute) ...")
    get_ready()
    document = match_document(matrix, method, group_size, threshold, seconds)
    show_result(document, as_json, _show)


def _show(document: dict[str, Any]) -> None:
    groups = document.get("groups", document["pairs"])
    rows = [[" + ".join(group[:-1]), f"{group[-1]:.1f} %"] for group in groups]
    rows += [[name, "alone"] for name in document["alone"]]
    table("", ["jobs", "slows by"], rows)
    typer.echo(f"{document['method']}: {len(groups)} together, {len(document['alone'])} alone")
    typer.echo(f"the slower of each pair slows by {document['total']:.1f} % in sum" + _apart(document))
    if "saving_s" in document:
        saved = 100 * document["saving_s"] / document["serial_s"]
        told = f"{document['makespan_s']:.0f} s instead of {document['serial_s']:.0f} s one after the other"
        typer.echo(f"{told}: {saved:.1f} % less")
    typer.echo(f"solved in {1000 * document['solve_s']:.1f} ms")


def _apart(document: dict[str, Any]) -> str:
    """Return the pairs that the matching found and the threshold keeps apart."""
    dropped = document["total_matched"] - document["total"]
    if dropped <= 0:
        return ""
    return f"; pairs above the threshold of {document['threshold']:g} % are not made ({dropped:.1f} % in sum)"
