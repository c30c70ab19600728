"""The clock and the options of a benchmark that measures inside its own process."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

Clock = Callable[[], float]


def asked(description: str | None, quick: str) -> tuple[bool, Clock, str]:
    """Return --quick, the clock that --wall chooses, and what kind of time it shows."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--wall", action="store_true", help="wall time instead of processor time")
    chosen = parser.parse_args()
    return chosen.quick, *((time.perf_counter, "wall") if chosen.wall else (time.process_time, "processor"))
