"""Statistics of the Lustre client, of every mounted file system: the `stats` files of llite.

A line is `NAME COUNT samples [UNIT]`, with minimum, maximum and sum after it where sizes (or, in later versions, times)
are kept: for bytes and pages the sum counts, for calls their number. Other lines are left out.
"""

from __future__ import annotations

from pathlib import Path

from cohabit.agent.samplers.sampler import Readings, entries, text_of
from cohabit.model.telemetry_counters import LUSTRE

# Later versions moved the files to debugfs, which only root may read.
FOLDERS = ("proc/fs/lustre/llite", "sys/kernel/debug/lustre/llite")
SIZES = {"[bytes]", "[pages]"}
NAMES = tuple(one.name for one in LUSTRE)
_KNOWN = frozenset(NAMES)


def read(root: Path) -> Readings:
    """Return sums and numbers of calls so far. A missing line is 0, or the first event would be missed."""
    found: dict[tuple[str, str], float] = {}
    for folder in FOLDERS:
        for place in entries(root / folder):
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
