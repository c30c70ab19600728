"""The exercises by name, and how one is run: for some time, or for a fixed amount of work, which takes longer beside a
neighbour."""

from __future__ import annotations

import importlib
import os
import time
from dataclasses import dataclass
from typing import Protocol

MOST_MB = 1 << 20


class Exercise(Protocol):
    """Prepared in its constructor with a size in bytes; the same rounds give the same checksum."""

    sum: int = 0

    def work(self) -> int:
        """Do one round, some milliseconds; return the units of work it was."""
        ...

    def checksum(self) -> int:
        """Return a number that depends on all work done, so that none of it can be left out."""
        return self.sum

    def close(self) -> None:
        """Give back files and sockets; most have none."""


@dataclass(frozen=True)
class Entry:
    """One exercise: its class, what it does to the machine, what it counts, and its memory unless told."""

    class_name: str
    stresses: str
    unit: str
    size_mb: float
    compiled: bool = False  # by numba, once; the others start faster


EXERCISES: dict[str, Entry] = {
    "stream": Entry("Stream", "memory bandwidth: long vectors, in order", "bytes", 96),
    "random-access": Entry("RandomAccess", "memory latency with many misses at once", "updates", 64, True),
    "stencil": Entry("Stencil", "last-level cache: a grid swept again and again", "cells", 16),
    "dense": Entry("Dense", "arithmetic: products of matrices", "operations", 6),
    "graph-walk": Entry("GraphWalk", "memory latency: every step waits for the one before", "steps", 48, True),
    "sort": Entry("Sort", "caches and branches: sorting whole numbers", "numbers", 4),
    "compression": Entry("Compression", "first caches and branches: deflating text", "bytes", 4),
    "branchy": Entry("Branchy", "branch prediction: decisions by random bits", "decisions", 1, True),
    "allocation": Entry("Allocation", "the kernel: memory mapped, touched and given back", "bytes", 16),
    "disk": Entry("Disk", "storage: written, forced out and read again", "bytes", 16),
    "loopback": Entry("Loopback", "the network stack: bytes through a local connection", "bytes", 4),
    "remote": Entry("Remote", "hardly anything: waits 20 ms for each answer of a distant store", "bytes", 1),
}


@dataclass(frozen=True)
class Outcome:
    """The work that was done, and its speed."""

    name: str
    size_mb: float
    rounds: int
    operations: int
    unit: str
    seconds: float
    rate_per_s: float
    checksum: int


def run(name: str, seconds: float = 2.0, rounds: int | None = None, size_mb: float | None = None) -> Outcome:
    """Run for about so many seconds, or exactly so many rounds; the time of preparing does not count."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # one program, one core: how many it gets is the caller's affair
    entry = EXERCISES[name]
    size = entry.size_mb if size_mb is None else size_mb
    module = importlib.import_module(f"cohabit.exercise.{name.replace('-', '_')}")
    exercise: Exercise = getattr(module, entry.class_name)(max(4096, int(size * 2**20)))
    try:
        done = operations = 0
        began_s = time.perf_counter()
        while (done < rounds) if rounds is not None else (time.perf_counter() - began_s < seconds):
            operations += exercise.work()
            done += 1
        took_s = time.perf_counter() - began_s
        rate_per_s = operations / max(took_s, 1e-9)
        return Outcome(name, size, done, operations, entry.unit, took_s, rate_per_s, exercise.checksum())
    finally:
        exercise.close()
