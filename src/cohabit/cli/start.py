"""The entry point: it answers Ctrl-C from the first moment on, and loads no more than the call needs."""

from __future__ import annotations

import gc
import sys

from cohabit.cli import interrupts


def run() -> None:
    """The `cohabit` command."""
    interrupts.while_loading()
    from cohabit.cli import ending, light

    work = light.find(sys.argv[1:])
    if work is None:
        from cohabit.cli.main import whole as work
    try:
        interrupts.while_working()
        ending.finish(work)
    except KeyboardInterrupt:  # before the command could answer it, or once more while it did
        sys.exit(interrupts.STATUS)
    finally:
        interrupts.at_the_end()
        gc.freeze()  # or Python looks through all there is before it leaves: a third of a second
