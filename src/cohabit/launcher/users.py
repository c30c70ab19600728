"""Decide which users programs are started as. The controller names a user; the machine's accounts give its groups."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cohabit.launcher.requests import Refused

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
        who = "root" if uid == 0 else f"user {uid}"
        return f"jobs of {who} are not run here: uids below {min_uid} are refused unless the site file lists them"
    return ""
