"""The launcher's settings, and the users it starts programs as.

Settings come from the process that starts it, which has its rights; the controller cannot change them. The controller
names a user; the machine's accounts give the user's groups.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cohabit.launcher.requests import Refused

MIB = 1 << 20
OUTPUT_MOST = 1024 * MIB
MIN_UID = 1000  # first uid of ordinary users on every common distribution


@dataclass(frozen=True)
class Users:
    """The users that the site allows. `own` are the uid and gid that -1 stands for: the controller's account.

    `strict`: the controller has fewer rights than the launcher, so root and system accounts are refused.
    """

    own: tuple[int, int]
    strict: bool
    min_uid: int = MIN_UID
    listed: tuple[int, ...] = ()

    def person(self, uid: int, gid: int, groups: Sequence[int]) -> dict[str, Any] | None:
        """Return the user a program runs as, with groups that the account really has; None: the launcher's own user."""
        if os.geteuid() != 0:
            if uid in (-1, os.geteuid()):
                return None
            raise Refused(f"it belongs to user {uid}, and only a service that runs as root can run it as that user")
        if uid == -1 and not self.strict:
            return None
        if uid == -1:
            return {"uid": self.own[0], "gid": self.own[1], "groups": [self.own[1]]}
        if reason := refusal(uid, self.strict, self.min_uid, self.listed, self.own[0]):
            raise Refused(reason)
        return self._with_groups(uid, gid, groups)

    def _with_groups(self, uid: int, gid: int, groups: Sequence[int]) -> dict[str, Any]:
        try:
            known = pwd.getpwuid(uid)
        except KeyError:  # no account here: keep the group of the request unless it is a system group
            gid = uid if gid < 0 else gid
            if self.strict and gid < self.min_uid and gid not in self.listed:
                raise Refused(f"user {uid} has no account here, and group {gid} is one of the system's") from None
            return {"uid": uid, "gid": gid, "groups": [gid]}
        gid = known.pw_gid if gid < 0 else gid
        own = {known.pw_gid, *os.getgrouplist(known.pw_name, known.pw_gid)}
        wanted = list(groups) or sorted(own)
        if self.strict and (strange := {gid, *wanted} - own):
            raise Refused(f"user {known.pw_name} is not in group {min(strange)}")
        return {"uid": uid, "gid": gid, "groups": wanted}


def refusal(uid: int, strict: bool, min_uid: int, listed: Sequence[int], service: int = -1) -> str:
    """Return why jobs of this user are not run; empty: they are run."""
    if not strict or uid in listed:
        return ""
    if uid == service:
        return f"user {uid} is the account of the service itself, and runs no jobs"
    if uid < min_uid:
        user = "root" if uid == 0 else f"user {uid}"
        return f"jobs of {user} are not run here: uids below {min_uid} are refused unless the site file lists them"
    return ""


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
