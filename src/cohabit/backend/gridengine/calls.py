"""Run Grid Engine's commands: where they are, which of them only read, and what they print without an answer.

Time-outs, users and exceptions are those of the Slurm back end. It interprets nothing it reads. `ReadOnly` refuses
every call that could change something before a process is started.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cohabit.backend.command_environment import clean_environment
from cohabit.backend.gridengine.commands import Words, changes_nothing
from cohabit.backend.launcher_link import LauncherLink
from cohabit.backend.slurm import calls

LED = ("SGE_ROOT", "SGE_CELL", "SGE_QMASTER_PORT", "SGE_EXECD_PORT", "SGE_CLUSTER_NAME", "LD_LIBRARY_PATH")
ABSENT = (  # what commands print when qmaster does not answer
    "unable to contact qmaster", "unable to send message to qmaster", "commlib error", "got send error",
    "got send timeout", "connection refused", "can't connect", "failed receiving gdi request", "can't unpack gdi",
    "communication error", "unable to connect",
)  # fmt: skip


class Calls(calls.Calls):
    """Runs commands for one cluster: `bin` is the folder of the commands (empty: on the path), `root` and `cell` select
    the cluster (empty: from the environment)."""

    def __init__(
        self, bin: str = "", root: str = "", cell: str = "", timeout_s: float = calls.TIMEOUT_S,
        link: LauncherLink | None = None,
    ) -> None:  # fmt: skip
        super().__init__(timeout_s=timeout_s, link=link)
        self.environment, self.bin = environment_of(root, cell, os.environ), bin

    def program(self, name: str) -> str:
        """Return the file of a command."""
        return str(Path(self.bin) / name) if self.bin else super().program(name)

    def changes_nothing(self, words: Words) -> bool:
        """Return whether a call only reads."""
        return changes_nothing(words)

    def judged(self, words: Words, code: int, out: str, err: str) -> str:
        """Return what it printed, or raise the fitting exception. Refusals come on either stream."""
        return calls.judged(words, code, out, err, ABSENT)


class ReadOnly(Calls):
    """Refuses every call that could change something."""

    only_reads = True


def environment_of(root: str, cell: str, around: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with English messages that selects the right cluster."""
    found = clean_environment(around, LED)
    return found | ({"SGE_ROOT": root} if root else {}) | ({"SGE_CELL": cell} if cell else {})
