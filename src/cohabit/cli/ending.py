"""The end of every call of `cohabit`: an exit status, and at most one sentence on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn

from cohabit.cli import interrupts
from cohabit.model.errors import InputError


def finish(work: Callable[[], object]) -> NoReturn:
    """Run `work` and exit with its status: 0, what it returned, 2 for a wrong call, 130 after Ctrl-C."""
    try:
        code = work()
    except KeyboardInterrupt:
        leave("stopped; nothing was kept", interrupts.STATUS)
    except BrokenPipeError:  # the reader has closed the pipe; what is still in the buffer is dropped
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if _was_interrupted(error):
            leave("stopped; nothing was kept", interrupts.STATUS)
        if isinstance(error, InputError):
            leave(str(error), 2)
        raise
    if code == interrupts.STATUS:  # typer swallows Ctrl-C where the verb does not handle it
        leave("stopped; nothing was kept", interrupts.STATUS)
    sys.exit(code if isinstance(code, int) else 0)


def leave(sentence: str, code: int) -> NoReturn:
    """Print the whole sentence and exit."""
    from cohabit.cli.console import note

    interrupts.at_the_end()
    note(sentence)
    sys.exit(code)


def _was_interrupted(error: BaseException | None) -> bool:
    """Return whether Ctrl-C was the cause: a library may turn the interruption into its own exception."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None or interrupts.seen()
