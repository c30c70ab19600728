"""Giving a cluster back to plain Grid Engine: the kill switch, and what a timer does when the lease is over.

It must work at once, whatever else is broken: no core, no journal, nothing heavy is imported, and of the site file only
the place and [gridengine] are looked at.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from cohabit.app.gridengine_table import GridEngineTable, lease_of
from cohabit.app.typed_toml import read_typed
from cohabit.backend.gridengine.calls import Calls
from cohabit.backend.gridengine.discovery import discover
from cohabit.backend.gridengine.steered import GridEngineManager
from cohabit.backend.gridengine.translate import Site
from cohabit.backend.slurm.calls import SlurmAway, SlurmRefused
from cohabit.backend.slurm.discovery import Discovered
from cohabit.backend.slurm.handback import Handed, hand_back
from cohabit.backend.slurm.lease import read_lease, switch_file, write_lease
from cohabit.model.errors import InputError


class _Tables(msgspec.Struct, frozen=True):
    """All that matters here; other tables are not looked at."""

    place: str = "state"
    gridengine: GridEngineTable = GridEngineTable()


class Switch(NamedTuple):
    """What is needed to give everything back."""

    lease: Path
    gridengine: GridEngineTable


def read_switch(path: Path) -> Switch:
    """From a site file."""
    tables = read_typed(path, _Tables, "docs/gridengine.md")
    folder = path.parent.absolute()
    return Switch(lease_of(folder, folder / tables.place, tables.gridengine), tables.gridengine)


async def ask_around(table: GridEngineTable, calls: Calls) -> tuple[Discovered, Site]:
    """The cluster; one sentence where Grid Engine cannot be asked."""
    try:
        return await discover(calls, table.queue, table.held == "all", table.program, table.exclusive, table.checkpoint)
    except (SlurmAway, ValueError) as error:
        fix = "start it, or say where its commands are: [gridengine] bin, root, cell"
        raise InputError(f"Grid Engine does not answer: {error}", "gridengine", fix) from error
    except SlurmRefused as error:
        raise InputError(f"Grid Engine refuses to answer: {error}", "gridengine") from error


async def give_back(site: Switch, only_if_over: bool) -> Handed | None:
    """Release what waits for us; None: the lease runs, so nothing was done."""
    lease, table = read_lease(site.lease), site.gridengine
    if only_if_over and lease is not None and lease.runs(time.time()):
        return None
    calls = Calls(table.bin, table.root, table.cell)
    _, settings = await ask_around(table, calls)
    try:
        return await hand_back(GridEngineManager(calls, settings), (table.queue,), table.held == "all")
    except SlurmAway as error:
        raise InputError(f"Grid Engine does not answer: {error}", "gridengine", "try again when it does") from error


async def detach(site: Switch) -> Handed:
    """The kill switch: nobody renews the lease, no new job is held, held ones go to plain Grid Engine now."""
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
