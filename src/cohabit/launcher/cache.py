"""Write to resctrl for the controller: groups with our prefix only, `schemata` and `tasks` only."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from cohabit.agent.resctrl.files import HostFiles, find_mount
from cohabit.launcher.requests import Refused
from cohabit.launcher.settings import Users
from cohabit.launcher.wire import Message


class Resctrl:
    """`root`: where resctrl is mounted; "": as in the table of mounts. The names in requests have been checked."""

    def __init__(self, root: str, users: Users) -> None:
        self._root, self._users, self._files = root, users, HostFiles()

    def group(self, path: str) -> Path:
        """Return the path of one of our groups."""
        if self._root:
            return Path(self._root) / path
        mount = find_mount()
        if mount is None:
            raise Refused("resctrl is not mounted", errno.ENOENT)
        return mount.root / path

    def make(self, request: Message) -> None:
        self._files.make(self.group(request["group"]))

    def remove(self, request: Message) -> None:
        self._files.remove(self.group(request["group"]))

    def move(self, request: Message) -> None:
        """Move a monitoring group to another class."""
        self._files.move(self.group(request["source"]), self.group(request["target"]))

    def write(self, request: Message) -> None:
        """Write the schemata of a class, or put a thread into a group."""
        if request["file"] == "tasks":
            self._check_task(request["text"])
        self._files.write(self.group(request["group"]) / request["file"], request["text"])

    def _check_task(self, text: str) -> None:
        """Refuse to move threads of users that may not run jobs here."""
        if not text.strip().isdigit():
            raise Refused("it is not a thread", errno.EINVAL)
        try:
            uid = os.stat(f"/proc/{int(text)}").st_uid
        except FileNotFoundError:
            raise ProcessLookupError(errno.ESRCH, "it ended meanwhile") from None
        users = self._users
        if users.strict and uid < users.min_uid and uid not in (*users.listed, users.own[0]):
            raise Refused(f"thread {int(text)} belongs to user {uid}, whose jobs are not run here", errno.EPERM)
