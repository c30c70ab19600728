"""Statistics of the Lustre client, of every mounted file system: the `stats` files of llite.

A line is `NAME COUNT samples [UNIT]`, with minimum, maximum and sum after it where sizes (or, in later versions, times)
are kept: for bytes and pages the sum counts, for calls their number. Other lines are left out.
"""

from __future__ import annotations

from pathlib import Path

from cohabit.agent.samplers.sampler import HOST, Readings, entries, text_of
from cohabit.agent.sensors.source import Offer
from cohabit.model.telemetry_counters import LUSTRE

SIZES = {"[bytes]", "[pages]"}
NAMES = tuple(one.name for one in LUSTRE)
_KNOWN = frozenset(NAMES)


class Lustre:
    """Every mounted file system; later versions moved the files to debugfs, which only root may read."""

    name = "lustre2_client"

    def __init__(self, root: Path = HOST) -> None:
        self.folders = (
            root / "proc" / "fs" / "lustre" / "llite",
            root / "sys" / "kernel" / "debug" / "lustre" / "llite",
        )

    def offer(self) -> Offer:
        """Offer all names: an event that never happened has no line yet."""
        if not any(text_of(place / "stats") is not None for folder in self.folders for place in entries(folder)):
            advice = "nothing to do where there is none; otherwise run as root"
            return Offer(self.name, False, "no Lustre file system shows its statistics", advice)
        return Offer(self.name, True, "", "", NAMES)

    def read(self) -> Readings:
        """Return sums and numbers of calls so far. A missing line is 0, or the first event would be missed."""
        found: dict[tuple[str, str], float] = {}
        for folder in self.folders:
            for place in entries(folder):
                text = text_of(place / "stats")
                if text is not None:
                    found |= {(name, place.name): 0.0 for name in NAMES}
                    found |= {(name, place.name): value for name, value in _lines(text).items()}
        return found


def _lines(text: str) -> dict[str, float]:
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 4 or words[0] not in _KNOWN or words[2] != "samples":
            continue
        value = words[6] if words[3] in SIZES and len(words) > 6 else words[1]
        if value.isascii() and value.isdigit():
            found[words[0]] = float(int(value))
    return found
