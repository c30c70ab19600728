"""A site file (TOML) for a cluster under Slurm: which partitions, which policy, and the lease. docs/slurm.md has it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from cohabit.app.scenario_tables import PolicyConfig
from cohabit.app.typed_toml import read_typed
from cohabit.backend.slurm.translate import PROGRAMS
from cohabit.model.errors import InputError

OF_FILES = ("degradation", "model", "variability")  # keys of [policy] that name files
HELD = ("marked", "all")


class SlurmTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[slurm]"""

    partitions: list[str] = []  # none: all that are up
    conf: str = ""  # its slurm.conf, where the commands do not find it themselves
    held: str = "marked"  # "marked": jobs that job_submit.lua held; "all": every held job of these partitions
    program: str = "name"  # where a job's program is named: its name, command or comment, or none
    poll_s: float = 1.0
    start_within_s: float = 20.0  # a released job that Slurm has not started by then is decided upon anew
    lease_s: float = 60.0
    lease: str = ""  # the file; "": PLACE/lease


class NodeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[node]: what Slurm does not know of its nodes, for policies that divide cache or book bandwidth."""

    ways: int = 0  # of the last-level cache; 0: not stated
    min_ways: int = 1
    closids: int = 0
    bandwidth_gbs: list[tuple[int, float]] = []  # (active cores, GB/s)


class SlurmTables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    place: str = "state"
    profiles: str = ""  # a file with what is known of programs: `cohabit profiles export`, programs.json or curves
    policy: PolicyConfig = PolicyConfig()
    slurm: SlurmTable = SlurmTable()
    node: NodeTable = NodeTable()


@dataclass(frozen=True)
class SlurmSite:
    """What the file comes to."""

    place: Path
    policy: PolicyConfig
    slurm: SlurmTable
    lease: Path
    profiles: Path | None
    node: NodeTable


def read_slurm_site(path: Path) -> SlurmSite:
    """Read and check; paths in it are relative to it."""
    tables = read_typed(path, SlurmTables, "docs/slurm.md")
    slurm, folder = tables.slurm, path.parent.absolute()
    for key, value, known in (("held", slurm.held, HELD), ("program", slurm.program, PROGRAMS)):
        if value not in known:
            raise InputError(f"{key} is {value!r}", f"{path}: slurm.{key}", f"use {', '.join(known)}")
    for key, least in (("poll_s", 0.1), ("start_within_s", 1.0), ("lease_s", 5.0)):
        if not getattr(slurm, key) >= least:
            raise InputError(f"{key} is {getattr(slurm, key):g}", f"{path}: slurm.{key}", f"give at least {least:g}")
    named = {key: str(folder / getattr(tables.policy, key)) for key in OF_FILES if getattr(tables.policy, key)}
    place = folder / tables.place
    return SlurmSite(
        place, msgspec.structs.replace(tables.policy, **named), slurm,
        folder / slurm.lease if slurm.lease else place / "lease", folder / tables.profiles if tables.profiles else None,
        tables.node,
    )  # fmt: skip
