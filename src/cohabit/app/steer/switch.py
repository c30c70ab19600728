"""Give a cluster back to its resource manager: the kill switch, and the timer's action when the lease is over.

It must work at once, whatever else is broken: no core, no journal, nothing heavy is imported, and of a site file only
the place and the manager's own table are read (slurm_switch.py, gridengine_switch.py).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar

import msgspec

from cohabit.app.scenario.typed_toml import read_toml, refuse_for_root, refuse_untrusted, typed
from cohabit.backend.steered.contract import Manager, ManagerAway, ManagerRefused
from cohabit.backend.steered.handback import Handed, hand_back
from cohabit.backend.steered.lease import read_lease, switch_file, write_beside, write_lease
from cohabit.live.controller.place import Place
from cohabit.model.errors import InputError

SYSTEM = range(1000)  # uids of service accounts: a manager has its own
T = TypeVar("T")


class SteeringTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys for steering that the tables of all managers have in common."""

    held: str = "marked"  # "marked": jobs that were held for us at submission; "all": every held job of what is steered
    given_back: str = "take"  # jobs that we gave back and that still wait: "take" them again, or "leave" them
    program: str = "name"  # where a job's program is named: its name, command or comment, or none
    poll_s: float = 1.0
    start_within_s: float = 20.0  # a released job that has not started by then is decided upon again
    lease_s: float = 60.0
    lease: str = ""  # the file; "": PLACE/lease
    mates_within_s: float = 0.0  # start_within_s for a job with mates that start elsewhere at that time; 0: see below
    orders: str = ""  # a folder nodes see: how they divide their caches (docs/node-side.md); "": they do not

    AT_ONCE_S: ClassVar[float] = 2.0  # maximum time of such a start if mates do not wait for each other

    @property
    def all_held(self) -> bool:
        """Return whether every held job of what is steered is ours."""
        return self.held == "all"


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
    except ManagerAway as error:
        raise InputError(f"{manager.title} does not answer: {error}", switch.word, "try again when it does") from error


async def detach(switch: Switch) -> Handed:
    """Use the kill switch: the lease is not renewed, no new job is held, held jobs go back to the manager now."""
    write_beside(switch_file(switch.lease), b"")
    lease = read_lease(switch.lease)
    write_lease(switch.lease, 0, ("-",) if lease is None else lease.partitions)
    handed = await give_back(switch, only_if_over=False)
    assert handed is not None
    return handed


def read_part(path: Path, tables: type[T], described: str) -> T:
    """Read some tables of a site file and ignore all others, so that a mistake there stops no kill switch.

    `described`: the page that explains the keys.
    """
    refuse_untrusted(path)
    return typed(read_toml(path), tables, str(path), f"see {described}")


def switch_of(
    word: str,
    path: Path,
    place: str,
    table: SteeringTable,
    partitions: tuple[str, ...],
    manager: Callable[[], Awaitable[Manager]],
) -> Switch:
    """Return the data for a site file, with its keys `place` and the manager's own table."""
    folder = path.parent.absolute()
    return Switch(word, lease_of(folder, folder / place, table), partitions, table.all_held, manager)


def lease_of(folder: Path, place: Path, table: SteeringTable) -> Path:
    """Return the file of the lease; `folder` is the site file's."""
    return folder / table.lease if table.lease else Place(place).lease


def refuse_managers_files(*paths: str) -> None:
    """Refuse commands and settings of the manager that root would use and an ordinary account could change."""
    refuse_for_root(*(Path(text) for text in paths if text), also=SYSTEM)


async def answered(asking: Awaitable[T], title: str, word: str, fix: str) -> T:
    """Return the manager's answer; raise one sentence if there is none. `fix`: what to do then."""
    try:
        return await asking
    except (ManagerAway, ValueError) as error:  # an answer that cannot be parsed is none
        raise InputError(f"{title} does not answer: {error}", word, fix) from error
    except ManagerRefused as error:
        raise InputError(f"{title} refuses to answer: {error}", word) from error
