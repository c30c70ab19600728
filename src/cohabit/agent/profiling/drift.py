"""Detect that a program has changed since it was profiled: consecutive runs that deviate from the expected time.

One run may deviate for any reason (a cold disk, another input); several in a row in the same direction mean that the
profile is of another program. Exclusive runs count in both directions; a run beside neighbours counts only if it was
faster than alone, which no neighbour explains. Nothing is kept across restarts: detection then takes a few more runs.
"""

from __future__ import annotations

BOUND, RUNS = 0.15, 3


class DriftWatch:
    """Count deviations of more than BOUND, by owner and program; RUNS in a row are drift."""

    def __init__(self) -> None:
        self._row: dict[tuple[str, str, int, int], tuple[int, int]] = {}  # owner, program ... -> direction, count

    def departs(self, expected_s: float, took_s: float) -> int:
        """Return 1 if longer than the bound allows, -1 if shorter, 0 if as expected or nothing was expected."""
        if expected_s <= 0:
            return 0
        return int(took_s > (1 + BOUND) * expected_s) - int(took_s < (1 - BOUND) * expected_s)

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
        """Return why the profile is no longer valid, once enough runs show it; empty before."""
        key, way = (owner, program, processes, scale), self.departs(expected_s, took_s)
        if way == 0 or (way > 0 and not alone):
            if alone:
                self._row.pop(key, None)
            return ""
        before, count = self._row.get(key, (way, 0))
        count = count + 1 if before == way else 1
        self._row[key] = (way, count)
        if count < RUNS:
            return ""
        del self._row[key]
        return (
            f"{count} runs of {program} in a row took {'longer' if way > 0 else 'shorter'} than its profile says by "
            f"more than {100 * BOUND:g} %: {took_s:.4g} s, not {expected_s:.4g} s"
        )
