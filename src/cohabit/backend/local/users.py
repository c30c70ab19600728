"""What a login of a job's user would set. The launcher decides which user a job may run as (launcher/users.py)."""

from __future__ import annotations

import os
import pwd

import msgspec

from cohabit.backend.protocol import BackendError, Launch


class Person(msgspec.Struct, frozen=True):
    """A user of this machine."""

    uid: int
    name: str
    home: str
    shell: str

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that a login would set."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}


def person_of(launch: Launch, separate: bool) -> Person | None:
    """Return the user that the job runs as; None: the account of the service. `separate`: the launcher is root."""
    if launch.uid < 0:
        return None
    if os.geteuid() != 0 and not separate:
        if launch.uid == os.geteuid():
            return None
        raise BackendError(f"it belongs to user {launch.uid}, and only a service that runs as root can run it as that")
    try:
        known = pwd.getpwuid(launch.uid)
    except KeyError:
        known = pwd.struct_passwd((str(launch.uid), "", launch.uid, launch.uid, "", "/", "/bin/sh"))
    home = known.pw_dir if known.pw_dir and os.path.isdir(known.pw_dir) else "/"
    return Person(launch.uid, known.pw_name, home, known.pw_shell or "/bin/sh")
