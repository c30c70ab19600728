"""The users that jobs run as, and the users that are refused: [launcher] of a site file, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cohabit.launcher.settings import MIB, MIN_UID, refusal
from cohabit.model.errors import InputError


@dataclass(frozen=True)
class LauncherConfig:
    """[launcher]: the account of the controller, which users may run jobs, and how much these may write."""

    account: str = "cohabit"
    min_uid: int = MIN_UID
    uids: tuple[int, ...] = ()  # below min_uid, and accepted all the same
    max_output_mb: int = 1024  # of a job's output in the place; 0: no bound
    max_file_mb: int = 0  # of every file a job writes; 0: no bound

    def check(self, where: str) -> None:
        """Refuse what cannot work."""
        for key in ("min_uid", "max_output_mb", "max_file_mb"):
            if not 0 <= getattr(self, key) < 2**31:
                raise InputError(f"{key} = {getattr(self, key)}", where, "give a number from 0 up")
        if any(not 0 <= uid < 2**32 - 1 for uid in self.uids):
            raise InputError(f"uids = {list(self.uids)}", where, "give the uids of accounts")

    def told(self, place: Path) -> dict[str, Any]:
        """Return the settings for a launcher."""
        return {
            "place": str(place),
            "min_uid": self.min_uid,
            "uids": list(self.uids),
            "output_most": self.max_output_mb * MIB,
            "file_most": self.max_file_mb * MIB,
        }


class RunsAs(NamedTuple):
    """The users whose jobs are accepted, for the check of submissions."""

    separate: bool  # the launcher is root, and this process is not
    config: LauncherConfig
    own: int  # the uid of this process

    @property
    def launcher(self) -> int:
        """The uid of the launcher."""
        return 0 if self.separate else self.own

    @property
    def becomes_users(self) -> bool:
        """True if jobs run as their owners; otherwise all run as this process's user."""
        return self.separate or self.own == 0

    def refusal(self, uid: int) -> str:
        """Return why jobs of this user are not run; empty: they are."""
        return refusal(uid, self.separate, self.config.min_uid, self.config.uids, self.own)
