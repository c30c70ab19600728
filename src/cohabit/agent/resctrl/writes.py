"""The orders a plan consists of, each as data and as the shell line that would do the same (for a dry run).

Paths are relative to the root of the mounted file system.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cohabit.agent.resctrl.schemata import Schemata, text_of


@dataclass(frozen=True)
class Make:
    """Make a class of service or a monitoring group, for these jobs."""

    place: str
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Remove:
    """Remove a group; processes still in it fall back to the parent group."""

    place: str
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True)
class SetSchemata:
    """Write these values of a class, and read them back."""

    place: str
    values: Schemata
    jobs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Move:
    """Move a job's monitoring group, with its processes and counters, to another class."""

    source: str
    target: str
    jobs: tuple[str, ...]


@dataclass(frozen=True)
class Enter:
    """Put the processes of a running job into these groups, the class first."""

    jobs: tuple[str]
    groups: tuple[str, ...]


Write = Make | Remove | SetSchemata | Move | Enter


def shell_lines(writes: Iterable[Write], root: Path) -> list[str]:
    """Return what would be written, as shell commands."""
    lines = []
    for write in writes:
        match write:
            case Make():
                lines.append(f"mkdir {_quoted(root, write.place)}")
            case Remove():
                lines.append(f"rmdir {_quoted(root, write.place)}")
            case SetSchemata():
                file = f"{_quoted(root, write.place)}/schemata"
                lines += [f"echo {shlex.quote(line)} > {file}" for line in text_of(write.values).splitlines()]
            case Move():
                lines.append(f"mv {_quoted(root, write.source)} {_quoted(root, write.target)}")
            case Enter():
                lines += [
                    f"echo TASK > {_quoted(root, group)}/tasks  # every thread of job {write.jobs[0]}"
                    for group in write.groups
                ]
    return lines


def _quoted(root: Path, place: str) -> str:
    return shlex.quote(str(root / place))
