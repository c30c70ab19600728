"""`cohabit exercise`: small real programs, each stressing one resource."""

from __future__ import annotations

from typing import Annotated

import typer

from cohabit.cli.console import show_json, table
from cohabit.cli.declaring import Argument, Option, verb
from cohabit.cli.options import AsJson
from cohabit.model.errors import InputError


@verb(
    "exercise",
    "Run a small real program that stresses one resource.",
    "cohabit exercise --list",
    "cohabit exercise stream --seconds 3",
    "cohabit exercise graph-walk --size 200 --work 150 --json",
)
def exercise(
    name: Annotated[str | None, Argument("NAME", "Which one; --list shows them.")] = None,
    seconds: Annotated[float | None, Option(help="Approximate run time; default 2, without --work.")] = None,
    work: Annotated[int | None, Option(metavar="N", help="Exactly N rounds, however long they take.")] = None,
    size: Annotated[float | None, Option(metavar="MB", help="Memory (or file) it works on.")] = None,
    show_list: Annotated[bool, Option("--list", help="Show all exercises and what they stress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Do real work of one kind on one core, for some time or a fixed amount, and say how fast it went.

    A fixed amount takes longer beside a neighbour that wants the same resource; the same rounds give the same checksum.
    """
    from cohabit.exercise.catalogue import EXERCISES, run

    if show_list:
        _list(as_json)
        return
    _check(name, list(EXERCISES), seconds, work, size)
    assert name is not None
    try:
        outcome = run(name, 2.0 if seconds is None else seconds, work, size)
    except (MemoryError, OSError) as error:
        reason = str(getattr(error, "strerror", None) or "there is not enough memory").lower()
        raise InputError(f"{name} could not run: {reason}", "", "choose a smaller --size") from error
    if as_json:
        show_json(vars(outcome))
        return
    typer.echo(
        f"{outcome.name}: {outcome.operations:,} {outcome.unit} in {outcome.seconds:.2f} s, "
        f"{outcome.rate_per_s:,.0f} {outcome.unit}/s on {outcome.size_mb:g} MB; the same again: --work {outcome.rounds}"
    )


def _check(name: str | None, names: list[str], seconds: float | None, work: int | None, size: float | None) -> None:
    from cohabit.exercise.catalogue import MOST_MB

    if name is None:
        raise InputError("no exercise is named", "", f"choose from {', '.join(names)}")
    if name not in names:
        raise InputError(f"there is no exercise {name!r}", "", f"choose from {', '.join(names)}")
    if seconds is not None and work is not None:
        raise InputError("--seconds and --work exclude each other", "", "give one of them")
    if seconds is not None and not 0 < seconds < 1e6:
        raise InputError(f"--seconds {seconds:g} is not a time", "", "give a number above 0")
    if work is not None and work < 1:
        raise InputError(f"--work {work} is not possible", "", "give a number of rounds, 1 or more")
    if size is not None and not 0 < size <= MOST_MB:
        raise InputError(f"--size {size:g} is out of range", "", f"give megabytes, above 0 and at most {MOST_MB:,}")


def _list(as_json: bool) -> None:
    from cohabit.exercise.catalogue import EXERCISES

    if as_json:
        rows = [
            {"name": name, "stresses": one.stresses, "unit": one.unit, "size_mb": one.size_mb}
            for name, one in EXERCISES.items()
        ]
        show_json({"exercises": rows})
    else:
        rows_shown = [[name, one.stresses, f"{one.size_mb:g} MB", one.unit] for name, one in EXERCISES.items()]
        table("", ["exercise", "stresses", "works on", "counts"], rows_shown)
