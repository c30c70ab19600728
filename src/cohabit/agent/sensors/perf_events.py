"""perf_event_open through ctypes: events of a process and all it forks, read as groups. Only the system call.

A group is scheduled on the hardware as a unit, so ratios inside it cover the same time. A group that never ran has no
values (not zeros); one that ran part of the time is scaled up.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Sequence

SYSTEM_CALL = {"x86_64": 298, "aarch64": 241}
HARDWARE, SOFTWARE, HW_CACHE, RAW = 0, 1, 3, 4  # types of events
_DISABLED, _INHERIT, _NO_KERNEL, _NO_HYPERVISOR, _ON_EXEC = 1 << 0, 1 << 1, 1 << 5, 1 << 6, 1 << 12
_ENABLED_TIME, _RUNNING_TIME, _GROUP = 1, 2, 8  # what a read returns
_CLOSE_ON_EXEC = 8


class Attributes(ctypes.Structure):
    """struct perf_event_attr in its fifth version, which every kernel since 4.8 knows."""

    _fields_ = (
        ("type", ctypes.c_uint32), ("size", ctypes.c_uint32), ("config", ctypes.c_uint64),
        ("sample_period", ctypes.c_uint64), ("sample_type", ctypes.c_uint64), ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64), ("wakeup_events", ctypes.c_uint32), ("bp_type", ctypes.c_uint32),
        ("config1", ctypes.c_uint64), ("config2", ctypes.c_uint64), ("branch_sample_type", ctypes.c_uint64),
        ("sample_regs_user", ctypes.c_uint64), ("sample_stack_user", ctypes.c_uint32), ("clockid", ctypes.c_int32),
        ("sample_regs_intr", ctypes.c_uint64), ("aux_watermark", ctypes.c_uint32),
        ("sample_max_stack", ctypes.c_uint16), ("reserved", ctypes.c_uint16),
    )  # fmt: skip


def open_event(
    kind: int, config: int, pid: int, leader: int = -1, user_only: bool = False, at_once: bool = False
) -> int:
    """Return a descriptor that counts one event of a thread and its children; OSError if it cannot.

    It counts from exec on; `at_once`: from now on, for a thread that executes already.
    """
    number = SYSTEM_CALL.get(platform.machine())
    if number is None:
        raise OSError(38, f"the number of perf_event_open on {platform.machine()} is not known here")
    flags = _INHERIT | _NO_HYPERVISOR | (_NO_KERNEL if user_only else 0)
    if leader < 0 and not at_once:
        flags |= _DISABLED | _ON_EXEC
    attributes = Attributes(
        type=kind, size=ctypes.sizeof(Attributes), config=config, flags=flags,
        read_format=_GROUP | _ENABLED_TIME | _RUNNING_TIME,
    )  # fmt: skip
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    descriptor = call(
        ctypes.c_long(number), ctypes.byref(attributes), ctypes.c_int(pid), ctypes.c_int(-1), ctypes.c_int(leader),
        ctypes.c_ulong(_CLOSE_ON_EXEC),
    )  # fmt: skip
    if descriptor < 0:
        reason = ctypes.get_errno()
        raise OSError(reason, os.strerror(reason))
    return int(descriptor)


def read_group(leader: int, names: Sequence[str]) -> dict[str, float]:
    """Return the values of a group in the order in which its events were opened; empty if it never ran."""
    count, enabled, running, *values = struct.unpack(f"{3 + len(names)}Q", os.read(leader, 8 * (3 + len(names))))
    assert count == len(names)
    if enabled and not running:
        return {}
    scale = enabled / running if running else 1.0
    return {name: value * scale for name, value in zip(names, values, strict=True)}
