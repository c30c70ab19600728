"""Placements and sites for launcher tests."""

from __future__ import annotations

import sys

from cohabit.backend.launchers.contract import NodeShare, Placement, Request, Site

OPEN_MPI = Site(
    sys.executable, mpirun="/opt/mpi/bin/mpirun", mpi="openmpi", mpi_version="4.1.4", spark="/opt/spark/bin"
)
MPICH = Site(sys.executable, mpirun="/opt/mpich/bin/mpirun", mpi="mpich", mpi_version="4.0.2")
BARE = Site(sys.executable)


def on(*nodes: tuple[str, int], bound: bool = True, scale: int = 1) -> Placement:
    """Nodes as (host, cores); the cores of a host are numbered through its nodes."""
    used: dict[str, int] = {}
    shares = []
    for number, (host, slots) in enumerate(nodes):
        first = used.get(host, 0)
        used[host] = first + slots
        shares.append(NodeShare(host, slots, tuple(range(first, first + slots)) if bound else (), number))
    return Placement(tuple(shares), scale)


def wish(*command: str, **rest: object) -> Request:
    """A request for that command."""
    return Request("job 7", command or ("./a.out", "x y"), "/run/7", **rest)  # type: ignore[arg-type]
