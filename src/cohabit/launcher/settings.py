"""The launcher's settings, from the process that starts it, which has its rights; the controller cannot change them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cohabit.agent import control_groups
from cohabit.launcher.users import MIN_UID, Users

MIB = 1 << 20
OUTPUT_MOST = 1024 * MIB


@dataclass(frozen=True)
class Settings:
    """The settings of one place. Amounts are in bytes, 0: no bound."""

    place: Path
    users: Users
    output_most: int = OUTPUT_MOST  # of a job's output in the place
    file_most: int = 0  # of every file a job writes
    resctrl: str = ""  # "": where it is mounted
    trees: Mapping[str, str] | None = None  # of control groups; None: what is mounted
    runs: bool = True  # False: it runs no jobs, only commands of a manager
    socket: str = ""  # removed when the controller has gone
    socket_inode: int = 0
    managers: Mapping[str, Any] = field(default_factory=dict)  # see managing.py

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Settings:
        """Make settings from plain data."""
        users = Users(tuple(told["own"]), told["strict"], told.get("min_uid", MIN_UID), tuple(told.get("uids", ())))
        rest = {key: told[key] for key in told if key not in ("place", "own", "strict", "min_uid", "uids")}
        return cls(Path(told["place"]), users, **rest)

    def find_trees(self) -> dict[str, str]:
        """Return where control groups can be made."""
        return control_groups.find_trees() if self.trees is None else dict(self.trees)
