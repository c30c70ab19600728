"""Give a cluster back to its resource manager: the kill switch, and the timer's action when the lease is over.

It must work at once, whatever else is broken: no core, no journal, nothing heavy is imported, and of a site file only
the place and the manager's own table are read (slurm_switch.py, gridengine_switch.py).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from cohabit.backend.slurm.calls import SlurmAway
from cohabit.backend.slurm.steered import Manager
from cohabit.backend.steered.handback import Handed, hand_back
from cohabit.backend.steered.lease import read_lease, switch_file, write_beside, write_lease
from cohabit.model.errors import InputError


class Switch(NamedTuple):
    """The data needed to give everything back."""

    word: str  # the manager in files and commands
    lease: Path
    partitions: tuple[str, ...]  # none: those of the lease
    all_held: bool
    manager: Callable[[], Awaitable[Manager]]


async def give_back(switch: Switch, only_if_over: bool) -> Handed | None:
    """Release the jobs held for Cohabit; None: the lease is still valid, so nothing was done."""
    lease = read_lease(switch.lease)
    if only_if_over and lease is not None and lease.runs(time.time()):
        return None
    manager = await switch.manager()
    try:
        partitions = switch.partitions or (() if lease is None else lease.partitions)
        return await hand_back(manager, partitions, switch.all_held)
    except SlurmAway as error:
        raise InputError(f"{manager.title} does not answer: {error}", switch.word, "try again when it does") from error


async def detach(switch: Switch) -> Handed:
    """Use the kill switch: the lease is not renewed, no new job is held, held jobs go back to the manager now."""
    write_beside(switch_file(switch.lease), b"")
    lease = read_lease(switch.lease)
    write_lease(switch.lease, 0, ("-",) if lease is None else lease.partitions)
    handed = await give_back(switch, only_if_over=False)
    assert handed is not None
    return handed
