"""The launcher's end of the channel: answers and reports that never block, and children that answer by themselves."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from cohabit.launcher import wire
from cohabit.launcher.requests import Refused

LATER = object()  # a child answers
Answer = Callable[[wire.Message], Any]


class Channel:
    """`private` are descriptors that a child closes first: they belong to the launcher alone."""

    def __init__(self, end: socket.socket, private: Callable[[], Iterable[int]]) -> None:
        self.end, self._private = end, private
        self.waiting: deque[wire.Message] = deque()

    def report(self, message: wire.Message) -> None:
        """Send a report without waiting; messages that cannot be sent now are sent later, in order."""
        self.waiting.append(message)
        self.flush()

    def flush(self) -> None:
        """Send messages that could not be sent before."""
        while self.waiting:
            try:
                wire.send(self.end, self.waiting[0], wait=False)
            except BlockingIOError:
                return
            except OSError:
                pass  # the controller has gone and needs no report
            self.waiting.popleft()

    def say(self, sentence: str, once: bool = True) -> None:
        """Send a message for people through the controller."""
        self.report({"event": "said", "text": sentence, "once": once})

    def in_child(self, act: Answer, descriptor: bool = False) -> Answer:
        """Carry out and answer a long request in a child. `descriptor`: it returns an answer and a descriptor, which is
        sent with it."""

        def fork(request: wire.Message) -> Any:
            if os.fork() == 0:
                descriptors: list[int] = []
                try:
                    self.be_child()
                    found = act(request)
                    if descriptor:
                        found, handed = found
                        descriptors = [handed]
                    answer = {"id": request["id"], "ok": found}
                except Exception as error:
                    answer = failed(request["id"], error)
                self.end_child(answer, descriptors)
            return LATER

        return fork

    def be_child(self) -> None:
        """Set up a child: a session of its own, and default signals."""
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for descriptor in self._private():
            os.close(descriptor)

    def end_child(self, answer: wire.Message, descriptors: Iterable[int] = ()) -> NoReturn:
        """Answer and exit; a controller that has gone needs no answer."""
        with contextlib.suppress(OSError):
            wire.send(self.end, answer, list(descriptors))
        sys.stderr.flush()
        os._exit(0)


def failed(number: Any, error: Exception) -> wire.Message:
    """Return an answer with an error."""
    if isinstance(error, Refused):
        return {"id": number, "error": str(error), "errno": error.number}
    if isinstance(error, OSError):
        return {"id": number, "error": (error.strerror or str(error)).lower(), "errno": error.errno or 0}
    sys.excepthook(type(error), error, error.__traceback__)
    sys.stderr.flush()
    return {"id": number, "error": f"the launcher failed ({type(error).__name__}); its log says why", "errno": 0}
