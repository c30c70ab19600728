"""Running Slurm's commands: a short time-out on each, few at once, refusals and absence told apart.

It interprets nothing it reads. `ReadOnly` is the one that shadow mode uses: it refuses every call that could change
something before a process is made.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any

from cohabit.backend.slurm.commands import Words, changes_nothing

TIMEOUT_S = 10.0
AT_ONCE = 4
ABSENT = (  # what commands say when slurmctld or munge does not answer
    "unable to contact slurm controller", "connection refused", "socket timed out", "connect failure",
    "slurm backup controller", "unable to establish control machine", "munge encode failed", "protocol authentication",
    "communication connection", "connection timed out", "transport endpoint", "unable to connect",
    "missing socket error", "zero bytes were transmitted", "message send failure", "message receive failure",
    "connection reset", "broken pipe", "header lengths", "resource temporarily unavailable",
)  # fmt: skip
DISTURBING = ("SQUEUE_", "SINFO_", "SACCT_", "SCONTROL_", "SLURM_TIME_FORMAT", "SLURM_CLUSTERS", "SLURM_JSON",
              "SLURM_BITSTR_LEN")  # fmt: skip


class SlurmRefused(Exception):
    """Slurm answered, and the answer is no; the text says why."""


class SlurmAway(Exception):
    """Slurm did not answer: whether the call had an effect is not known."""


class Forbidden(Exception):
    """A call that could change something, where nothing may be changed."""


class Calls:
    """Runs commands for one cluster, whose slurm.conf may be named. Whoever runs those of another manager says in the
    methods below what differs (backend/gridengine)."""

    only_reads = False
    folder: str | None = None  # where commands run; None: where the controller does

    def __init__(self, conf: str = "", timeout_s: float = TIMEOUT_S) -> None:
        self.environment = environment_of(conf, os.environ)
        self.timeout_s, self.made = timeout_s, 0
        self._free = asyncio.Semaphore(AT_ONCE)

    async def __call__(self, words: Words, given: str = "") -> str:
        """What the command prints when it is given this; SlurmRefused or SlurmAway if it fails."""
        return await self.run(words, given, self.environment)

    async def run(
        self, words: Words, given: str, environment: Mapping[str, str], uid: int = -1, gid: int = -1,
        groups: Sequence[int] = (),
    ) -> str:  # fmt: skip
        """The same in another environment, and as another user if one is named (root only)."""
        if self.only_reads and (given or uid >= 0 or not self.changes_nothing(words)):
            raise Forbidden(f"`{' '.join(words)}` would change something; this mode only watches")
        person: dict[str, Any] = {} if uid < 0 else {"user": uid, "group": gid, "extra_groups": list(groups)}
        async with self._free:
            self.made += 1
            try:
                process = await asyncio.create_subprocess_exec(
                    self.program(words[0]), *words[1:], env=environment, stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=self.folder, **person,
                )  # fmt: skip
            except OSError as error:
                raise SlurmAway(f"{words[0]} cannot be run: {(error.strerror or str(error)).lower()}") from error
            try:
                out, err = await asyncio.wait_for(process.communicate(given.encode()), self.timeout_s)
            except TimeoutError:
                raise SlurmAway(f"{words[0]} did not end within {self.timeout_s:g} s") from None
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        return self.judged(words, process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace"))

    def program(self, name: str) -> str:
        """The file of a command."""
        return name

    def changes_nothing(self, words: Words) -> bool:
        """Whether a call only reads."""
        return changes_nothing(words)

    def judged(self, words: Words, code: int, out: str, err: str) -> str:
        """What it printed, or the fitting exception. scancel ends well even where it could not reach anybody."""
        return judged(words, code, out, err, ABSENT)


class ReadOnly(Calls):
    """Refuses whatever could change something."""

    only_reads = True


def judged(words: Words, code: int, out: str, err: str, absent: Sequence[str] = ABSENT) -> str:
    """What it printed, or the fitting exception. `absent`: what is said where nobody answers."""
    said = " ".join(err.split())
    if any(sign in said.lower() for sign in absent):
        raise SlurmAway(said)
    if code:
        raise SlurmRefused(said or " ".join(out.split())[:200] or f"{words[0]} ended with status {code}")
    return out


def environment_of(conf: str, around: Mapping[str, str]) -> dict[str, str]:
    """Without the settings by which users change what commands print; lists of array tasks in full."""
    kept = {key: value for key, value in around.items() if not key.startswith(DISTURBING)}
    return kept | {"LC_ALL": "C", "SLURM_BITSTR_LEN": "0"} | ({"SLURM_CONF": conf} if conf else {})
