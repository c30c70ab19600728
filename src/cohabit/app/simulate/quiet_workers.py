"""Worker processes that ignore Ctrl-C while they start, and afterwards end on it without a message.

A terminal sends SIGINT to all processes of a program. A worker has nothing to report, and would print a traceback. It
must never be used for processes that keep data.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unheard() -> Iterator[None]:
    """Block Ctrl-C in processes started within until `end_quietly`; in this process it is only deferred."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_quietly() -> None:
    """Make a worker end silently on Ctrl-C; to be called first."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
