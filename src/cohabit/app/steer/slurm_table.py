"""[slurm] of a site file: what is steered and how. A separate module so that the kill switch needs nothing else."""

from __future__ import annotations

import msgspec

from cohabit.app.steer.table import SteeringTable


class SlurmTable(SteeringTable, frozen=True, forbid_unknown_fields=True):
    """[slurm]"""

    partitions: list[str] = msgspec.field(default_factory=list)  # none: all that are up
    conf: str = ""  # its slurm.conf, where the commands do not find it themselves
    rest: str = ""  # slurmrestd: unix:PATH or a URL; "": Slurm's commands
    rest_token: str = ""  # a file with a token (JWT) for it; "": none
    orders: str = (
        ""  # a folder the nodes see: how their caches are divided (docs/node-side.md); "": caches are not divided
    )
