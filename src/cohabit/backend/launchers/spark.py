"""Spark programs on a standalone cluster of their own, which lives as long as the job.

The master runs on the first node and chooses its port itself; every node has a worker with the job's cores and memory
there, bound to those cores; spark-submit runs on the first node in client mode. All of it ends with the program, and
Spark's files below the run's folder are removed. The driver shares the cores of the first node with its worker.
"""

from __future__ import annotations

import re

from cohabit.backend.launchers.contract import (
    Placement,
    Prepared,
    Request,
    Site,
    checked,
    job_environment,
)
from cohabit.backend.launchers.crew_plan import Member, Plan, beyond, reach, run_crew, told
from cohabit.model.errors import InputError

MIB = 1 << 20
UNSTATED_MIB = 1024  # per core, if the job's owner stated nothing
HEAP_SHARE = 0.9  # of the memory: a Java machine needs the rest beside its heap
DRIVER_MIB = 1024  # at most
LEAST_MIB = 512  # Spark refuses heaps below 450 MiB
DAEMON_MIB = 256  # master and worker only do bookkeeping
SUBMIT = re.compile(r"(.*/)?spark-submit$")


def prepare(request: Request, placement: Placement, site: Site) -> Prepared:
    """Return master and workers as servers of the crew, spark-submit as its only worker."""
    if not site.spark:
        raise InputError("there is no spark-submit in PATH", "spark", "install Spark, or set PATH or SPARK_HOME")
    placement = checked(request, placement)
    executor_mib, driver_mib = heaps(request, placement)
    environment = job_environment(request, placement, "spark", len(placement.nodes))
    environment |= {
        "SPARK_DAEMON_MEMORY": f"{DAEMON_MIB}m",
        "SPARK_LOCAL_DIRS": f"{request.folder}/spark/local",
    }
    if (
        "SPARK_DAEMON_JAVA_OPTS" not in request.environment
    ):  # halves the processor time of the start: they share the job's cores
        environment["SPARK_DAEMON_JAVA_OPTS"] = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    if "SPARK_SUBMIT_OPTS" not in request.environment:  # the driver's files are removed with the rest
        environment["SPARK_SUBMIT_OPTS"] = f"-Djava.io.tmpdir={request.folder}/spark/tmp"
    first = placement.nodes[0]
    start = f"{site.spark}/spark-class"
    master = Member(
        "the Spark master",
        (start, "org.apache.spark.deploy.master.Master", "--host", first.host, "--port", "0", "--webui-port", "0"),
        {},
        first.cores,
        (),
        f"{request.folder}/spark-master.log",
        r"Starting Spark master at (?P<master>spark://\S+)",
    )
    servers = [master]
    for at, node in enumerate(placement.nodes):
        remote = reach(node, site)
        argv = (
            start,
            "org.apache.spark.deploy.worker.Worker",
            "--host",
            node.host,
            "--webui-port",
            "0",
            "--cores",
            str(node.slots),
            "--memory",
            f"{executor_mib}m",
            "--work-dir",
            f"{request.folder}/spark/work-{at}",
            told("master"),
        )
        own = beyond(environment, request, remote) | {"COHABIT_NODE": str(at)}
        log = f"{request.folder}/spark-worker-{at}.log"
        servers.append(
            Member(f"Spark worker {at}", argv, own, node.cores, remote, log, "Successfully registered with master")
        )
    submit = Member("spark-submit", _submit(request, placement, site, executor_mib, driver_mib), cores=first.cores)
    plan = Plan((submit,), tuple(servers), scratch=(f"{request.folder}/spark/tmp", f"{request.folder}/spark"))
    notes = []
    if not request.memory_bytes:
        notes.append(f"no memory was stated: an executor gets {executor_mib} MiB and the driver {driver_mib} MiB")
    return run_crew(request, site, plan, environment, notes)


def heaps(request: Request, placement: Placement) -> tuple[int, int]:
    """Return the heaps of an executor and the driver in MiB; the first node holds both, and all executors are alike."""
    slots = min(node.slots for node in placement.nodes)
    need = int(LEAST_MIB * 2 / HEAP_SHARE) + 2 * DAEMON_MIB + 1
    least = slots * request.memory_bytes / MIB or max(slots * UNSTATED_MIB, need)
    if least < need:
        raise InputError(
            f"job {request.job_id} has {least:.0f} MiB on a node, too little for a Spark driver and an executor",
            "spark",
            f"ask for at least {need} MiB per node",
        )
    both = int((least - 2 * DAEMON_MIB) * HEAP_SHARE)
    driver = min(DRIVER_MIB, both // 2)
    return both - driver, driver


def _submit(request: Request, placement: Placement, site: Site, executor_mib: int, driver_mib: int) -> tuple[str, ...]:
    """Return spark-submit with its cluster; the owner's own options follow and win."""
    named = SUBMIT.match(request.command[0]) is not None
    rest = request.command[1:] if named else request.command
    if any(word == "--master" or word.startswith("--master=") for word in rest[: _application(rest)]):
        raise InputError(f"job {request.job_id} names a Spark master of its own", "spark", "leave --master out")
    first = placement.nodes[0].host
    settings = {
        "spark.executor.cores": min(node.slots for node in placement.nodes),
        "spark.cores.max": sum(node.slots for node in placement.nodes),
        "spark.driver.host": first,
        "spark.ui.port": 0,
        "spark.default.parallelism": sum(node.slots for node in placement.nodes),
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    return (
        request.command[0] if named else f"{site.spark}/spark-submit",
        "--master",
        told("master"),
        "--deploy-mode",
        "client",
        "--driver-memory",
        f"{driver_mib}m",
        "--executor-memory",
        f"{executor_mib}m",
        *options,
        *rest,
    )


def _application(words: tuple[str, ...]) -> int:
    """Return where the options of spark-submit end: at the first word that is neither an option nor its value."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 1 if "=" in words[at] or words[at] in ("--verbose", "-v", "--supervise") else 2
    return at
