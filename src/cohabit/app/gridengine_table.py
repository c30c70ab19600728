"""[gridengine] of a site file: what is steered and how. Apart from the rest because the kill switch needs no more."""

from __future__ import annotations

from pathlib import Path

import msgspec


class GridEngineTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[gridengine]"""

    queue: str = "all.q"  # the one that is steered
    bin: str = ""  # the folder of Grid Engine's commands; "": they are on the path
    root: str = ""  # SGE_ROOT; "": as the environment has it
    cell: str = ""  # SGE_CELL; "": as the environment has it
    exclusive: str = (
        ""  # the complex by which a job gets hosts to itself; "": the only one of that kind, if there is one
    )
    checkpoint: str = "cohabit"  # the checkpointing environment by which a run can be stopped and queued again
    held: str = "marked"  # "marked": jobs that our verifier held; "all": every held job that names no other queue
    program: str = "name"  # where a job's program is named: its name, command or comment, or none
    poll_s: float = 1.0
    start_within_s: float = 20.0  # a released job that Grid Engine has not started by then is decided upon anew
    lease_s: float = 60.0
    lease: str = ""  # the file; "": PLACE/lease
    mates_within_s: float = 3.0  # the same as start_within_s for a job whose mates start elsewhere at that instant


def lease_of(folder: Path, place: Path, table: GridEngineTable) -> Path:
    """The file of the lease; `folder` is the site file's."""
    return folder / table.lease if table.lease else place / "lease"
