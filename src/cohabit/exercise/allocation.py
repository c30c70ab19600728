"""Memory taken and given back: pages mapped, touched and unmapped, and many small objects made and dropped."""

from __future__ import annotations

import mmap

from cohabit.exercise.catalogue import Exercise

PAGE = mmap.PAGESIZE
SMALL_OBJECTS = 5000


class Allocation(Exercise):
    """Every round starts from nothing, so the kernel clears every page anew."""

    def __init__(self, size_bytes: int) -> None:
        self.length = max(PAGE, size_bytes // PAGE * PAGE)

    def work(self) -> int:
        """Map the memory, write to every page, make small objects of many sizes, drop it all."""
        with mmap.mmap(-1, self.length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            for at in range(0, self.length, PAGE):
                memory[at] = 1
            small = [bytes(32 + (number * 37) % 2000) for number in range(SMALL_OBJECTS)]
            self.sum += memory[self.length - PAGE] + sum(map(len, small))
        return self.length
