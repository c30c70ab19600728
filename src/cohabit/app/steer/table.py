"""The keys for steering that [slurm] and [gridengine] of a site file have in common.

A separate module because the kill switch needs no more.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import msgspec

from cohabit.app.scenario.typed_toml import refuse_for_root
from cohabit.live.controller.place import Place

SYSTEM = range(1000)  # uids of service accounts: a manager has its own


class SteeringTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys that every manager's table has."""

    held: str = "marked"  # "marked": jobs that were held for us at submission; "all": every held job of what is steered
    program: str = "name"  # where a job's program is named: its name, command or comment, or none
    poll_s: float = 1.0
    start_within_s: float = 20.0  # a released job that has not started by then is decided upon again
    lease_s: float = 60.0
    lease: str = ""  # the file; "": PLACE/lease
    mates_within_s: float = 0.0  # start_within_s for a job with mates that start elsewhere at that time; 0: see below

    AT_ONCE_S: ClassVar[float] = 2.0  # maximum time of such a start if mates do not wait for each other


def lease_of(folder: Path, place: Path, table: SteeringTable) -> Path:
    """Return the file of the lease; `folder` is the site file's."""
    return folder / table.lease if table.lease else Place(place).lease


def refuse_managers_files(*paths: str) -> None:
    """Refuse commands and settings of the manager that root would use and an ordinary account could change."""
    refuse_for_root(*(Path(text) for text in paths if text), also=SYSTEM)
