"""The entry point: it answers Ctrl-C from the first moment on, and then loads the command, which takes a while."""

from __future__ import annotations

import gc
import sys

from cohabit.cli import interrupts


def run() -> None:
    """The `cohabit` command."""
    interrupts.while_loading()
    from cohabit.cli.main import run as whole

    try:
        interrupts.while_working()
        whole()
    except KeyboardInterrupt:  # before the command could answer it, or once more while it did
        sys.exit(interrupts.STATUS)
    finally:
        interrupts.at_the_end()
        gc.freeze()  # or Python looks through all there is before it leaves: a third of a second
