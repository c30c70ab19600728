"""What a run's folder says that is to be run: a launcher's words, the cores, the groups, the user. Starts nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cohabit.agent import control_groups
from cohabit.agent.topology import Core, format_cpus
from cohabit.backend.launchers.contract import NodeShare, Placement, Prepared, Request
from cohabit.backend.launchers.detect import detect
from cohabit.backend.launchers.registry import find_launcher
from cohabit.backend.local import runs
from cohabit.backend.local.nodes import cpus_of
from cohabit.backend.local.runs import RunFolder
from cohabit.backend.local.users import Person
from cohabit.backend.protocol import BackendError, Launch
from cohabit.model.command import StartJob
from cohabit.model.errors import InputError
from cohabit.model.units import SECOND

GRACE_US = 2 * SECOND  # between asking a program to end and killing it
PATH = {"PATH": os.defpath}


def prepare(
    command: StartJob, launch: Launch, folder: RunFolder, cores: Mapping[int, tuple[Core, ...]], person: Person | None
) -> Prepared:
    """What the job's launcher makes of its command on these cores. A core's first thread stands for it."""
    shares = tuple(
        NodeShare("localhost", max(len(own), 1), tuple(core.cpus[0] for core in own), number)
        for number, own in cores.items()
    )
    environment = _environment(launch, person)
    request = Request(
        command.job_id, launch.command, str(folder.job), launch.processes, launch.threads, launch.memory_bytes,
        launch.oversubscribe, environment,
    )  # fmt: skip
    user = None if person is None else (person.uid, person.gid)
    try:
        site = detect(launch.framework, environment, user=user)
        return find_launcher(launch.framework)(request, Placement(shares, command.scale), site)
    except InputError as error:
        raise BackendError(str(error)) from error


def spec_of(
    command: StartJob, launch: Launch, folder: RunFolder, cores: Mapping[int, tuple[Core, ...]], person: Person | None,
    prepared: Prepared, offer: control_groups.Offer, output: Path, place: Path,
) -> dict[str, Any]:  # fmt: skip
    """All that the runner needs to know, as plain data. `joins` are added by whoever divides the cache."""
    environment = _environment(launch, person) | prepared.environment
    environment |= {"COHABIT_ATTEMPT": str(command.attempt), runs.MARK: str(folder.path)}
    cpus = sorted(cpu for own in cores.values() for cpu in cpus_of(own))
    memory = launch.memory_bytes * (launch.processes or sum(max(len(own), 1) for own in cores.values()))
    home = str(place) if person is None else person.home
    return {
        "command": prepared.argv, "environment": environment, "folder": launch.folder or home,
        "stdout": launch.stdout or str(output), "stderr": launch.stderr,
        "cores": cpus, "nodes": [[number, cpus_of(own)] for number, own in cores.items()],
        "cores_each": command.cores, "bandwidth_mbs": command.bandwidth_mbs,
        "limit_us": command.limit_us, "grace_us": GRACE_US, "memory_bytes": memory,
        "user": None if person is None else {"uid": person.uid, "gid": person.gid, "groups": person.groups},
        "groups": control_groups.plan(offer, folder.path.name, memory, format_cpus(tuple(cpus)), most_processes()),
        "joins": [],
    }  # fmt: skip


def most_processes(kept: Path = Path("/proc/sys/kernel/pid_max")) -> int:
    """One job that forks without end must not take the last process numbers of the machine."""
    try:
        return max(int(kept.read_text()) // 4, 1024)
    except (OSError, ValueError):
        return 0


def _environment(launch: Launch, person: Person | None) -> dict[str, str]:
    return PATH | ({} if person is None else person.environment) | launch.environment
