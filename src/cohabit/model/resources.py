"""The resources that jobs share on a node: each dimension gives the capacity of a node and the need of a job.

The placement algorithm counts in whole units and knows no dimension by name except that cores come first; adding
network or I/O bandwidth is one more `Dimension` in the list a placement policy is made with (S39).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from cohabit.model.cluster import NodeGroup
from cohabit.model.job import Job
from cohabit.model.profile import Profile, stream_gbs

WITHOUT_LIMIT = 2**40  # a capacity the machine does not state: never a constraint, never occupied to a visible degree
MIB = 2**20


class Wish(NamedTuple):
    """One way a job could run on a node: the input of a dimension."""

    job: Job
    profile: Profile | None
    scale: int
    nodes: int
    cores: int
    ways: int
    bandwidth_gbs: float


@dataclass(frozen=True)
class Dimension:
    """One shared resource of a node, in whole units."""

    name: str
    unit: str
    capacity: Callable[[NodeGroup], int]
    need: Callable[[Wish], int]
    weight: float = 0.0  # in the sum of occupied fractions by which idle nodes are found; 0: only a limit


def _memory_mib(wish: Wish) -> int:
    return -(-wish.job.memory_bytes * wish.cores // MIB)


CORES = Dimension("cores", "cores", lambda node: node.cores, lambda wish: wish.cores, 1.0)
BANDWIDTH = Dimension(
    "bandwidth",
    "MB/s",
    lambda node: math.floor(1000 * stream_gbs(node, node.cores)) if node.bandwidth_gbs else WITHOUT_LIMIT,
    lambda wish: math.ceil(1000 * wish.bandwidth_gbs - 1e-6),
    1.0,
)
WAYS = Dimension("ways", "ways", lambda node: node.ways or WITHOUT_LIMIT, lambda wish: wish.ways, 2.0)
MEMORY = Dimension("memory", "MiB", lambda node: node.memory_bytes // MIB or WITHOUT_LIMIT, _memory_mib)
PARTITIONS = Dimension("partitions", "partitions", lambda node: node.closids or WITHOUT_LIMIT, lambda wish: 1)
