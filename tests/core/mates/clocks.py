"""Clocks of domains: each drifts, jumps, stands still, and may be lost with its machine.

A clock that is set back stands still until it has caught up: the live clock never shows less than it has shown
(live/controller/clock.py, `Stepper.step`). Seen from another domain, that is a jump back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

PPM = 1_000_000


@dataclass
class Clock:
    """Shows `shown_us` until true time is `since_us`, and then gains `ppm` microseconds in every second."""

    shown_us: int
    ppm: int
    since_us: int = 0
    jumps: list[tuple[int, int]] = field(default_factory=list)  # true instant of the end, how far, forward or back
    stops: list[tuple[int, int]] = field(default_factory=list)  # of the end, for how long it or its machine stood

    def reads(self, true_us: int) -> int:
        """Return what it shows."""
        return self.shown_us + max(true_us - self.since_us, 0) * (PPM + self.ppm) // PPM

    def when(self, shown_us: int) -> int:
        """Return the first true instant at which it shows this or more; any past instant if it does already."""
        if shown_us <= self.shown_us:
            return 0
        guess = self.since_us + (shown_us - self.shown_us) * PPM // (PPM + self.ppm) - 2
        while self.reads(guess) < shown_us:
            guess += 1
        return guess

    def jump(self, true_us: int, by_us: int, ppm: int) -> None:
        """Jump forward, or stand still for as long as it is set back; then run at this rate."""
        begin_us = max(true_us, self.since_us)
        self.shown_us = self.reads(true_us) + max(by_us, 0)
        self.since_us, self.ppm = begin_us - min(by_us, 0), ppm
        end_us = self.since_us if by_us < 0 else true_us
        self.jumps.append((end_us, abs(by_us)))
        if by_us < 0:
            self.stops.append((end_us, -by_us))

    def renew(self, true_us: int, by_us: int, least_us: int) -> None:
        """Begin anew after a reboot: this far from what it would have shown, and not below `least_us`."""
        self.shown_us, self.since_us = max(self.reads(true_us) + by_us, least_us), true_us

    def stood_us(self, since_us: int) -> int:
        """Return for how long it, or its machine, stood still from this true instant on."""
        return _sum(self.stops, since_us)

    def moved_us(self, since_us: int) -> int:
        """Return by how much it was set, forward and back, from this true instant on."""
        return _sum(self.jumps, since_us)


def _sum(changes: list[tuple[int, int]], since_us: int) -> int:
    """Add what ended since then; the more there is, the earlier began what must have ended within a fixed time."""
    found, before = 0, -1
    while found != before:
        found, before = sum(by for end, by in changes if end >= since_us - found), found
    return found
