"""Run Grid Engine's commands: where they are, and what they print without an answer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cohabit.backend.bounded_process import clean_environment
from cohabit.backend.gridengine.commands import changes_nothing
from cohabit.backend.launcher_link import LauncherLink
from cohabit.backend.steered.calls import TIMEOUT_S, ManagerCalls

LED = ("SGE_ROOT", "SGE_CELL", "SGE_QMASTER_PORT", "SGE_EXECD_PORT", "SGE_CLUSTER_NAME", "LD_LIBRARY_PATH")
ABSENT = (  # what commands print when qmaster does not answer
    "unable to contact qmaster", "unable to send message to qmaster", "commlib error", "got send error",
    "got send timeout", "connection refused", "can't connect", "failed receiving gdi request", "can't unpack gdi",
    "communication error", "unable to connect",
)  # fmt: skip


class Calls(ManagerCalls):
    """Runs commands for one cluster: `bin` is the folder of the commands (empty: on the path), `root` and `cell` select
    the cluster (empty: from the environment)."""

    def __init__(
        self,
        bin: str = "",
        root: str = "",
        cell: str = "",
        timeout_s: float = TIMEOUT_S,
        link: LauncherLink | None = None,
    ) -> None:
        super().__init__(environment_of(root, cell, os.environ), changes_nothing, ABSENT, timeout_s, link)
        self.bin = bin

    def program(self, name: str) -> str:
        """Return the file of a command."""
        return str(Path(self.bin) / name) if self.bin else super().program(name)


class ReadOnly(Calls):
    """Refuses every call that could change something."""

    only_reads = True


def environment_of(root: str, cell: str, around: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with English messages that selects the right cluster."""
    found = clean_environment(around, LED)
    return found | ({"SGE_ROOT": root} if root else {}) | ({"SGE_CELL": cell} if cell else {})
