"""Run Slurm's commands with a short time-out on each and few at once; distinguish refusals from missing answers.

It interprets nothing it reads. `ReadOnly` is for shadow mode: it refuses every call that could change something before
a process is started.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence

from cohabit.backend.bounded_process import TooMuch, run_bounded
from cohabit.backend.command_environment import clean_environment
from cohabit.backend.launcher_link import LauncherGone, LauncherLink, LauncherRefused
from cohabit.backend.slurm.batch_script import PATIENCE
from cohabit.backend.slurm.commands import Words, changes_nothing
from cohabit.backend.steered.failures import Forbidden, SlurmAway, SlurmRefused

__all__ = ["ABSENT", "TIMEOUT_S", "Calls", "Forbidden", "ReadOnly", "SlurmAway", "SlurmRefused", "judged"]

TIMEOUT_S = 10.0
AT_ONCE = 4
ABSENT = (  # what commands print when slurmctld or munge does not answer
    "unable to contact slurm controller", "connection refused", "socket timed out", "connect failure",
    "slurm backup controller", "unable to establish control machine", "munge encode failed", "protocol authentication",
    "communication connection", "connection timed out", "transport endpoint", "unable to connect",
    "missing socket error", "zero bytes were transmitted", "message send failure", "message receive failure",
    "connection reset", "broken pipe", "header lengths", "resource temporarily unavailable",
)  # fmt: skip
MOST_BYTES = 2**28  # output limit of our own commands: every job of a large cluster
MOST_BYTES_OF_OTHERS = 2**16  # output limit of commands that run as another user: the number of a job, or an error


class Calls:
    """Runs commands for one cluster; its slurm.conf may be named. Subclasses for other managers override the methods
    below (backend/gridengine)."""

    only_reads = False

    def __init__(self, conf: str = "", timeout_s: float = TIMEOUT_S, link: LauncherLink | None = None) -> None:
        """`link`: a launcher with other rights runs the commands, in the environment that it was given."""
        self.environment = environment_of(conf, os.environ)
        self.timeout_s, self.made, self._link = timeout_s, 0, link
        self._free = asyncio.Semaphore(AT_ONCE)

    @property
    def acts_as(self) -> int:
        """The uid that the manager sees: a launcher with other rights is root."""
        return os.geteuid() if self._link is None else 0

    async def __call__(self, words: Words, given: str = "") -> str:
        """Return what the command prints for this input; SlurmRefused or SlurmAway if it fails."""
        return await self.run(words, given, self.environment)

    async def run(
        self, words: Words, given: str, environment: Mapping[str, str], uid: int = -1, gid: int = -1,
        groups: Sequence[int] = (),
    ) -> str:  # fmt: skip
        """Run a command in another environment, and as another user if one is named (root only). Every process for a
        manager is started here."""
        if self.only_reads and (given or uid >= 0 or not self.changes_nothing(words)):
            raise Forbidden(f"`{' '.join(words)}` would change something; this mode only watches")
        most_bytes = MOST_BYTES if uid < 0 else MOST_BYTES_OF_OTHERS
        async with self._free:
            self.made += 1
            if self._link is not None:
                return self.judged(words, *await self._ask(self._link, words, given, environment, uid, gid, groups))
            argv = (self.program(words[0]), *words[1:])
            try:
                code, out, err = await run_bounded(
                    argv, given.encode(), environment, self.timeout_s, most_bytes, uid, gid, groups
                )
            except TimeoutError:
                raise SlurmAway(f"{words[0]} did not end within {self.timeout_s:g} s") from None
            except TooMuch:
                raise SlurmAway(f"{words[0]} printed more than {most_bytes} bytes") from None
            except OSError as error:
                raise SlurmAway(f"{words[0]} cannot be run: {(error.strerror or str(error)).lower()}") from error
            except ValueError as error:  # a null byte, or text that cannot be encoded
                raise SlurmRefused(f"{words[0]} cannot be called so: {error}") from error
        return self.judged(words, code, out.decode(errors="replace"), err.decode(errors="replace"))

    async def _ask(
        self, link: LauncherLink, words: Words, given: str, environment: Mapping[str, str], uid: int, gid: int,
        groups: Sequence[int],
    ) -> tuple[int, str, str]:  # fmt: skip
        """Run it through the launcher; return how it ended and what it printed."""
        try:
            found = await link.ask(
                "command", words=list(words), given=given, uid=uid, gid=gid, groups=list(groups),
                patience_s=max(round(self.timeout_s), 1), threshold_patience=environment.get(PATIENCE, ""),
            )  # fmt: skip
        except LauncherRefused as error:
            raise (SlurmAway if error.number else SlurmRefused)(f"{words[0]} cannot be run: {error}") from error
        except LauncherGone as error:
            raise SlurmAway(str(error)) from error
        with open(found["descriptor"], "rb") as stream:
            stream.seek(0)
            return found["code"], stream.read().decode(errors="replace"), found["err"]

    def program(self, name: str) -> str:
        """Return the file of a command, in one of the folders of our own environment."""
        return shutil.which(name, path=self.environment["PATH"]) or name

    def changes_nothing(self, words: Words) -> bool:
        """Return whether a call only reads."""
        return changes_nothing(words)

    def judged(self, words: Words, code: int, out: str, err: str) -> str:
        """Return what it printed, or raise the fitting exception. scancel exits with 0 even without an answer."""
        return judged(words, code, out, err, ABSENT)


class ReadOnly(Calls):
    """Refuses every call that could change something."""

    only_reads = True


def judged(words: Words, code: int, out: str, err: str, absent: Sequence[str] = ABSENT) -> str:
    """Return what it printed, or raise the fitting exception. `absent`: texts that mean that no controller answered."""
    said = " ".join(err.split())
    if any(sign in said.lower() for sign in absent):
        raise SlurmAway(said)
    if code:
        raise SlurmRefused(said or " ".join(out.split())[:200] or f"{words[0]} ended with status {code}")
    return out


def environment_of(conf: str, around: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that does not change what commands print or how; lists of array tasks are in full."""
    conf = conf or around.get("SLURM_CONF", "")
    found = clean_environment(around, ()) | {"SLURM_BITSTR_LEN": "0"}
    return found | ({"SLURM_CONF": os.path.abspath(conf)} if conf else {})
