"""Slurm's jobs, nodes and partitions as data, the same for every version or form they were read from.

Plain data; translate.py and differences.py decide what Cohabit makes of it.
"""

from __future__ import annotations

import msgspec

PENDING, RUNNING, SUSPENDED = "PENDING", "RUNNING", "SUSPENDED"
HELD_BY_USER = "JobHeldUser"
# States in which a job is on its nodes, or on its way there.
ON_NODES = (RUNNING, SUSPENDED, "CONFIGURING", "COMPLETING", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
# States in which it waits, besides PENDING: it was stopped and will be queued.
WAITING = (PENDING, "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD")
UNFINISHED = (*WAITING, *ON_NODES)  # an end reported for such a job is only expected


class SlurmJob(msgspec.Struct, frozen=True):
    """One job; a task of an array is a job, named ARRAY_TASK."""

    name: str
    number: int  # Slurm's number in commands; a waiting task of an array has its array's number
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
    special: tuple[str, ...] = ()  # what it asks for that only Slurm understands
    mates: str = ""  # its group; `name` is then its name in the group

    @property
    def waits(self) -> bool:
        """Return whether it is in Slurm's queue."""
        return self.state in WAITING

    @property
    def runs(self) -> bool:
        """Return whether it is on its nodes or about to be."""
        return self.state in ON_NODES


class SlurmNode(msgspec.Struct, frozen=True):
    """One node."""

    name: str
    cpus: int
    threads: int = 1  # per core
    memory_mb: int = 0
    partitions: tuple[str, ...] = ()
    states: tuple[str, ...] = ()  # upper case: IDLE, DRAIN, ...


class SlurmPartition(msgspec.Struct, frozen=True):
    """One partition."""

    name: str
    nodes: tuple[str, ...] = ()
    oversubscribe: str = "NO"
    up: bool = True
    default: bool = False


class Ended(msgspec.Struct, frozen=True):
    """How a job ended, as the accounting says."""

    name: str
    state: str
    exit_status: int | None = None
    exit_signal: int | None = None
