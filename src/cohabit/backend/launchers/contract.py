"""The protocol of a launcher: its input and its answer. Everything here is data and arithmetic: no file, no process.

A launcher is a function (request, placement, site) -> Prepared. It starts nothing and writes nothing: the back end
writes the files and executes the argv on the first node, inside the resources of the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Protocol

import msgspec

from cohabit.model.errors import InputError

THREAD_COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class NodeShare(msgspec.Struct, frozen=True):
    """The share of one node that the job has."""

    host: str  # address of its processes; several nodes of one machine have the same
    slots: int  # how many cores
    cores: tuple[int, ...] = ()  # in the operating system's numbers; empty: no binding
    number: int = 0  # of the node in its cluster


class Placement(msgspec.Struct, frozen=True):
    """The nodes of the job; its argv is executed on the first."""

    nodes: tuple[NodeShare, ...]
    scale: int = 1  # scale factor k it was given


class Request(msgspec.Struct, frozen=True):
    """The request of the job's owner."""

    job_id: str
    command: tuple[str, ...]
    folder: str  # of this run: for the files of the answer and the framework's own files
    processes: int = 0  # booked cores over all nodes; 0: every core of its nodes
    threads: int = 0  # per process; 0: the launcher decides
    memory_bytes: int = 0  # per core; 0: not stated
    oversubscribe: bool = False  # more processes than cores, on purpose
    environment: Mapping[str, str] = {}  # of the job: what its owner set stays


class Site(msgspec.Struct, frozen=True):
    """The programs that this machine offers to launchers (local/spec.py)."""

    python: str  # runs the crew; needs nothing but the standard library
    mpirun: str = ""  # empty: none found
    mpi: str = ""  # openmpi or mpich
    mpi_version: str = ""
    spark: str = ""  # the folder with spark-class and spark-submit; empty: none found
    root: bool = False  # jobs run as root
    here: frozenset[str] = frozenset({"localhost", "127.0.0.1"})  # names of this machine
    remote_shell: tuple[str, ...] = ("ssh", "-o", "BatchMode=yes")  # to reach the others


class Prepared(msgspec.Struct, frozen=True):
    """The command to execute. `files` are relative to the request's folder; `environment` is added to the job's."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    files: dict[str, str] = {}
    notes: tuple[str, ...] = ()  # for its owner, one sentence each


class Launcher(Protocol):
    """Turns a command and a placement into argv, files and environment."""

    def __call__(self, request: Request, placement: Placement, site: Site) -> Prepared: ...


class Process(msgspec.Struct, frozen=True):
    """One process of the job: its node and its cores there."""

    rank: int
    node: int  # index into the placement
    cores: tuple[int, ...]  # empty: no binding


def checked(request: Request, placement: Placement) -> Placement:
    """Return the placement with nodes of one machine side by side, so that ranks follow the order of machines."""
    if not request.command:
        raise InputError(f"job {request.job_id} has no command", "", "say what to run")
    if not placement.nodes:
        raise InputError(f"job {request.job_id} has no nodes to run on")
    if request.threads < 0 or request.processes < 0:
        raise InputError(f"job {request.job_id} asks for a negative number of processes or threads")
    for node in placement.nodes:
        if node.slots < 1 or (node.cores and len(node.cores) != node.slots):
            raise InputError(f"job {request.job_id} has {node.slots} cores on {node.host}, but {len(node.cores)} named")
    order = {host: at for at, host in reversed([*enumerate(node.host for node in placement.nodes)])}
    nodes = tuple(sorted(placement.nodes, key=lambda node: order[node.host]))
    return msgspec.structs.replace(placement, nodes=nodes)


def processes_of(request: Request, placement: Placement, threads: int) -> list[Process]:
    """Return every process with its node and its cores, in order of nodes; as even as the cores allow.

    With `oversubscribe` there may be more processes than cores; they then share cores in turn.
    """
    room = [node.slots // threads for node in placement.nodes]
    total = request.processes // threads if request.processes else sum(room)
    if request.processes % threads and not request.oversubscribe:
        raise InputError(
            f"job {request.job_id} has {request.processes} cores, which {threads} threads per process do not divide",
            "",
            "ask for a multiple, or for other threads",
        )
    if total > sum(room) or total == 0:
        if not request.oversubscribe:
            raise InputError(
                f"job {request.job_id} wants {max(total, 1)} processes of {threads} threads, but its cores hold "
                f"{sum(room)}",
                "",
                "ask for fewer threads, more cores, or to oversubscribe",
            )
        total = max(total, 1)
        room = [-(-total // len(room))] * len(room)
    counts = _even(total, room)
    found: list[Process] = []
    for at, (node, count) in enumerate(zip(placement.nodes, counts, strict=True)):
        for index in range(count):
            cores = [node.cores[(index * threads + k) % node.slots] for k in range(threads)] if node.cores else []
            found.append(Process(len(found), at, tuple(sorted(set(cores)))))
    return found


def processes_with_threads(request: Request, placement: Placement) -> tuple[list[Process], int]:
    """Return processes for multithreaded programs, and the threads of each: one process per node with all of its cores,
    unless threads were asked for."""
    if request.threads:
        return processes_of(request, placement, request.threads), request.threads
    whole = [Process(at, at, node.cores) for at, node in enumerate(placement.nodes)]
    return whole, min(node.slots for node in placement.nodes)


def _even(total: int, room: Sequence[int]) -> list[int]:
    """Return shares of `total`, each within its room, that differ as little as possible; earlier nodes first."""
    counts = [0] * len(room)
    while total:
        open_nodes = [at for at, space in enumerate(room) if counts[at] < space]
        each = max(total // len(open_nodes), 1)
        for at in open_nodes[:total]:
            more = min(each, room[at] - counts[at], total)
            counts[at] += more
            total -= more
    return counts


def job_environment(request: Request, placement: Placement, framework: str, processes: int = 1) -> dict[str, str]:
    """Return the variables of every process of every job. The lists have one entry per node, in the order of ranks."""
    nodes = placement.nodes
    return {
        "COHABIT_JOB": request.job_id,
        "COHABIT_FRAMEWORK": framework,
        "COHABIT_NODES": ",".join(str(node.number) for node in nodes),
        "COHABIT_NODE_COUNT": str(len(nodes)),
        "COHABIT_HOSTS": ",".join(node.host for node in nodes),
        "COHABIT_CORES": ",".join(str(node.slots) for node in nodes),
        "COHABIT_SCALE": str(placement.scale),
        "COHABIT_PROCESSES": str(processes),
    }


def thread_environment(request: Request, threads: int, names: Sequence[str] = THREAD_COUNTS) -> dict[str, str]:
    """Return thread counts for libraries. The owner's values stay, unless threads were asked for explicitly."""
    return {
        name: str(threads) for name in ("COHABIT_THREADS", *names) if request.threads or name not in request.environment
    }


def cores_text(cores: Sequence[int]) -> str:
    """Return cores in the format of taskset: 0-3,8."""
    spans = []
    for _, members in groupby(enumerate(sorted(cores)), key=lambda pair: pair[1] - pair[0]):
        span = [core for _, core in members]
        spans.append(str(span[0]) if len(span) == 1 else f"{span[0]}-{span[-1]}")
    return ",".join(spans)
