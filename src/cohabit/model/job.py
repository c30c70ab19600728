"""A job as its owner describes it. Its true run time is not here: the scheduler does not know it."""

from __future__ import annotations

import re

import msgspec

from cohabit.model.errors import InputError
from cohabit.model.group import Group

GAIN, NEVER = "gain", "never"  # of `Job.spread`
WORKLOAD_TYPES = ("compute", "network", "io")
ACCOUNT_WORDS = "1 to 64 letters, digits, dots, hyphens, underscores and @, the first not one of .-@"
_ACCOUNT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")


def is_account(text: str) -> bool:
    """Return whether this can be the name of an account."""
    return _ACCOUNT.fullmatch(text) is not None


class Job(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request for either `processes` (packed onto as few nodes as hold them) or whole `nodes`."""

    job_id: str
    limit_us: int
    processes: int = 1
    nodes: int = 0  # whole nodes; 0: as many as the processes need
    memory_bytes: int = 0  # per process; 0: not stated
    user: int = -1
    program: str = ""
    partition: str = ""  # "": any node open to all users
    qos: int = 0
    after: tuple[str, ...] = ()  # jobs that must have finished first
    after_any: bool = False  # True: however they finished; False: only if they finished well
    held: bool = False  # do not start until released
    array_first: int = 0
    array_count: int = 0  # more than 0: stands for that many jobs, job_id_FIRST and on
    array_at_most: int = 0  # how many of them may run at once; 0: no bound
    requeue: bool = True  # may be started again after its node was lost
    alpha: float = 0.0  # share of its solo speed it must keep when it shares nodes; 0: the site's default
    exclusive: bool = False  # its owner wants no other job on its nodes
    single_node: bool = False  # it cannot span nodes
    movable: bool = False  # its owner lets it be re-bound to another L3 domain of its server while it runs
    workload_type: str = ""  # compute, network or io for the variability gate; "": not stated
    skip_threshold: int = -1  # how often that gate may delay it, 0: never; below 0: the site's default
    reprofile: bool = False  # its program has changed: drop its profile
    mates: Group | None = None  # jobs in other domains with which it starts together
    profile_owner: str = ""  # owner of the profiles it uses and its runs write (model/profile.py); empty: shared
    service: str = ""  # the name of its quality of service; bounds of a site may name it
    account: str = ""  # what it is charged to, a project of Grid Engine; a site may share nodes within accounts
    spread: str = ""  # may it have more nodes than hold it? "": if the policy likes, GAIN: if known to gain, NEVER

    def check(self) -> None:
        """Refuse what is wrong on any cluster."""
        if self.processes < 1 or self.nodes < 0:
            raise InputError(f"job {self.job_id} asks for no processors", "job", "ask for at least one")
        if self.limit_us < 0:
            raise InputError(f"job {self.job_id} has a negative time limit", "job")
        if not 0 <= self.alpha <= 1:
            raise InputError(f"job {self.job_id} has alpha {self.alpha:g}", "job", "give a number above 0 up to 1")
        if self.workload_type not in ("", *WORKLOAD_TYPES):
            known = ", ".join(WORKLOAD_TYPES)
            raise InputError(f"job {self.job_id} has workload type {self.workload_type!r}", "job", f"use {known}")
        if self.spread not in ("", GAIN, NEVER):
            raise InputError(f"job {self.job_id} has spread {self.spread!r}", "job", f"use {GAIN} or {NEVER}")
        if self.job_id in self.after:
            raise InputError(f"job {self.job_id} waits for itself", "job")
        if self.array_count and self.mates is not None:
            raise InputError(f"job {self.job_id} is an array and has mates", "job", "submit its members one by one")
        if self.array_count < 0 or self.array_at_most < 0:
            raise InputError(f"job {self.job_id} has an array of negative size", "job")
