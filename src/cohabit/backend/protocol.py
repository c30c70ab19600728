"""What a back end must offer: carry out orders, report facts, and say after a restart what is really there.

A back end never calls the core and decides nothing. Every order names (job, attempt); carrying it out twice does no
harm. Instants in orders are on the controller's clock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from cohabit.model.command import Command
from cohabit.model.event import Event

# How a run can end, as JobFinished.status says it.
DONE = "done"
FAILED = "failed"
KILLED = "killed"  # at its time limit
CANCELLED = "cancelled"
LOST = "lost"  # with its machine, or whoever watched over it
STOPPED = "stopped"  # as ordered, or by its fuse; it waits in the queue again

# Where an observed run stands.
NEVER = "never"  # it was asked for, did not begin, and will not
RUNNING = "running"
ENDED = "ended"


class Launch(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a job executes. The core does not need it; the store keeps it beside the job."""

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
    uid: int = -1  # whose job it is, if the back end is to run it as that user; -1: as whoever serves
    gid: int = -1  # -1: the user's own
    groups: tuple[int, ...] = ()  # besides; none: those the user is in


class Run(msgspec.Struct, frozen=True):
    """A run as the back end finds it."""

    job_id: str
    attempt: int
    stands: str  # NEVER, RUNNING or ENDED
    status: str = ""  # of one that has ended
    exit_status: int | None = None  # of its program, where it is known
    exit_signal: int | None = None  # that ended its program


class Capabilities(msgspec.Struct, frozen=True):
    """What a back end can do besides starting and stopping."""

    fuses: bool = False  # stops a run at its fuse even if the controller is dead
    moves: bool = False  # MoveJob
    shares: bool = False  # SetShares


class Backend(Protocol):
    """Runs jobs. `execute` raises BackendError when an order could not be carried out (now)."""

    capabilities: Capabilities

    async def open(self) -> None:
        """Get ready; find the runs of an earlier controller."""

    async def execute(self, command: Command, launch: Launch | None = None) -> None:
        """Carry out an order; an order to stop returns when the run is over. `launch` belongs to StartJob."""

    def events(self) -> AsyncIterator[Event]:
        """Facts as they happen, each at least once as long as it was not settled."""

    async def observe(self) -> list[Run]:
        """Every run that is not settled. One that has not begun by now never will."""

    async def settled(self, job_id: str, attempt: int) -> None:
        """The end of this run is in the journal: what was kept of it may go."""

    async def close(self) -> None:
        """Stop reporting. Runs go on."""


class BackendError(Exception):
    """An order could not be carried out; the text says why."""
