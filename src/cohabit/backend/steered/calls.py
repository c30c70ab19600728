"""Run a manager's commands with a short time-out on each and few at once; tell refusals from missing answers.

It interprets nothing it reads. Read-only calls, for shadow mode, refuse whatever could change something before a
process is started.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping, Sequence

from cohabit.backend.bounded_process import OURSELVES, Owner, TooMuch, run_bounded
from cohabit.backend.launcher_link import LauncherGone, LauncherLink, LauncherRefused
from cohabit.backend.steered.contract import Forbidden, ManagerAway, ManagerRefused, Words
from cohabit.launcher.requests import PATIENCE

TIMEOUT_S = 10.0
AT_ONCE = 4
MOST_BYTES = 2**28  # output limit of our own commands: every job of a large cluster
MOST_BYTES_OF_OTHERS = 2**16  # output limit of commands that run as another user: the number of a job, or an error


class ManagerCalls:
    """Runs commands for one cluster. Each manager has a subclass."""

    only_reads = False

    def __init__(
        self,
        environment: dict[str, str],
        changes_nothing: Callable[[Words], bool],
        absent: Sequence[str],
        timeout_s: float,
        link: LauncherLink | None,
    ) -> None:
        """`changes_nothing`: whether a call only reads; `absent`: texts that mean that no controller answered. `link`:
        a launcher with other rights runs the commands, in the environment that it was given."""
        self.environment, self._changes_nothing, self._absent = environment, changes_nothing, absent
        self.timeout_s, self.made, self._link = timeout_s, 0, link
        self._free = asyncio.Semaphore(AT_ONCE)

    @property
    def acts_as(self) -> int:
        """The uid that the manager sees: a launcher with other rights is root."""
        return os.geteuid() if self._link is None else 0

    async def __call__(self, words: Words, given: str = "") -> str:
        """Return what the command prints for this input; ManagerRefused or ManagerAway if it fails."""
        return await self.run(words, given, self.environment)

    async def run(self, words: Words, given: str, environment: Mapping[str, str], owner: Owner = OURSELVES) -> str:
        """Run a command in another environment, and as another user if one is named (root only). Every process for a
        manager is started here."""
        if self.only_reads and (given or owner.uid >= 0 or not self._changes_nothing(words)):
            raise Forbidden(f"`{' '.join(words)}` would change something; this mode only watches")
        most_bytes = MOST_BYTES if owner.uid < 0 else MOST_BYTES_OF_OTHERS
        async with self._free:
            self.made += 1
            if self._link is not None:
                return self.judged(words, *await self._ask(self._link, words, given, environment, owner))
            argv = (self.program(words[0]), *words[1:])
            try:
                code, out, err = await run_bounded(argv, given.encode(), environment, self.timeout_s, most_bytes, owner)
            except TimeoutError:
                raise ManagerAway(f"{words[0]} did not end within {self.timeout_s:g} s") from None
            except TooMuch:
                raise ManagerAway(f"{words[0]} printed more than {most_bytes} bytes") from None
            except OSError as error:
                raise ManagerAway(f"{words[0]} cannot be run: {(error.strerror or str(error)).lower()}") from error
            except ValueError as error:  # a null byte, or text that cannot be encoded
                raise ManagerRefused(f"{words[0]} cannot be called this way: {error}") from error
        return self.judged(words, code, out.decode(errors="replace"), err.decode(errors="replace"))

    async def _ask(
        self, link: LauncherLink, words: Words, given: str, environment: Mapping[str, str], owner: Owner
    ) -> tuple[int, str, str]:
        """Run it through the launcher; return how it ended and what it printed."""
        try:
            found = await link.ask(
                "command",
                words=list(words),
                given=given,
                uid=owner.uid,
                gid=owner.gid,
                groups=list(owner.groups),
                patience_s=max(round(self.timeout_s), 1),
                threshold_patience=environment.get(PATIENCE, ""),
            )
        except LauncherRefused as error:
            raise (ManagerAway if error.number else ManagerRefused)(f"{words[0]} cannot be run: {error}") from error
        except LauncherGone as error:
            raise ManagerAway(str(error)) from error
        with open(found["descriptor"], "rb") as stream:
            stream.seek(0)
            return found["code"], stream.read().decode(errors="replace"), found["err"]

    def program(self, name: str) -> str:
        """Return the file of a command, in one of the folders of our own environment."""
        return shutil.which(name, path=self.environment["PATH"]) or name

    def judged(self, words: Words, code: int, out: str, err: str) -> str:
        """Return what it printed, or raise the fitting exception: some commands exit with 0 even without an answer, and
        refusals come on either stream."""
        said = " ".join(err.split())
        if any(sign in said.lower() for sign in self._absent):
            raise ManagerAway(said)
        if code:
            raise ManagerRefused(said or " ".join(out.split())[:200] or f"{words[0]} ended with status {code}")
        return out
