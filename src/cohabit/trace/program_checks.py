"""Common parts of all readers of programs: the result, and the checks of a curve's points."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from cohabit.model.cluster import NodeGroup
from cohabit.model.curve import Curve, curve_from, rising
from cohabit.model.errors import InputError
from cohabit.model.program import Program

REFERENCE_PROCESSES = 16
WHOLE_NUMBER = re.compile(r"[0-9]{1,9}")


class Machine(NamedTuple):
    """The machine the numbers of a file are for."""

    node: NodeGroup  # `count` is the number of nodes
    platform: dict[str, Any]  # as the file states it, with provenance
    defaults: dict[str, Any]


class Programs(dict[str, Program]):
    """Programs by name, the points whose IPC was raised to the running maximum, and the machine if the file has one."""

    def __init__(self, programs: Mapping[str, Program], raised: Mapping[str, int] | None = None) -> None:
        super().__init__(programs)
        self.raised: dict[str, int] = {name: count for name, count in (raised or {}).items() if count}
        self.machine: Machine | None = None

    @property
    def warning(self) -> str:
        """Return a warning for the user, or nothing."""
        if not self.raised:
            return ""
        points, worst = sum(self.raised.values()), max(self.raised, key=lambda name: self.raised[name])
        return (
            f"{points} point{'s' if points > 1 else ''} of {len(self.raised)} IPC curve(s) fell by at most 5 % and "
            f"were raised to the value before (most in {worst}: {self.raised[worst]})"
        )


def checked_curve(points: Mapping[str, Any], what: str, where: str) -> Curve:
    """A curve whose points are all plain numbers at different numbers of ways."""
    for ways, value in points.items():
        if not WHOLE_NUMBER.fullmatch(ways):
            raise InputError(f"{what} has a point at {ways!r} ways", where, "ways are whole numbers from 1 up")
        if not is_number(value):
            raise InputError(f"{what} is {shown(value)} at {ways} ways, not a number", where, "write a plain number")
    if len({int(ways) for ways in points}) < len(points):
        raise InputError(f"{what} has two points at the same number of ways", where, "keep one of them")
    return curve_from(points, what, where)


def rising_ipc(curve: Curve, what: str, where: str) -> tuple[Curve, int]:
    """An IPC curve: above 0, small dips raised and counted, larger ones refused."""
    for ways, value in zip(curve.ways, curve.values, strict=True):
        if value <= 0:
            raise InputError(f"{what} is {value:g} at {ways} ways", where, "a program that runs has an IPC above 0")
    return rising(curve, what, where)


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a usable number (integers may be too large)."""
    return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1e300)


def shown(value: Any) -> str:
    """Return a value for an error message, shortened if it is long."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else text[:37] + "..."
