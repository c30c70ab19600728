"""Our groups as the operating system holds them: which classes of service exist, and which job is in which.

The kernel's file system is the only memory, so a restarted agent finds everything again. A class that jobs can share is
called `cohabit.class3`, and each of its jobs has a monitoring group in it; a job without a class has a monitoring group
under the root, which costs no class. Where there is no monitoring, a class is named after its only job. Groups without
our prefix are counted, never opened.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from cohabit.agent.resctrl.files import Files
from cohabit.agent.resctrl.schemata import Schemata, parse
from cohabit.model.errors import InputError

CLASS, JOB = "cohabit.class", "cohabit.job."
NOT_GROUPS = ("info", "mon_data", "mon_groups")
_LONGEST = 255  # bytes of a name, in the kernel
_CLASS = re.compile(re.escape(CLASS) + r"\d+")


@dataclass(frozen=True)
class Group:
    """One class of service of ours."""

    schemata: Schemata
    jobs: tuple[str, ...]
    shareable: bool  # jobs have monitoring groups in it; otherwise it is named after its only job


@dataclass(frozen=True)
class Current:
    """The current groups. `root_jobs` are only monitored; `foreign` is the number of classes of others."""

    groups: Mapping[str, Group]
    root_jobs: frozenset[str] = frozenset()
    foreign: int = 0


def job_name(job_id: str) -> str:
    """Return the name of a job's group: every character that is special in a path is written as %XX."""
    name = JOB + quote(job_id, safe="").replace(".", "%2E")
    if len(name) > _LONGEST:
        raise InputError(f"the job id {job_id[:40]}... is too long for a group of its own", "", "use a shorter one")
    return name


def job_of(name: str) -> str | None:
    """Return the job that a group is named after; None for any other name."""
    return unquote(name.removeprefix(JOB)) if name.startswith(JOB) else None


def read_current(files: Files, root: Path) -> Current:
    """Read our groups. A group that goes away meanwhile is left out; a lost root raises OSError."""
    groups: dict[str, Group] = {}
    names = files.names(root)
    foreign = 0
    for name in names:
        if _CLASS.fullmatch(name) or job_of(name) is not None:
            group = _read_group(files, root / name)
            if group is not None:
                groups[name] = group
        elif name not in NOT_GROUPS and _is_group(files, root / name):
            foreign += 1
    return Current(groups, frozenset(_jobs(files, root)) if "mon_groups" in names else frozenset(), foreign)


def _read_group(files: Files, place: Path) -> Group | None:
    try:
        schemata = parse(files.read(place / "schemata"))
        owner = job_of(place.name)
        return Group(schemata, _jobs(files, place), True) if owner is None else Group(schemata, (owner,), False)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
        return None


def _is_group(files: Files, place: Path) -> bool:
    """Return whether it is a group: a folder, not one of the root's files."""
    try:
        files.names(place)
    except OSError:
        return False
    return True


def _jobs(files: Files, place: Path) -> tuple[str, ...]:
    """Return the jobs with a monitoring group of ours there."""
    found = (job_of(name) for name in files.names(place / "mon_groups"))
    return tuple(sorted(job for job in found if job is not None))
