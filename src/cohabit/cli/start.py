"""The entry point: it handles Ctrl-C from the first moment on, and loads no more than the call needs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

from cohabit.cli import interrupts


def run() -> None:
    """The `cohabit` command."""
    interrupts.while_loading()
    gc.set_threshold(200_000, 20, 20)  # start-up objects are long-lived: scanning them takes a tenth of the time
    from cohabit.cli import ending, light

    work = light.find(sys.argv[1:]) or _whole()
    try:
        interrupts.while_working()
        ending.finish(work)
    except KeyboardInterrupt:  # before the command could handle it, or again while it did
        sys.exit(interrupts.STATUS)
    finally:
        interrupts.at_the_end()
        gc.freeze()  # otherwise Python scans all objects at exit: a third of a second


def _whole() -> Callable[[], object]:
    """Load the command with all its verbs, which takes a while."""
    from cohabit.cli.main import whole

    return whole
