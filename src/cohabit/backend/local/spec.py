"""Build the request to the launcher: a framework's words, the cores, the user. Starts nothing.

The launcher decides which user a job may run as (launcher/settings.py).
"""

from __future__ import annotations

import os
import pwd
import socket
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from cohabit.agent.topology import Core
from cohabit.backend import output_names
from cohabit.backend.launcher_link import LauncherLink
from cohabit.backend.launchers.contract import NodeShare, Placement, Prepared, Request, Site
from cohabit.backend.launchers.mpi import parse_version
from cohabit.backend.launchers.registry import find_launcher
from cohabit.backend.local.nodes import cpus_of
from cohabit.backend.protocol import BackendError, Launch
from cohabit.model.command import StartJob
from cohabit.model.errors import InputError
from cohabit.model.units import SECOND

GRACE_US = 2 * SECOND  # between asking a program to end and killing it
PATH = {"PATH": os.defpath}
PLAIN = {"python": sys.executable, "mpirun": "", "mpi_said": "", "spark": ""}


class Person(msgspec.Struct, frozen=True):
    """A user of this machine."""

    uid: int
    name: str
    home: str
    shell: str

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that a login would set."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}


def person_of(launch: Launch, separate: bool) -> Person | None:
    """Return the user that the job runs as; None: the account of the service. `separate`: the launcher is root."""
    if launch.uid < 0:
        return None
    if os.geteuid() != 0 and not separate:
        if launch.uid == os.geteuid():
            return None
        raise BackendError(f"it belongs to user {launch.uid}, and only a service that runs as root can run it as that")
    try:
        known = pwd.getpwuid(launch.uid)
    except KeyError:
        known = pwd.struct_passwd((str(launch.uid), "", launch.uid, launch.uid, "", "/", "/bin/sh"))
    home = known.pw_dir if known.pw_dir and os.path.isdir(known.pw_dir) else "/"
    return Person(launch.uid, known.pw_name, home, known.pw_shell or "/bin/sh")


async def prepare(
    command: StartJob,
    launch: Launch,
    folder: str,
    cores: Mapping[int, tuple[Core, ...]],
    person: Person | None,
    link: LauncherLink,
) -> Prepared:
    """Return what the job's framework makes of its command on these cores. A core's first thread stands for it. The
    launcher looks for the framework with the rights of the job's user; a plain job needs no look."""
    shares = tuple(
        NodeShare("localhost", max(len(own), 1), tuple(core.cpus[0] for core in own), number)
        for number, own in cores.items()
    )
    environment = _environment(launch, person)
    request = Request(
        command.job_id,
        launch.command,
        folder,
        launch.processes,
        launch.threads,
        launch.memory_bytes,
        launch.oversubscribe,
        environment,
    )
    found: Mapping[str, str] = PLAIN
    if launch.framework != "plain":
        found = await link.ask(
            "probe",
            job=command.job_id,
            attempt=command.attempt,
            framework=launch.framework,
            environment=environment,
            memory_bytes=_memory(launch, cores),
            **_rights(launch, person),
        )
    uid = os.geteuid() if person is None else person.uid
    try:
        return find_launcher(launch.framework)(request, Placement(shares, command.scale), site_of(found, uid))
    except InputError as error:
        raise BackendError(str(error)) from error


def site_of(found: Mapping[str, str], uid: int) -> Site:
    """Return what this machine offers to frameworks, from what was found as the job's user (launcher/probing.py)."""
    mpi, version = parse_version(found["mpi_said"]) if found["mpirun"] else ("", "")
    name = socket.gethostname()
    return Site(
        python=found["python"],
        mpirun=found["mpirun"],
        mpi=mpi,
        mpi_version=version,
        spark=found["spark"],
        root=uid == 0,
        here=frozenset({"localhost", "127.0.0.1", name, name.partition(".")[0]}),
    )


def request_of(
    command: StartJob,
    launch: Launch,
    cores: Mapping[int, tuple[Core, ...]],
    person: Person | None,
    prepared: Prepared,
    home: str,
) -> dict[str, Any]:
    """Return all that the launcher needs to know. `joins` and `fuse_us` are added by the back end."""
    environment = _environment(launch, person) | prepared.environment
    environment |= {"COHABIT_ATTEMPT": str(command.attempt)}
    environment |= output_names.member_environment(command.job_id, launch)
    stdout, stderr = (output_names.expand(one, command.job_id, launch) for one in (launch.stdout, launch.stderr))
    return {
        "job": command.job_id,
        "attempt": command.attempt,
        "command": list(prepared.argv),
        "environment": environment,
        "folder": launch.folder or (home if person is None else person.home),
        "stdout": stdout if launch.stdout else "",
        "stderr": stderr if launch.stderr else "",
        "files": prepared.files,
        "nodes": [[number, cpus_of(own)] for number, own in cores.items()],
        "cores_each": command.cores,
        "bandwidth_mbs": command.bandwidth_mbs,
        "limit_us": command.limit_us,
        "grace_us": GRACE_US,
        "memory_bytes": _memory(launch, cores),
        **_rights(launch, person),
    }


def _memory(launch: Launch, cores: Mapping[int, tuple[Core, ...]]) -> int:
    return launch.memory_bytes * (launch.processes or sum(max(len(own), 1) for own in cores.values()))


def _rights(launch: Launch, person: Person | None) -> dict[str, Any]:
    """Return the user it runs as; the launcher checks it against the machine's accounts."""
    if person is None:
        return {"uid": -1, "gid": -1, "groups": []}
    return {"uid": person.uid, "gid": launch.gid, "groups": list(launch.groups)}


def _environment(launch: Launch, person: Person | None) -> dict[str, str]:
    return PATH | ({} if person is None else person.environment) | launch.environment
