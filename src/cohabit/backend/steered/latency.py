"""How long the manager and we take besides deciding, as seen while steering: means over the last jobs.

From a submission until we see it; from our order until the job begins; from its end until we see it. Managers tell
whole seconds, so that half a second is added to their instants. Means, because latencies of jobs in a row add up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean

LAST = 500
HALF_S = 0.5
QUARTER = 3.0  # a pause of three times a look: looks take a quarter of the time
LONGEST_S = 60.0  # longer ones have another cause: the manager was away, or something kept the job


def _last() -> deque[float]:
    return deque(maxlen=LAST)


@dataclass
class Latency:
    """The last samples of each kind, in seconds."""

    submit: deque[float] = field(default_factory=_last)
    start: deque[float] = field(default_factory=_last)
    end: deque[float] = field(default_factory=_last)

    def submitted(self, submit_s: float, seen_s: float) -> None:
        """Take the time from a submission until it was seen."""
        _add(self.submit, seen_s - submit_s - HALF_S)

    def started(self, ordered_s: float, start_s: float) -> None:
        """Take the time from an order until the job began."""
        if ordered_s and start_s:
            _add(self.start, start_s + HALF_S - ordered_s)

    def ended(self, end_s: float, seen_s: float) -> None:
        """Take the time from an end until it was seen."""
        if end_s:
            _add(self.end, seen_s - end_s - HALF_S)

    def told(self) -> Mapping[str, float | int]:
        """Return the means under the names of a scenario's keys, and over how many starts; empty without any."""
        kinds = {"submit_latency_s": self.submit, "start_latency_s": self.start, "end_latency_s": self.end}
        means: dict[str, float | int] = {name: round(fmean(kept), 2) for name, kept in kinds.items() if kept}
        return means | {"starts": len(self.start)} if means else {}


def pause_s(poll_s: float, look_s: float, jobs_wait: bool) -> float:
    """Return the time until the next look, after one that took `look_s`: never less than that.

    While jobs wait for nodes it is half of `poll_s`, so that an end is seen sooner, or longer where looks would take
    more than a quarter of the time.
    """
    soon_s = max(poll_s / 2, QUARTER * look_s) if jobs_wait else poll_s
    return max(min(soon_s, poll_s), look_s)


def _add(kept: deque[float], took_s: float) -> None:
    if took_s < LONGEST_S:
        kept.append(max(took_s, 0.0))
