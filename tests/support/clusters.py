"""A few small machines, each with something that makes nodes differ."""

from __future__ import annotations

from cohabit.model.cluster import Cluster, NodeGroup, Window
from cohabit.model.units import SECOND

PLAIN = Cluster((NodeGroup(5),))
PLAIN_FAIL = Cluster((NodeGroup(4),), on_node_loss="fail")
PACKED = Cluster((NodeGroup(3, cores=4),))
MEMORY = Cluster((NodeGroup(3, cores=2, memory_bytes=4), NodeGroup(2, cores=4, memory_bytes=16, name="large")))
PARTITIONS = Cluster(
    (
        NodeGroup(3, cores=2, name="open"),
        NodeGroup(2, cores=2, partitions=("gpu",), name="gpu"),
        NodeGroup(2, cores=4, memory_bytes=8, partitions=("gpu", "big"), name="big"),
    )
)
WINDOWS = Cluster(
    (NodeGroup(5),),
    windows=(
        Window(20 * SECOND, 40 * SECOND, 0, 3),
        Window(30 * SECOND, 45 * SECOND, 2, 2),
        Window(90 * SECOND, 100 * SECOND, 0, 5),
    ),
)
EVERYTHING = Cluster(
    (NodeGroup(3, cores=2, memory_bytes=4), NodeGroup(2, memory_bytes=9, partitions=("big",), name="big")),
    windows=(Window(15 * SECOND, 30 * SECOND, 2, 2),),
)

MIB = 2**20
SHARED = Cluster(
    (
        NodeGroup(
            4,
            cores=8,
            ways=10,
            min_ways=2,
            closids=4,
            domains=2,
            bandwidth_gbs=((1, 10.0), (2, 18.0), (4, 34.0), (8, 40.0)),
        ),
    ),
    "shared",
)
SHARED_MIXED = Cluster(
    (
        NodeGroup(3, cores=8, memory_bytes=32 * MIB, ways=10, min_ways=2, closids=3, bandwidth_gbs=((8, 33.3333),)),
        NodeGroup(
            2, cores=12, memory_bytes=64 * MIB + 3, ways=12, min_ways=2, bandwidth_gbs=((12, 60.0),),
            partitions=("big",), name="big",
        ),
        NodeGroup(2, cores=8, name="bare"),
    ),
    "shared",
    windows=(Window(15 * SECOND, 30 * SECOND, 2, 2), Window(60 * SECOND, 70 * SECOND, 0, 7)),
)  # fmt: skip
SHARED_FAIL = Cluster((NodeGroup(6, cores=4, ways=6, min_ways=1, closids=3),), "shared", on_node_loss="fail")

SHARED_CLUSTERS: dict[str, Cluster] = {
    "shared": SHARED, "shared and mixed": SHARED_MIXED, "shared, jobs fail with their node": SHARED_FAIL,
}  # fmt: skip
CLUSTERS: dict[str, Cluster] = {
    "plain": PLAIN, "plain, jobs fail with their node": PLAIN_FAIL, "packed": PACKED, "memory": MEMORY,
    "partitions": PARTITIONS, "windows": WINDOWS, "everything": EVERYTHING,
}  # fmt: skip
