"""TensorFlow programs: thread pools as large as the cores given; on several nodes one worker per node, by TF_CONFIG.

A single process gets its thread count and nothing else. Several (more than one node, or fewer threads per process than
cores) get the TF_CONFIG that MultiWorkerMirroredStrategy reads; if a worker fails, the others are stopped, since they
would wait for it. Ports are free on the first node when the job starts; on others that is likely, not certain.
"""

from __future__ import annotations

import json

from cohabit.backend.launchers.contract import (
    THREAD_COUNTS,
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

INTRA, INTER = "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"


def prepare(request: Request, placement: Placement, site: Site) -> Prepared:
    """Return the command itself, or one worker of the crew per process."""
    placement = checked(request, placement)
    processes, threads = processes_with_threads(request, placement)
    environment = job_environment(request, placement, "tensorflow", len(processes))
    environment |= thread_environment(request, threads, (*THREAD_COUNTS, INTRA))
    # Concurrent operations: as many as threads would double the load of the cores, one would idle on small operations.
    if INTER not in request.environment:
        environment[INTER] = str(min(2, threads))
    if len(processes) == 1:
        environment |= {"COHABIT_RANK": "0", "COHABIT_NODE": "0"}
        return Prepared(request.command, environment)
    hosts = [placement.nodes[one.node].host for one in processes]
    addresses = [f"{host}:{port(at)}" for at, host in enumerate(hosts)]
    workers = []
    for one in processes:
        remote = reach(placement.nodes[one.node], site)
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": one.rank}}
        own = {"COHABIT_RANK": str(one.rank), "COHABIT_NODE": str(one.node), "TF_CONFIG": json.dumps(task)}
        told = beyond(environment, request, remote) | own
        workers.append(Member(f"worker {one.rank}", request.command, told, one.cores, remote))
    plan = Plan(tuple(workers), together=True, ports=len(workers))
    return run_crew(request, site, plan, environment, ())
