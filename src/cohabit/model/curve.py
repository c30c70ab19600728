"""A quantity against cache ways, as sampled: linear between the points, flat beyond them."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Mapping

import msgspec

from cohabit.model.errors import InputError

LARGEST_DIP = 0.05  # IPC may fall this much between two points and still be taken for noise


class Curve(msgspec.Struct, frozen=True):
    """Values at rising numbers of ways; it may rise or fall (bandwidth does either)."""

    ways: tuple[int, ...]
    values: tuple[float, ...]

    def at(self, ways: float) -> float:
        """Return the value at any number of ways."""
        right = bisect.bisect_right(self.ways, ways)
        if right == 0:
            return self.values[0]
        if right == len(self.ways):
            return self.values[-1]
        low, high = self.ways[right - 1], self.ways[right]
        share = (ways - low) / (high - low)
        return self.values[right - 1] + share * (self.values[right] - self.values[right - 1])

    def sampled(self, ways: Iterable[int]) -> Curve:
        """Return the same curve, read at these ways only."""
        points = tuple(sorted(set(ways)))
        return Curve(points, tuple(self.at(point) for point in points))


def curve_from(points: Mapping[str, float] | Mapping[int, float], what: str, where: str) -> Curve:
    """Return a curve from a mapping of ways to values; `what` names the program and the quantity in an error."""
    try:
        pairs = sorted((int(ways), float(value)) for ways, value in points.items())
    except (TypeError, ValueError):
        raise InputError(f"{what} is not a table of ways and numbers", where, 'write {"2": 0.8, "20": 1.0}') from None
    if len(pairs) < 2:
        raise InputError(f"{what} has {len(pairs)} point(s)", where, "a curve needs at least two")
    for ways, value in pairs:
        if not math.isfinite(value) or value < 0:
            raise InputError(f"{what} is {value} at {ways} ways", where, "give a number from 0 up")
        if ways < 1:
            raise InputError(f"{what} has a point at {ways} ways", where, "count ways from 1")
    return Curve(tuple(ways for ways, _ in pairs), tuple(value for _, value in pairs))


def rising(curve: Curve, what: str, where: str) -> tuple[Curve, int]:
    """Make an IPC curve rise: small dips are raised to the running maximum and counted, larger ones refused."""
    raised, highest, values = 0, 0.0, []
    for ways, value in zip(curve.ways, curve.values, strict=True):
        if value < highest * (1 - LARGEST_DIP):
            fall = 100 * (1 - value / highest)
            problem = f"{what} falls by {fall:.1f} % to {value:g} at {ways} ways"
            raise InputError(
                problem, where, "more cache cannot make a program that much slower: measure that point again"
            )
        raised += value < highest
        highest = max(highest, value)
        values.append(highest)
    return Curve(curve.ways, tuple(values)), raised


def never_falling(values: tuple[float, ...], weights: list[int] | None = None) -> tuple[float, ...]:
    """Return the rising sequence nearest to noisy readings: neighbours in the wrong order share their mean (S22)."""
    blocks: list[list[float]] = []  # mean, weight, how many values
    for value, weight in zip(values, weights or [1] * len(values), strict=True):
        blocks.append([value, float(weight), 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, heavy, many = blocks.pop()
            last = blocks[-1]
            last[0] = (last[0] * last[1] + mean * heavy) / (last[1] + heavy)
            last[1], last[2] = last[1] + heavy, last[2] + many
    return tuple(mean for mean, _, many in blocks for _ in range(int(many)))
