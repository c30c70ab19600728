"""Build the request to the launcher: a framework's words, the cores, the user. Starts nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from cohabit.agent.topology import Core
from cohabit.backend import output_names
from cohabit.backend.launcher_link import LauncherLink
from cohabit.backend.launchers.contract import NodeShare, Placement, Prepared, Request
from cohabit.backend.launchers.detect import site_of
from cohabit.backend.launchers.registry import find_launcher
from cohabit.backend.local.nodes import cpus_of
from cohabit.backend.local.users import Person
from cohabit.backend.protocol import BackendError, Launch
from cohabit.model.command import StartJob
from cohabit.model.errors import InputError
from cohabit.model.units import SECOND

GRACE_US = 2 * SECOND  # between asking a program to end and killing it
PATH = {"PATH": os.defpath}
PLAIN = {"python": sys.executable, "mpirun": "", "mpi_said": "", "spark": ""}


async def prepare(
    command: StartJob, launch: Launch, folder: str, cores: Mapping[int, tuple[Core, ...]], person: Person | None,
    link: LauncherLink,
) -> Prepared:  # fmt: skip
    """Return what the job's framework makes of its command on these cores. A core's first thread stands for it. The
    launcher looks for the framework with the rights of the job's user; a plain job needs no look."""
    shares = tuple(
        NodeShare("localhost", max(len(own), 1), tuple(core.cpus[0] for core in own), number)
        for number, own in cores.items()
    )
    environment = _environment(launch, person)
    request = Request(
        command.job_id, launch.command, folder, launch.processes, launch.threads, launch.memory_bytes,
        launch.oversubscribe, environment,
    )  # fmt: skip
    found: Mapping[str, str] = PLAIN
    if launch.framework != "plain":
        found = await link.ask(
            "probe", job=command.job_id, attempt=command.attempt, framework=launch.framework, environment=environment,
            memory_bytes=_memory(launch, cores), **_rights(launch, person),
        )  # fmt: skip
    uid = os.geteuid() if person is None else person.uid
    try:
        return find_launcher(launch.framework)(request, Placement(shares, command.scale), site_of(found, uid))
    except InputError as error:
        raise BackendError(str(error)) from error


def request_of(
    command: StartJob, launch: Launch, cores: Mapping[int, tuple[Core, ...]], person: Person | None, prepared: Prepared,
    home: str,
) -> dict[str, Any]:  # fmt: skip
    """Return all that the launcher needs to know. `joins` and `fuse_us` are added by the back end."""
    environment = _environment(launch, person) | prepared.environment
    environment |= {"COHABIT_ATTEMPT": str(command.attempt)}
    environment |= output_names.member_environment(command.job_id, launch)
    stdout, stderr = (output_names.expand(one, command.job_id, launch) for one in (launch.stdout, launch.stderr))
    return {
        "job": command.job_id, "attempt": command.attempt, "command": list(prepared.argv), "environment": environment,
        "folder": launch.folder or (home if person is None else person.home),
        "stdout": stdout if launch.stdout else "", "stderr": stderr if launch.stderr else "", "files": prepared.files,
        "nodes": [[number, cpus_of(own)] for number, own in cores.items()], "cores_each": command.cores,
        "bandwidth_mbs": command.bandwidth_mbs, "limit_us": command.limit_us, "grace_us": GRACE_US,
        "memory_bytes": _memory(launch, cores), **_rights(launch, person),
    }  # fmt: skip


def _memory(launch: Launch, cores: Mapping[int, tuple[Core, ...]]) -> int:
    return launch.memory_bytes * (launch.processes or sum(max(len(own), 1) for own in cores.values()))


def _rights(launch: Launch, person: Person | None) -> dict[str, Any]:
    """Return the user it runs as; the launcher checks it against the machine's accounts."""
    if person is None:
        return {"uid": -1, "gid": -1, "groups": []}
    return {"uid": person.uid, "gid": launch.gid, "groups": list(launch.groups)}


def _environment(launch: Launch, person: Person | None) -> dict[str, str]:
    return PATH | ({} if person is None else person.environment) | launch.environment
