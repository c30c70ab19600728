"""Running Slurm's commands: a short time-out on each, few at once, refusals and absence told apart.

It interprets nothing it reads. `ReadOnly` is the one that shadow mode uses: it refuses every call that could change
something before a process is made.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

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
    """Runs commands for one cluster, whose slurm.conf may be named."""

    def __init__(self, conf: str = "", timeout_s: float = TIMEOUT_S) -> None:
        self.environment = environment_of(conf, os.environ)
        self.timeout_s, self.made = timeout_s, 0
        self._free = asyncio.Semaphore(AT_ONCE)

    async def __call__(self, words: Words) -> str:
        """What the command prints; SlurmRefused or SlurmAway if it fails."""
        async with self._free:
            self.made += 1
            try:
                process = await asyncio.create_subprocess_exec(
                    *words, env=self.environment, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                )  # fmt: skip
            except OSError as error:
                raise SlurmAway(f"{words[0]} cannot be run: {(error.strerror or str(error)).lower()}") from error
            try:
                out, err = await asyncio.wait_for(process.communicate(), self.timeout_s)
            except TimeoutError:
                raise SlurmAway(f"{words[0]} did not end within {self.timeout_s:g} s") from None
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        return judged(words, process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace"))


class ReadOnly(Calls):
    """Refuses whatever could change something."""

    async def __call__(self, words: Words) -> str:
        """Only calls that read."""
        if not changes_nothing(words):
            raise Forbidden(f"`{' '.join(words)}` would change something; this mode only watches")
        return await super().__call__(words)


def judged(words: Words, code: int, out: str, err: str) -> str:
    """What it printed, or the fitting exception. scancel ends well even where it could not reach anybody."""
    said = " ".join(err.split())
    if any(sign in said.lower() for sign in ABSENT):
        raise SlurmAway(said)
    if code:
        raise SlurmRefused(said or f"{words[0]} ended with status {code}")
    return out


def environment_of(conf: str, around: Mapping[str, str]) -> dict[str, str]:
    """Without the settings by which users change what commands print."""
    kept = {key: value for key, value in around.items() if not key.startswith(DISTURBING)}
    return kept | {"LC_ALL": "C"} | ({"SLURM_CONF": conf} if conf else {})
