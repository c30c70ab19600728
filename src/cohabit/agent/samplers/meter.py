"""Turn readings into one row of telemetry: amounts per second since the last reading, and current levels.

Rates come from a steady clock, so setting the wall clock cannot falsify them; a jump of the wall clock is reported. A
problem with a counter is reported once and counted every time, and the value is left out. Nothing here raises.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Sequence

import numpy as np

from cohabit.agent.samplers.sampler import Readings, Sampler
from cohabit.agent.sensors.source import Offer
from cohabit.model.telemetry import WINDOW_US, growth
from cohabit.model.telemetry_counters import BY_NAME, Counter

Say = Callable[[str], None]
JUMP_S = 1.0  # larger differences between the two clocks, from one sample to the next, are not jitter


class Meter:
    """The samplers that work on this host, read together."""

    def __init__(self, samplers: Sequence[Sampler], say: Say) -> None:
        self.say = say
        self.offers: list[Offer] = [sampler.offer() for sampler in samplers]
        self.samplers = [one for one, offer in zip(samplers, self.offers, strict=True) if offer.available]
        self.counters = tuple(f"{one.source}.{name}" for one in self.offers for name in one.counters)
        self.defects: Tally[str] = Tally()
        self._said: set[str] = set()
        self._before: dict[str, Readings] = {}
        self._clocks: tuple[int, float] | None = None
        for offer in self.offers:
            if not offer.available:
                say(f"{offer.source} is left out: {offer.reason}")

    def sample(self, wall_us: int, steady_s: float) -> dict[str, float]:
        """Return the values known now, by full name; the first call knows levels only."""
        elapsed_s = self._elapsed(wall_us, steady_s)
        row: dict[str, float] = {}
        read: set[str] = set()
        for sampler in self.samplers:
            readings = sampler.read()
            row |= self._row(sampler.name, self._before.get(sampler.name, {}), readings, elapsed_s)
            read |= {f"{sampler.name}.{name}" for name, _ in readings}
            self._before[sampler.name] = readings
        for name in self.counters:
            if name not in read:
                self._tell("missing", name, f"{name} cannot be read now and is left out")
        return row

    def _elapsed(self, wall_us: int, steady_s: float) -> float:
        """Return the seconds since the last sample; NaN if rates would be meaningless."""
        before, self._clocks = self._clocks, (wall_us, steady_s)
        if before is None:
            return float("nan")
        elapsed_s = steady_s - before[1]
        jump_s = (wall_us - before[0]) * 1e-6 - elapsed_s
        if abs(jump_s) > JUMP_S + 0.05 * elapsed_s:
            self.defects["the clock jumped"] += 1
            self.say(f"the clock was set {'forward' if jump_s > 0 else 'back'} by {abs(jump_s):,.0f} s")
        if elapsed_s > WINDOW_US * 1e-6:
            self.defects["a gap between samples"] += 1
            self.say(f"no sample for {elapsed_s:,.0f} s: amounts of that time are left out")
            return float("nan")
        return elapsed_s

    def _row(self, source: str, before: Readings, now: Readings, elapsed_s: float) -> dict[str, float]:
        """Return sums over the devices of a source."""
        keys = list(now)
        kinds = [BY_NAME[f"{source}.{name}"] for name, _ in keys]
        totals = np.array([now[key] for key in keys])
        earlier = np.array([before.get(key, np.nan) for key in keys])
        grown = growth(earlier, totals, elapsed_s, [one.bits for one in kinds], [one.stays for one in kinds])
        values = np.where([one.kind == "level" for one in kinds], totals, grown.per_second)
        amounts = np.array([one.kind == "amount" for one in kinds], np.bool_)
        for what, mask, words in (
            ("wrapped round", grown.wrapped, "wrapped round, which is allowed for"),
            ("reset", grown.reset, "was reset: its growth is not known this once"),
            ("at its highest value", grown.stuck, "stays at its highest value until it is cleared"),
        ):
            for index in np.flatnonzero(mask & amounts):
                device = f" of {keys[index][1]}" if keys[index][1] else ""
                self._tell(what, f"{kinds[index].full_name}{device}", f"{kinds[index].full_name}{device} {words}")
        for gone in before.keys() - now.keys():
            if gone[1] not in {device for _, device in keys}:
                self._tell("a device vanished", f"{source} {gone[1]}", f"{gone[1] or source} of {source} has vanished")
        return _summed(kinds, values)

    def _tell(self, what: str, of: str, sentence: str) -> None:
        self.defects[what] += 1
        if (what + of) not in self._said:
            self._said.add(what + of)
            self.say(sentence)


def _summed(kinds: Sequence[Counter], values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[str, float]:
    """Sum over devices; if the growth of one device is unknown, the sum is unknown and is left out."""
    row: dict[str, float] = {}
    for one, value in zip(kinds, values.tolist(), strict=True):
        row[one.full_name] = row.get(one.full_name, 0.0) + value
    return {name: value for name, value in row.items() if value == value}
