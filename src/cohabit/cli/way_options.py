"""The options that describe the hardware's cache allocation; `partition` and `place` share them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cohabit.optimise.ways import Limits

Ways = Annotated[int | None, typer.Option("--ways", metavar="W", help="Whole contiguous ways of a cache that has W.")]
MinWays = Annotated[int | None, typer.Option("--min-ways", metavar="M", help="Fewest ways of a group; 1 otherwise.")]
Groups = Annotated[
    int | None, typer.Option("--groups", metavar="G", help="Groups besides the root group; 15 otherwise.")
]
IoWays = Annotated[int | None, typer.Option("--io-ways", metavar="I", help="Uppermost ways that devices use, too.")]
Inseparable = Annotated[
    str | None, typer.Option("--inseparable", metavar="A-B", help="Ways that go together, as 10-11 on a Xeon D-1540.")
]
_RANGE = re.compile(r"([0-9]{1,4})-([0-9]{1,4})")


def limits_from(
    ways: int | None, min_ways: int | None, groups: int | None, io_ways: int | None, inseparable: str | None
) -> Limits | None:
    """Return the limits, or None if no option of ways was given."""
    from cohabit.model.errors import InputError
    from cohabit.optimise.ways import USUAL_GROUPS, Limits

    others = {"--min-ways": min_ways, "--groups": groups, "--io-ways": io_ways, "--inseparable": inseparable}
    if ways is None:
        said = [name for name, value in others.items() if value is not None]
        if said:
            raise InputError(f"{said[0]} says how ways are given out, but not how many there are", "", "add --ways W")
        return None
    return Limits(
        ways, 1 if min_ways is None else min_ways, USUAL_GROUPS if groups is None else groups, io_ways or 0,
        inseparable=_ranges(inseparable),
    ).checked("--ways")  # fmt: skip


def _ranges(text: str | None) -> tuple[tuple[int, int], ...]:
    from cohabit.model.errors import InputError

    found = []
    for part in (text or "").split(",") if text else ():
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise InputError(f"{part!r} is not a range of ways", "--inseparable", "write 10-11, or 4-5,10-11")
        found.append((int(match[1]), int(match[2])))
    return tuple(found)
