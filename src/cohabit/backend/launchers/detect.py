"""What this machine offers to frameworks, built from what was found as the job's user (launcher/probing.py)."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from cohabit.backend.launchers.contract import Site
from cohabit.backend.launchers.mpi import parse_version


def site_of(found: Mapping[str, str], uid: int) -> Site:
    """Return the site as a job of this user finds it."""
    mpi, version = parse_version(found["mpi_said"]) if found["mpirun"] else ("", "")
    name = socket.gethostname()
    return Site(
        python=found["python"], mpirun=found["mpirun"], mpi=mpi, mpi_version=version, spark=found["spark"],
        root=uid == 0, here=frozenset({"localhost", "127.0.0.1", name, name.partition(".")[0]}),
    )  # fmt: skip
