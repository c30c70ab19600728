"""The exercises by name: what each does to the machine, what it counts, and how much memory it works on unless told."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Protocol


class Exercise(Protocol):
    """Prepared in its constructor with a size in bytes; the same rounds give the same checksum."""

    def work(self) -> int:
        """One round, some milliseconds; how many units of work it was."""
        ...

    def checksum(self) -> int:
        """Depends on all work done, so that none of it can be left out."""
        ...

    def close(self) -> None:
        """Give back files and sockets."""
        ...


@dataclass(frozen=True)
class Entry:
    """One exercise."""

    class_name: str
    stresses: str
    unit: str
    size_mb: float
    compiled: bool = False  # by numba, once; the others start faster

    def prepare(self, name: str, size_bytes: int) -> Exercise:
        """Import it and get it ready."""
        module = importlib.import_module(f"cohabit.exercise.{name.replace('-', '_')}")
        made: Exercise = getattr(module, self.class_name)(size_bytes)
        return made


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
