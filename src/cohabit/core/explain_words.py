"""Counts and time spans in the sentences that say why a job waits."""

from __future__ import annotations

import numpy as np


def counted(number: int, what: str) -> str:
    """1 job, 2 jobs"""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def span(us: int) -> str:
    """Return a time span in the largest unit of which there are two or more."""
    seconds = us / 1e6
    for size, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {name}"
    return f"{np.round(seconds, 3):g} s"
