"""Giving a cluster back to plain Slurm: the kill switch, and what a timer does when the lease is over.

It must work at once, whatever else is broken: no core, no journal, nothing heavy is imported, and of the site file only
the place and [slurm] are looked at.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from cohabit.app.slurm_table import SlurmTable, lease_of
from cohabit.app.typed_toml import read_typed
from cohabit.backend.slurm.calls import Calls, SlurmAway
from cohabit.backend.slurm.handback import Handed, hand_back
from cohabit.backend.slurm.lease import read_lease, switch_file, write_lease
from cohabit.backend.slurm.steered import SlurmManager
from cohabit.model.errors import InputError


class _Tables(msgspec.Struct, frozen=True):
    """All that matters here; other tables are not looked at."""

    place: str = "state"
    slurm: SlurmTable = SlurmTable()


class Switch(NamedTuple):
    """What is needed to give everything back."""

    lease: Path
    slurm: SlurmTable


def read_switch(path: Path) -> Switch:
    """From a site file."""
    tables = read_typed(path, _Tables, "docs/slurm.md")
    folder = path.parent.absolute()
    return Switch(lease_of(folder, folder / tables.place, tables.slurm), tables.slurm)


async def give_back(site: Switch, only_if_over: bool) -> Handed | None:
    """Release what waits for us; None: the lease runs, so nothing was done."""
    lease = read_lease(site.lease)
    if only_if_over and lease is not None and lease.runs(time.time()):
        return None
    try:
        partitions = site.slurm.partitions or (() if lease is None else lease.partitions)
        return await hand_back(SlurmManager(Calls(site.slurm.conf)), partitions, site.slurm.held == "all")
    except SlurmAway as error:
        raise InputError(f"Slurm does not answer: {error}", "slurm", "try again when it does") from error


async def detach(site: Switch) -> Handed:
    """The kill switch: nobody renews the lease, no new job is held, held ones go to plain Slurm now."""
    switch = switch_file(site.lease)
    try:
        switch.parent.mkdir(parents=True, exist_ok=True)
        switch.touch()
    except OSError as error:
        raise InputError(f"cannot be written: {(error.strerror or str(error)).lower()}", str(switch)) from error
    lease = read_lease(site.lease)
    write_lease(site.lease, 0, ("-",) if lease is None else lease.partitions)
    handed = await give_back(site, only_if_over=False)
    assert handed is not None
    return handed
