"""Jobs, nodes and the steered cluster of a manager as data, the same for every manager, version or form of reading.

Plain data; translate.py and watcher.py decide what Cohabit makes of it. States are named in Slurm's words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from cohabit.backend.protocol import CANCELLED, DONE, KILLED, LOST
from cohabit.model.cluster import Cluster
from cohabit.model.group import Group

PENDING, RUNNING, SUSPENDED = "PENDING", "RUNNING", "SUSPENDED"
# States in which a job is on its nodes, or on its way there.
ON_NODES = (RUNNING, SUSPENDED, "CONFIGURING", "COMPLETING", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
# States in which it waits, besides PENDING: it was stopped and will be queued.
WAITING = (PENDING, "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD")
UNFINISHED = (*WAITING, *ON_NODES)  # an end reported for such a job is only expected
# What a run that ended in such a state counts as; in any other: failed.
STATUS = {
    "COMPLETED": DONE, "CANCELLED": CANCELLED, "TIMEOUT": KILLED, "DEADLINE": KILLED, "NODE_FAIL": LOST,
    "BOOT_FAIL": LOST, "REVOKED": CANCELLED,
}  # fmt: skip
BY_OWNER, BY_ADMINISTRATOR = "its owner", "an administrator"  # holds that are not ours
# How a job that did not ask for whole nodes gets them: asked for as such, or by all of a node's cores. "": not at all.
# Of Slurm only 22.05 gives all cores to every job; others give the cores of its tasks, or never start it.
BY_REQUEST, BY_CORES, NOT_WHOLE = "request", "cores", ""


class ManagerJob(msgspec.Struct, frozen=True):
    """One job; a task of an array is a job, named ARRAY_TASK."""

    name: str
    number: int  # in commands; a waiting task of an array has its array's number
    state: str
    reason: str = ""
    held: bool = False
    user: int = -1
    job_name: str = ""
    command: str = ""
    comment: str = ""
    mark: str = ""  # the administrators' comment: where we write what we did
    partition: str = ""
    dependency: str = ""
    tasks: int = 1
    cpus: int = 1
    cpus_per_task: int = 1
    tasks_per_node: int = 0  # 0: not stated
    nodes_least: int = 1
    nodes_most: int = 0  # 0: not stated
    cpus_per_node: int = 1  # minimum on each node
    memory_per_cpu_mb: int = 0
    memory_per_node_mb: int = 0
    limit_s: float | None = None  # None: no limit
    exclusive: bool = False
    requeue: bool = True
    restarts: int = 0
    required_nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()  # where it runs
    cores_on: dict[str, int] = {}  # node -> cores it has there, if known
    submit_s: float = 0.0
    begin_s: float = 0.0  # not before this instant; 0: at any time
    start_s: float = 0.0
    eligible_s: float = 0.0  # since when it is eligible to run; 0: not known yet
    end_s: float = 0.0
    exit_status: int | None = None
    exit_signal: int | None = None
    array: str = ""  # the array it is a task of
    array_at_most: int = 0  # most tasks that may run at once; 0: no bound
    special: tuple[str, ...] = ()  # what it asks for that only the manager understands
    mates: str = ""  # its group; `name` is then its name in the group
    account: str = ""  # Slurm's account, or Grid Engine's project
    held_by: str = ""  # who else than us holds it, as far as the manager's records tell

    @property
    def waits(self) -> bool:
        """Return whether it is in the manager's queue."""
        return self.state in WAITING

    @property
    def runs(self) -> bool:
        """Return whether it is on its nodes or about to be."""
        return self.state in ON_NODES


class ManagerNode(msgspec.Struct, frozen=True):
    """One node."""

    name: str
    cpus: int
    threads: int = 1  # per core
    memory_mb: int = 0
    partitions: tuple[str, ...] = ()
    states: tuple[str, ...] = ()  # upper case: IDLE, DRAIN, ...


class ManagerWindow(msgspec.Struct, frozen=True):
    """A reservation or maintenance: from begin to end the nodes start no jobs that do not name it (Unix time)."""

    name: str
    begin_s: float
    end_s: float
    nodes: tuple[str, ...]


class Ended(msgspec.Struct, frozen=True):
    """The end of a job, from the accounting."""

    name: str
    state: str
    exit_status: int | None = None
    exit_signal: int | None = None


def no_group(name: str) -> Group | None:
    """Return None: the site file has no mates."""


class Terms(NamedTuple):
    """The settings for taking jobs."""

    partitions: tuple[str, ...]  # the steered partitions
    all_held: bool = False  # every held job in them is ours, even without a mark
    program: str = "name"  # where the name of its program is
    node_cpus: int = 1  # of the smallest node
    threads: int = 1  # CPUs of a core: whole cores are given out
    memory: bool = False  # the manager books memory
    domain: str = ""  # our name among mates elsewhere; empty: there are none
    group_of: Callable[[str], Group | None] = no_group  # the group of that name
    takes_again: bool = True  # jobs that we gave back and that still wait
    since_s: float = 0.0  # of all held jobs only what was submitted since then, and it gets a mark; 0: all, without


@dataclass(frozen=True)
class Discovered:
    """The steered part of the cluster."""

    cluster: Cluster
    names: tuple[str, ...]  # of its nodes, by their numbers
    cpus: tuple[int, ...]
    terms: Terms
    version: str
    whole_nodes_because: str  # why jobs cannot share nodes here; empty: they can
    whole_by: str = BY_CORES
    core_jobs: int = 1  # jobs that may share a core, if they ask for that
    shares_cores: bool = False  # the policy makes use of it
    mpi: tuple[str, ...] | None = None  # how the manager can start ranks of MPI; None: not known
    manager_uid: int = 0  # the account the manager itself runs as, which may do what root may
    has_operators: bool = True  # it may know other accounts that may change any job
    owners_holds_seen: bool = True  # an owner's hold of a job that we hold can be seen
