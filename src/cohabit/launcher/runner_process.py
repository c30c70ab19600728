"""The runner processes as the launcher sees them: one for each run, reused when its run is over.

A runner has a socket to the launcher that forked it. A request to start a run comes over it, with the channel to the
controller and the lock on starts; the runner answers the request itself and reports over the socket when the run is
over. It reads the socket only between two runs, so a run outlives the launcher, and an idle runner ends with it. The
end of a run is on the disk before its runner takes another one, so a killed runner affects one run only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
from collections.abc import Callable

from cohabit.agent.launch.process_tree import children
from cohabit.launcher import runner, wire
from cohabit.launcher.runs import RunFolder

OVER = {"over": True}
Start = Callable[[wire.Message, int, int, int], None]  # a request, a descriptor for signals, the channel, the lock


class RunnerProcess:
    """A runner. `process` is a pidfd; `pid` and our end of its socket are known where this launcher forked it."""

    def __init__(self, process: int, pid: int = 0, end: socket.socket | None = None) -> None:
        self.process, self.pid, self.end = process, pid, end
        self.folder: RunFolder | None = None  # of its run; None: it is idle
        self.number: int | None = None  # of the request that started the run
        self.signalled = False

    @property
    def watched(self) -> int:
        """The descriptor that is readable when its run is over, or when it has ended."""
        return self.process if self.end is None else self.end.fileno()

    def give(self, folder: RunFolder, request: wire.Message, channel: int, lock: int) -> bool:
        """Give it a run; False: it has ended and takes none. The lock is held until the runner has claimed the run."""
        assert self.end is not None
        try:
            wire.send(self.end, request, (channel, lock), wait=False)
        except OSError:
            return False
        self.folder, self.number = folder, request["id"]
        return True

    def said_over(self) -> bool:
        """Return what made `watched` readable: True if its run is over, False if it has ended."""
        if self.end is None:
            return False
        try:
            found = wire.receive(self.end, wait=False)
        except (OSError, wire.BadMessage):
            return False
        return found is not None and found[0] == OVER

    def send(self, number: int) -> None:
        """Send a signal; if the runner has ended, the report of its end is on the way."""
        self.signalled = True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.process, number)

    def close(self) -> None:
        """Close the socket; an idle runner ends."""
        os.close(self.process)
        if self.end is not None:
            self.end.close()


def readable(descriptor: int, patience_s: float = 0.0) -> bool:
    """Return whether there is something to read now or within this time."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(1000 * patience_s))


def fork_runner(start: Start, close_others: Callable[[], None]) -> RunnerProcess:
    """Fork a new, idle runner. `close_others` closes what a runner must not keep."""
    ours, theirs = wire.pair()
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            close_others()
            _serve(theirs, start)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(0)
    theirs.close()
    return RunnerProcess(os.pidfd_open(child), child, ours)


def _serve(end: socket.socket, start: Start) -> None:
    """Execute one run after the other, until the launcher has gone."""
    woken = runner.lead_session()
    with contextlib.suppress(ConnectionError):
        while (found := wire.receive(end)) is not None:
            request, (channel, lock) = found
            start(request, woken, channel, lock)
            if children():
                return  # its processes cannot be killed: the next run must not be blamed for them
            wire.send(end, OVER)
