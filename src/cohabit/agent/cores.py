"""Choose the cores of two programs: the same, or halves that share the last-level cache. Only reads the topology."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cohabit.model.errors import InputError

TOPOLOGY = Path("/sys/devices/system/cpu")


def allowed_cores() -> tuple[int, ...]:
    """Return the CPUs this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


def split_cores(cores: Sequence[int], root: Path = TOPOLOGY) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return two halves on every socket, so that the halves share its cache; threads of one core stay together."""
    sockets: dict[int, dict[int, list[int]]] = {}
    for cpu in sorted(cores):
        socket, core = (_number(root / f"cpu{cpu}" / "topology" / name, default)
                        for name, default in (("physical_package_id", 0), ("core_id", cpu)))  # fmt: skip
        sockets.setdefault(socket, {}).setdefault(core, []).append(cpu)
    first: list[int] = []
    second: list[int] = []
    for found in sockets.values():
        whole = list(found.values())
        half = (len(whole) + 1) // 2
        first += [cpu for core in whole[:half] for cpu in core]
        second += [cpu for core in whole[half:] for cpu in core]
    if not second:
        raise InputError(f"{len(cores)} CPUs of one core cannot be split between two programs", "",
                         'use cores = "shared", or a machine with more cores')  # fmt: skip
    return tuple(first), tuple(second)


def _number(path: Path, default: int) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return default
