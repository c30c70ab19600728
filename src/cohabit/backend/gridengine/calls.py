"""Running Grid Engine's commands: a time-out on each, few at once, refusals and absence told apart.

It interprets nothing it reads. The exceptions are those of the Slurm back end, which steers through them. `ReadOnly`
refuses every call that could change something before a process is made.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from cohabit.backend.gridengine.commands import Words, changes_nothing
from cohabit.backend.slurm.calls import Forbidden, SlurmAway, SlurmRefused

TIMEOUT_S = 10.0
AT_ONCE = 4
ABSENT = (  # what commands say when qmaster does not answer
    "unable to contact qmaster", "unable to send message to qmaster", "commlib error", "got send error",
    "got send timeout", "connection refused", "can't connect", "failed receiving gdi request", "can't unpack gdi",
    "communication error", "unable to connect",
)  # fmt: skip


class Calls:
    """Runs commands for one cluster: `bin` is the folder they are in (empty: on the path), `root` and `cell` lead them
    to it (empty: as the environment does)."""

    def __init__(self, bin: str = "", root: str = "", cell: str = "", timeout_s: float = TIMEOUT_S) -> None:
        self.environment = environment_of(root, cell, os.environ)
        self.bin, self.timeout_s, self.made = bin, timeout_s, 0
        self._free = asyncio.Semaphore(AT_ONCE)

    async def __call__(self, words: Words) -> str:
        """What the command prints; SlurmRefused or SlurmAway if it fails."""
        program = str(Path(self.bin) / words[0]) if self.bin else words[0]
        async with self._free:
            self.made += 1
            try:
                process = await asyncio.create_subprocess_exec(
                    program, *words[1:], env=self.environment, stdin=asyncio.subprocess.DEVNULL, cwd="/",
                    stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
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
    """What it printed, or the fitting exception. Refusals come on either stream."""
    said = " ".join(err.split())
    if any(sign in said.lower() for sign in ABSENT):
        raise SlurmAway(said)
    if code:
        raise SlurmRefused(said or " ".join(out.split())[:200] or f"{words[0]} ended with status {code}")
    return out


def environment_of(root: str, cell: str, around: Mapping[str, str]) -> dict[str, str]:
    """In plain English, and led to the right cluster."""
    found = dict(around) | {"LC_ALL": "C"}
    return found | ({"SGE_ROOT": root} if root else {}) | ({"SGE_CELL": cell} if cell else {})
