"""[slurm] of a site file: what is steered and how. Apart from the rest so that the kill switch needs nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec


class SlurmTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[slurm]"""

    partitions: list[str] = []  # none: all that are up
    conf: str = ""  # its slurm.conf, where the commands do not find it themselves
    held: str = "marked"  # "marked": jobs that job_submit.lua held; "all": every held job of these partitions
    program: str = "name"  # where a job's program is named: its name, command or comment, or none
    poll_s: float = 1.0
    start_within_s: float = 20.0  # a released job that Slurm has not started by then is decided upon anew
    lease_s: float = 60.0
    lease: str = ""  # the file; "": PLACE/lease
    rest: str = ""  # slurmrestd: unix:PATH or a URL; "": Slurm's commands
    rest_token: str = ""  # a file with a token (JWT) for it; "": none
    orders: str = (
        ""  # a folder the nodes see: how their caches are divided (docs/node-side.md); "": nobody divides them
    )
    mates_within_s: float = 2.0  # the same as start_within_s for a job whose mates start elsewhere at that instant


def lease_of(folder: Path, place: Path, slurm: SlurmTable) -> Path:
    """The file of the lease; `folder` is the site file's."""
    return folder / slurm.lease if slurm.lease else place / "lease"
