"""As whom a job runs, and its output files, which are its owner's and are opened with its owner's rights only."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import msgspec

from cohabit.backend.protocol import BackendError, Launch


class Person(msgspec.Struct, frozen=True):
    """A user of this machine, as the runner becomes it."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str
    home: str
    shell: str

    @property
    def environment(self) -> dict[str, str]:
        """What a login would set."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}


def person_of(launch: Launch) -> Person | None:
    """Whom the job is to become; None: it stays who we are. BackendError where we may not become that user."""
    if launch.uid < 0:
        return None
    if os.geteuid() != 0:
        if launch.uid == os.geteuid():
            return None
        raise BackendError(f"it belongs to user {launch.uid}, and only a service that runs as root can run it as that")
    try:
        known = pwd.getpwuid(launch.uid)
    except KeyError:
        known = pwd.struct_passwd((str(launch.uid), "", launch.uid, launch.uid, "", "/", "/bin/sh"))
    gid = launch.gid if launch.gid >= 0 else known.pw_gid
    groups = launch.groups or tuple(os.getgrouplist(known.pw_name, gid))
    home = known.pw_dir if os.path.isdir(known.pw_dir) else "/"
    return Person(launch.uid, gid, groups, known.pw_name, home, known.pw_shell or "/bin/sh")


def make_folder_of(person: Person, folder: Path) -> None:
    """A folder that is this user's alone, in one that is ours."""
    folder.mkdir(mode=0o700, exist_ok=True)
    os.chown(folder, person.uid, person.gid)
