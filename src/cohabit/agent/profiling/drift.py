"""Detect that a program has changed since it was profiled: consecutive runs that deviate from what is expected.

One run may deviate for any reason (a cold disk, another input); several in a row in the same direction mean that the
profile is of another program. Run times are compared, and what does not depend on the length of a run: instructions
per cycle, the share of cache references that miss, and memory bandwidth (S21). Exclusive runs count in both
directions; a run beside neighbours counts only if it was faster than alone, which no neighbour explains, and its
counters do not. Nothing is kept across restarts: detection then takes a few more runs.
"""

from __future__ import annotations

from collections.abc import Mapping

BOUND, RUNS = 0.15, 3
COUNTER_BOUND = 0.25  # counters vary more from run to run than times do
LINE_BYTES = 64.0  # of memory traffic for a cache miss
TIME, IPC, MISSES, TRAFFIC = "time", "instructions per cycle", "cache miss rate", "memory bandwidth"
LEAST_RATE = {IPC: 0.0, MISSES: 0.02, TRAFFIC: 0.1e9}  # below both now and before: noise
Rates = Mapping[str, float]  # NAME_mean -> per second, as profiles keep them


def ratios_of(rates: Rates) -> dict[str, float]:
    """Return what is compared, as far as it was counted; bandwidth in bytes per second."""
    found: dict[str, float] = {}
    cycles, references = rates.get("cycles_mean", 0.0), rates.get("cache_references_mean", 0.0)
    if cycles > 0 and "instructions_mean" in rates:
        found[IPC] = rates["instructions_mean"] / cycles
    if references > 0:
        found[MISSES] = rates.get("cache_misses_mean", 0.0) / references
    if "memory_total_bytes_mean" in rates:
        found[TRAFFIC] = rates["memory_total_bytes_mean"]
    elif "cache_misses_mean" in rates:
        found[TRAFFIC] = LINE_BYTES * rates["cache_misses_mean"]
    return found


def _direction(expected: float, found: float, bound: float) -> int:
    return int(found > (1 + bound) * expected) - int(found < (1 - bound) * expected)


class DriftWatch:
    """Count deviations beyond the bounds, by owner and program; RUNS in a row are drift."""

    def __init__(self) -> None:
        self._row: dict[tuple[str, str, int, int, str], tuple[int, int]] = {}  # owner, program ... -> direction, count

    def departs(self, expected_s: float, took_s: float) -> int:
        """Return 1 if longer than the bound allows, -1 if shorter, 0 if as expected or nothing was expected."""
        return _direction(expected_s, took_s, BOUND) if expected_s > 0 else 0

    def shifted(self, expected: Rates, found: Rates) -> dict[str, int]:
        """Return the direction of every counter beyond its bound; empty if none is, or nothing was expected."""
        before, now = ratios_of(expected), ratios_of(found)
        return {
            what: way
            for what in before
            if what in now
            and max(before[what], now[what]) > LEAST_RATE[what]
            and (way := _direction(before[what], now[what], COUNTER_BOUND))
        }

    def note(
        self,
        program: str,
        processes: int,
        scale: int,
        expected_s: float,
        took_s: float,
        alone: bool = True,
        owner: str = "",
    ) -> str:
        """Return why the profile is no longer valid by its time, once enough runs show it; empty before."""
        key, way = (owner, program, processes, scale, TIME), self.departs(expected_s, took_s)
        if way >= 0 and not alone:
            return ""
        count = self._count(key, way)
        if not count:
            return ""
        return (
            f"{count} runs of {program} in a row took {'longer' if way > 0 else 'shorter'} than its profile says by "
            f"more than {100 * BOUND:g} %: {took_s:.4g} s, not {expected_s:.4g} s"
        )

    def note_counters(
        self, program: str, processes: int, scale: int, expected: Rates, found: Rates, owner: str = ""
    ) -> str:
        """Return why the profile is no longer valid by the counters of runs that were alone; empty before."""
        before, now, ways = ratios_of(expected), ratios_of(found), self.shifted(expected, found)
        reasons = []
        for what in before:
            if what not in now:
                continue
            count = self._count((owner, program, processes, scale, what), ways.get(what, 0))
            if count:
                size, unit = (1e-9, " GB/s") if what == TRAFFIC else (1.0, "")
                reasons.append(
                    f"{count} runs of {program} in a row had {'a higher' if ways[what] > 0 else 'a lower'} {what} than "
                    f"its profile says by more than {100 * COUNTER_BOUND:g} %: {now[what] * size:.3g}{unit}, not "
                    f"{before[what] * size:.3g}{unit}"
                )
        return "; ".join(reasons)

    def _count(self, key: tuple[str, str, int, int, str], way: int) -> int:
        """Count a run; return the number of runs in a row if they are enough, else 0."""
        if way == 0:
            self._row.pop(key, None)
            return 0
        before, count = self._row.get(key, (way, 0))
        count = count + 1 if before == way else 1
        self._row[key] = (way, count)
        if count < RUNS:
            return 0
        del self._row[key]
        return count
