"""The kind of hardware a profile was measured on, as a short key: profiles of different kinds never mix."""

from __future__ import annotations

import re

from cohabit.model.cluster import NodeGroup

_KEY = re.compile(r"(\d+)c(?:-(\d+)w)?(?:-([\d.]+)g)?")


def hardware_key(node: NodeGroup) -> str:
    """Return cores, cache ways and peak bandwidth of a node: "28c-20w-118.26g"; what is not stated is left out."""
    ways = f"-{node.ways}w" if node.ways else ""
    peak = f"-{round(node.bandwidth_gbs[-1][1], 2):.12g}g" if node.bandwidth_gbs else ""
    return f"{node.cores}c{ways}{peak}"


def node_of_key(key: str, min_ways: int = 1) -> NodeGroup | None:
    """Return the node that a key describes, with bandwidth at full cores only; None: the key has another format."""
    found = _KEY.fullmatch(key)
    if found is None or int(found[1]) < 1:
        return None
    cores, ways, peak = int(found[1]), int(found[2] or 0), found[3]
    return NodeGroup(
        1, cores, ways=ways, min_ways=min(min_ways, ways) if ways else 1,
        bandwidth_gbs=((cores, float(peak)),) if peak else (),
    )  # fmt: skip
