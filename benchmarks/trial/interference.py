"""Interference that comes and goes: busy sessions on every core, which share it with whatever runs there.

Operating systems share a core out by sessions, so that a job beside three of them gets a quarter of it, on a quiet
machine and on a busy one. They end with the process that started them, whatever happens to it.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np

TEXT = """
import os, signal, sys
us = os.getpid()
for core in sorted(os.sched_getaffinity(0)) * int(sys.argv[1]):
    if os.fork() == 0:
        os.setsid()
        os.sched_setaffinity(0, {core})
        while os.getppid() == us:
            sum(range(100_000))
        os._exit(0)
signal.pause()
"""
Spell = tuple[float, float]  # begin and end, in seconds


def command(sessions: int) -> list[str]:
    """Return the command that keeps so many sessions busy on every core until it is ended."""
    return [sys.executable, "-I", "-S", "-c", TEXT, str(sessions)]


def spells(on_s: float, off_s: float, until_s: float, rng: np.random.Generator) -> list[Spell]:
    """Return when interference comes and goes: it rests and lasts as long as chance has it, on average as told."""
    found: list[Spell] = []
    end_s = 0.0
    while end_s < until_s:
        begin_s = end_s + float(rng.exponential(off_s))
        end_s = begin_s + float(rng.exponential(on_s))
        found.append((begin_s, end_s))
    assert all(one[1] <= other[0] for one, other in pairwise(found))
    return found


@contextmanager
def coming_and_going(when: Sequence[Spell], sessions: int) -> Iterator[None]:
    """Let the sessions come and go while the block lasts; the time counts from its beginning."""
    over, began_s = threading.Event(), time.monotonic()

    def until(at_s: float) -> bool:
        return over.wait(max(0.0, began_s + at_s - time.monotonic()))

    def play() -> None:
        for begin_s, end_s in when:
            if until(begin_s):
                return
            busy = subprocess.Popen(command(sessions), start_new_session=True)
            try:
                until(end_s)
            finally:
                busy.kill()
                busy.wait()

    playing = threading.Thread(target=play, name="interference")
    playing.start()
    try:
        yield
    finally:
        over.set()
        playing.join()
