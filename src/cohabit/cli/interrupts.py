"""Ctrl-C from our first line to our last: one sentence and status 130, never a traceback, and never lost.

While our own modules are loaded nothing has begun, and the program just leaves. From then on the interruption is raised
as usual, and remembered: whatever a library makes of it, the program ends as one that was stopped. Where machine code
called Python, what is raised there is only printed: then it is raised again a moment later. Inside the library that
makes machine code nothing is raised at all: it would lose track of what it has made, and crash. For the
program alone, and never for callers of `cohabit` from Python: how a process takes signals is for its owner to say.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

STATUS = 130
AGAIN_S = 0.02
FRAGILE = "llvmlite."
_seen = False


def while_loading() -> None:
    """From here on Ctrl-C leaves at once; where somebody had it ignored, it stays ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave_at_once)


def while_working() -> None:
    """From here on it is raised, and raised again where a library swallowed it."""
    if signal.getsignal(signal.SIGINT) is _leave_at_once:
        sys.unraisablehook = _swallowed
        signal.signal(signal.SIGALRM, _raise)
        signal.signal(signal.SIGINT, _raise)


def at_the_end() -> None:
    """All is said: nothing can be stopped any more while Python takes itself down, nor raised again."""
    if signal.getsignal(signal.SIGINT) in (_leave_at_once, _raise):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # one still to come would kill the program


def seen() -> bool:
    """Whether it came since the work began."""
    return _seen


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
    elif not _seen:  # afterwards libraries take down what they had half made, and complain
        sys.__unraisablehook__(about)
