"""Worker processes that ignore Ctrl-C while they start, and afterwards end on it without a message.

A terminal sends SIGINT to all processes of a program. A worker has nothing to report, and would print a traceback. It
must never be used for processes that keep data.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

T = TypeVar("T")


def in_workers(calls: Sequence[Callable[[], T]], workers: int) -> Generator[tuple[int, T], None, None]:
    """Make these calls in so many processes; yield (index, result) as they end. Close it to stop early."""
    import multiprocessing

    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_end_quietly) as pool:
        # Ctrl-C stays blocked in the new processes until `_end_quietly`; in this one it is only deferred.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            futures = {pool.submit(call): index for index, call in enumerate(calls)}
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()


def _end_quietly() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
