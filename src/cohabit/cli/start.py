"""The entry point: it answers Ctrl-C from the first moment on, and loads no more than the call needs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

from cohabit.cli import interrupts


def run() -> None:
    """The `cohabit` command."""
    interrupts.while_loading()
    gc.set_threshold(200_000, 20, 20)  # what is made on the way lives on: looking through it takes a tenth of the time
    from cohabit.cli import ending, light

    work = light.find(sys.argv[1:]) or _whole()
    try:
        interrupts.while_working()
        ending.finish(work)
    except KeyboardInterrupt:  # before the command could answer it, or once more while it did
        sys.exit(interrupts.STATUS)
    finally:
        interrupts.at_the_end()
        gc.freeze()  # or Python looks through all there is before it leaves: a third of a second


def _whole() -> Callable[[], object]:
    """The command with all its verbs: loading it takes a while."""
    from cohabit.cli.main import whole

    return whole
