"""Run commands of a resource manager that need the launcher's rights, from a fixed list.

The launcher is told at its start which manager is steered, where its programs are, and the environment they get. The
controller names a program of that list with words that must have one of the forms the manager's own module allows
(slurm_words.py, gridengine_words.py). A submission runs as the owner of the job, everything else as the launcher.

The watchdog outlives its controller and is as unprivileged: it gets a channel to a launcher of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cohabit.launcher import acting, gridengine_words, slurm_words
from cohabit.launcher.process import FOLDER, begin
from cohabit.launcher.requests import PATIENCE, Refused
from cohabit.launcher.settings import Users

FORMS = {"slurm": slurm_words, "gridengine": gridengine_words}
OUTPUT_MOST = 1 << 28  # output limit of our own commands: every job of a large cluster
OUTPUT_OF_OTHERS_MOST = 1 << 16  # output limit of commands that run as another user: the number of a job, or an error
LOCK = "watchdog.lock"  # in the launcher's own folder


class Managers:
    """`settings` are the launcher's. For the manager they have `word` (its name), `programs` (name -> file),
    `environment` and `submission` (the environment of a submission). Empty: no manager is steered."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings, self._told = settings, settings.get("managers", {})

    def run(self, request: Mapping[str, Any], users: Users) -> tuple[dict[str, Any], int]:
        """Run a command; return how it ended with its error output, and a descriptor of its output."""
        if not self._told:
            raise Refused("no resource manager is steered from here")
        words, given = request["words"], request["given"]
        forms, program = FORMS[self._told["word"]], self._told["programs"].get(words[0] if words else "")
        if program is None:
            raise Refused(f"{words[0][:40] if words else ''!r} is not a command that is run here")
        if words[0] == forms.SUBMITS:
            forms.check_submission(words)
            person, environment = self._owner(request, users)
            most = OUTPUT_OF_OTHERS_MOST
        else:
            if (request["uid"], request["gid"], request["groups"]) != (-1, -1, []):
                raise Refused(f"{words[0]} is not run as another user")
            forms.check(words, given)
            person, environment, most = None, dict(self._told["environment"]), OUTPUT_MOST
        code, descriptor, said = acting.run_for(
            person, [program, *words[1:]], given.encode(), environment, request["patience_s"], most
        )
        return {"code": code, "err": said.decode(errors="replace")}, descriptor

    def _owner(self, request: Mapping[str, Any], users: Users) -> tuple[acting.Person | None, dict[str, str]]:
        """Return the user that a submission runs as, and its environment: ours, with what a login of that user sets."""
        uid = request["uid"]
        if uid < 0 and users.strict:
            raise Refused("a submission names its owner")
        person, environment = users.person(uid, request["gid"], request["groups"]), dict(self._told["submission"])
        with contextlib.suppress(KeyError):
            known = pwd.getpwuid(os.geteuid() if person is None else person["uid"])
            login = {"HOME": known.pw_dir, "USER": known.pw_name, "LOGNAME": known.pw_name, "SHELL": known.pw_shell}
            environment |= {key: value for key, value in login.items() if value}
        if request["threshold_patience"]:
            environment[PATIENCE] = request["threshold_patience"]
        return person, environment

    def open_channel(self, request: Mapping[str, Any]) -> tuple[bool, int]:
        """Return the other end of a channel to a new launcher like this one, for the watchdog. There is at most one: it
        holds the lock while it lives, and it ends when the channel is closed."""
        if not self._told:
            raise Refused("no resource manager is steered from here")
        with open(Path(self._settings["place"]) / FOLDER / LOCK, "ab", opener=_open) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refused("the watchdog has a launcher already") from None
            return True, begin({**self._settings, "socket": ""}, keep=(lock.fileno(),)).end.detach()


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
