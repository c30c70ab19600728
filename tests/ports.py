"""Ports for servers of tests: outside the range from which the system gives out ports by itself.

A controller that is dead for a while must find its port free when it returns. A port that the system gave out could
belong to a connection of another test by then. Each worker of pytest-xdist has a range of its own.
"""

from __future__ import annotations

import itertools
import os
import random
import socket

FIRST, ROOM = 12_000, 2_000  # of worker 0; the system gives out ports from 32768 on
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 10
_candidates = itertools.cycle(random.SystemRandom().sample(range(ROOM), ROOM))


def free_port() -> int:
    """A port on which nothing listens now."""
    while True:
        port = FIRST + _WORKER * ROOM + next(_candidates)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port


def free_ports(count: int) -> list[int]:
    """So many different ones."""
    return [free_port() for _ in range(count)]
