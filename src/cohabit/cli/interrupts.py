"""Handle Ctrl-C from the first line to the last: one sentence and status 130, never a traceback, and never lost.

While our own modules are loaded no work has begun, and the program exits at once. From then on the interruption is
raised as usual, and remembered: whatever a library makes of it, the program ends as interrupted. If machine code called
Python, an exception there is only printed: then it is raised again a moment later. Inside the compiler of machine code
nothing is raised at all: it would lose its state and crash. Only for the program, never for callers of `cohabit` from
Python: signal handling belongs to the owner of a process.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Coroutine
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import asyncio

STATUS = 130
AGAIN_S = 0.02
FRAGILE = "llvmlite."
_seen = False


def while_loading() -> None:
    """Exit at once on Ctrl-C from here on; if SIGINT is ignored already, it stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave_at_once)


def while_working() -> None:
    """Raise Ctrl-C from here on, and raise it again if a library swallowed it."""
    if signal.getsignal(signal.SIGINT) is _leave_at_once:
        sys.unraisablehook = _swallowed
        signal.signal(signal.SIGALRM, _raise)
        signal.signal(signal.SIGINT, _raise)


def at_the_end() -> None:
    """Ignore Ctrl-C from here on: the output is complete, and Python is shutting down."""
    if signal.getsignal(signal.SIGINT) in (_leave_at_once, _raise):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # a pending alarm would kill the program


def seen() -> bool:
    """Return whether Ctrl-C came since the work began."""
    return _seen


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set from now on."""
    import asyncio

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def first_of(*ends: Coroutine[Any, Any, Any]) -> None:
    """Wait until the first of these has ended, cancel the others, and raise its exception if it has one."""
    import asyncio

    done, others = await asyncio.wait(map(asyncio.create_task, ends), return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    for task in done:
        task.result()


def _leave_at_once(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, b"cohabit: stopped; nothing was kept\n")
    os._exit(STATUS)


def _raise(number: int, frame: FrameType | None) -> None:
    global _seen
    _seen = True
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(FRAGILE):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _swallowed(about: Any) -> None:
    if issubclass(about.exc_type, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
    elif not _seen:  # afterwards libraries discard unfinished work and complain
        sys.__unraisablehook__(about)
