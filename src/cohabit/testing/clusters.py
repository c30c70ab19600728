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

CLUSTERS: dict[str, Cluster] = {
    "plain": PLAIN, "plain, jobs fail with their node": PLAIN_FAIL, "packed": PACKED, "memory": MEMORY,
    "partitions": PARTITIONS, "windows": WINDOWS, "everything": EVERYTHING,
}  # fmt: skip
