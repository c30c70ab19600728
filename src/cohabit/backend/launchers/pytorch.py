"""PyTorch programs: as many threads as cores; several processes or nodes by torchrun, one torchrun per node.

A single process gets its thread count and nothing else. Otherwise every node runs torchrun, bound to the job's cores
there; the processes meet on the first node, on a port that is free when the job starts. PyTorch has no variable for its
inter-op pool, which it makes as large as the machine: only a program can change that, by torch.set_num_interop_threads.
Ranks are PyTorch's own (RANK, LOCAL_RANK, WORLD_SIZE).
"""

from __future__ import annotations

import re
from collections import Counter

from cohabit.backend.launchers.contract import (
    Placement,
    Prepared,
    Request,
    Site,
    checked,
    job_environment,
    processes_with_threads,
    thread_environment,
)
from cohabit.backend.launchers.crew_plan import Member, Plan, beyond, port, reach, run_crew

PYTHON = re.compile(r"(.*/)?python[0-9.]*$")
TORCHRUN = re.compile(r"(.*/)?torchrun$")
ALONE = {"-B", "-E", "-I", "-O", "-OO", "-s", "-S", "-u"}  # options of Python that take no argument


def prepare(request: Request, placement: Placement, site: Site) -> Prepared:
    """Return the command itself, or one torchrun per node."""
    placement = checked(request, placement)
    processes, threads = processes_with_threads(request, placement)
    environment = job_environment(request, placement, "pytorch", len(processes))
    environment |= thread_environment(request, threads)
    if len(processes) == 1 and not TORCHRUN.match(request.command[0]):
        return Prepared(request.command, environment | {"COHABIT_RANK": "0", "COHABIT_NODE": "0"})
    counts = sorted(Counter(one.node for one in processes).items())
    first = placement.nodes[0].host
    workers = []
    for at, (node, count) in enumerate(counts):
        share = placement.nodes[node]
        remote = reach(share, site)
        options = (
            f"--nnodes={len(counts)}",
            f"--node-rank={at}",
            f"--nproc-per-node={count}",
            f"--master-addr={first}",
            f"--master-port={port(0)}",
        )
        told = beyond(environment, request, remote) | {"COHABIT_NODE": str(node)}
        workers.append(Member(f"torchrun {at}", torchrun(request.command, options), told, share.cores, remote))
    plan = Plan(tuple(workers), together=True, ports=1)
    return run_crew(request, site, plan, environment, ())


def torchrun(command: tuple[str, ...], options: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command under torchrun: of the same Python if it is a Python program, else of the one in PATH."""
    if TORCHRUN.match(command[0]):
        return (command[0], *options, *command[1:])
    if not PYTHON.match(command[0]):
        return ("torchrun", *options, "--no-python", *command)
    split = 1
    while split < len(command) and command[split] in ALONE:
        split += 1
    return (*command[:split], "-m", "torch.distributed.run", *options, *command[split:])
