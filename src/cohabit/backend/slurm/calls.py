"""Run Slurm's commands: what they print without an answer, and the environment that leads them to their cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping

from cohabit.backend.bounded_process import clean_environment
from cohabit.backend.launcher_link import LauncherLink
from cohabit.backend.slurm.commands import changes_nothing
from cohabit.backend.steered.calls import TIMEOUT_S, ManagerCalls

LED = ("SLURM_CONF", "LD_LIBRARY_PATH")  # variables that lead a process to its cluster
ABSENT = (  # what commands print when slurmctld or munge does not answer
    "unable to contact slurm controller", "connection refused", "socket timed out", "connect failure",
    "slurm backup controller", "unable to establish control machine", "munge encode failed", "protocol authentication",
    "communication connection", "connection timed out", "transport endpoint", "unable to connect",
    "missing socket error", "zero bytes were transmitted", "message send failure", "message receive failure",
    "connection reset", "broken pipe", "header lengths", "resource temporarily unavailable",
    "unexpected message received",
)  # fmt: skip


class Calls(ManagerCalls):
    """Runs commands for one cluster; its slurm.conf may be named."""

    def __init__(self, conf: str = "", timeout_s: float = TIMEOUT_S, link: LauncherLink | None = None) -> None:
        super().__init__(environment_of(conf, os.environ), changes_nothing, ABSENT, timeout_s, link)


class ReadOnly(Calls):
    """Refuses every call that could change something."""

    only_reads = True


def environment_of(conf: str, around: Mapping[str, str]) -> dict[str, str]:
    """Return an environment that does not change what commands print or how; lists of array tasks are in full."""
    conf = conf or around.get("SLURM_CONF", "")
    found = clean_environment(around, ()) | {"SLURM_BITSTR_LEN": "0"}
    return found | ({"SLURM_CONF": os.path.abspath(conf)} if conf else {})
