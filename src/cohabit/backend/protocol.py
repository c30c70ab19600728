"""The protocol of a back end: carry out orders, report events, and report the real state after a restart.

A back end never calls the core and decides nothing. Every order names (job, attempt); carrying it out twice does no
harm. Instants in orders are on the controller's clock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from cohabit.model.command import Command
from cohabit.model.event import Event
from cohabit.model.units import SECOND

# How a run can end, as JobFinished.status says it.
DONE = "done"
FAILED = "failed"
KILLED = "killed"  # at its time limit
CANCELLED = "cancelled"
LOST = "lost"  # with its machine, or with its runner
STOPPED = "stopped"  # as ordered, or by its fuse; the job is queued again

# Where an observed run stands.
NEVER = "never"  # it was asked for, did not begin, and never will
RUNNING = "running"
ENDED = "ended"


class Launch(msgspec.Struct, frozen=True, omit_defaults=True):
    """The command of a job and its surroundings. The core does not need it; the store keeps it beside the job."""

    command: tuple[str, ...]
    environment: dict[str, str] = {}  # all of it; nothing is inherited from the controller
    folder: str = ""  # where it runs; "": the back end's own place
    stdout: str = ""  # a file; "": the back end's own place
    stderr: str = ""  # a file; "": with stdout
    framework: str = "plain"  # the launcher: docs/launchers.md
    processes: int = 0  # cores over all nodes, as in the job; 0: every core of its nodes
    threads: int = 0  # per process; 0: as the launcher thinks fit
    memory_bytes: int = 0  # per core; 0: not stated
    oversubscribe: bool = False  # more processes than cores, on purpose
    uid: int = -1  # the owner, if the job is to run as that user; -1: the account of the service
    gid: int = -1  # -1: the user's own
    groups: tuple[int, ...] = ()  # additional groups; none: those of the user's account
    array_first: int = 0  # of an array: the number of its first member
    array_count: int = 0  # number of members; 0: not an array


class Run(msgspec.Struct, frozen=True):
    """A run in the state in which the back end finds it."""

    job_id: str
    attempt: int
    stands: str  # NEVER, RUNNING or ENDED
    status: str = ""  # of one that has ended
    exit_status: int | None = None  # of its program, where it is known
    exit_signal: int | None = None  # that ended its program
    reason: str = ""  # what went wrong beside the program


class Capabilities(msgspec.Struct, frozen=True):
    """Abilities of a back end besides starting and stopping jobs."""

    fuses: bool = False  # stops a run at its fuse even if the controller is dead
    moves: bool = False  # MoveJob
    shares: bool = False  # SetShares


class Backend(Protocol):
    """Runs jobs. `execute` raises BackendError when an order could not be carried out (now)."""

    capabilities: Capabilities

    async def open(self) -> None:
        """Get ready and find the runs of an earlier controller."""

    async def execute(self, command: Command, launch: Launch | None = None) -> None:
        """Carry out an order; an order to stop returns when the run is over. `launch` belongs to StartJob."""

    def events(self) -> AsyncIterator[Event]:
        """Yield events as they happen, each at least once while it is not settled."""

    async def observe(self) -> list[Run]:
        """Return every run that is not settled. A run that has not begun by now never begins."""

    async def settled(self, job_id: str, attempt: int) -> None:
        """Drop what was kept of this run: its end is in the journal."""

    async def close(self) -> None:
        """Stop reporting. Runs go on."""


class BackendError(Exception):
    """An order could not be carried out; the text says why, `back_off_us` when a start may be tried again."""

    def __init__(self, said: str, back_off_us: int = 60 * SECOND) -> None:
        super().__init__(said)
        self.back_off_us = back_off_us
