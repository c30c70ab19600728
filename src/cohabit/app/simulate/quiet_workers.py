"""Worker processes that hear nothing of Ctrl-C while they start, and end of it without a word afterwards.

A terminal sends it to all processes of a program. Who works for another has nothing to say about it, and would say it
with a traceback. It must never be used for processes that keep something.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unheard() -> Iterator[None]:
    """Processes started within do not hear Ctrl-C until `end_quietly`; for us it is only put off."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_quietly() -> None:
    """In a worker, first of all."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
