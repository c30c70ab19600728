"""The protocol of a resource manager that is steered, and the ways in which a call to it can fail.

A manager knows jobs by its own names, decides nothing and keeps nothing. backend/slurm and backend/gridengine implement
the protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cohabit.backend.steered.marks import Before
from cohabit.backend.steered.shapes import Ended, ManagerJob, ManagerNode, ManagerWindow

Words = tuple[str, ...]  # a command and its arguments


class ManagerRefused(Exception):
    """The manager answered and refused; the text says why."""


class ManagerAway(Exception):
    """The manager did not answer: the effect of the call is unknown."""


class Forbidden(Exception):
    """A call that could change something, where changes are forbidden."""


class Manager(Protocol):
    """Holds, places and releases jobs, and reports their states."""

    title: str  # for people

    @property
    def made(self) -> int:
        """Calls so far."""

    async def jobs(self) -> list[ManagerJob]:
        """Return every job it remembers, including jobs that have ended."""

    async def nodes(self) -> list[ManagerNode]:
        """Every node."""

    async def windows(self) -> Sequence[ManagerWindow]:
        """Return the reservations that are active or to come."""

    async def job(self, name: str) -> ManagerJob | None:
        """Return one job; None if it knows no such job."""

    async def place(self, name: str, nodes: Sequence[str], cores: int, mark: str) -> None:
        """Steer a held job to exactly these nodes, with so many cores on each."""

    async def unplace(self, name: str, before: Before, most_nodes: int, mark: str) -> None:
        """Take a steering back."""

    async def mark(self, names: Sequence[str], text: str) -> None:
        """Write down what we did with jobs, where only administrators can."""

    async def release(self, names: Sequence[str]) -> None:
        """Let held jobs start."""

    async def hold(self, name: str) -> None:
        """Keep a waiting job from starting."""

    async def give_to_owner(self, name: str, mark: str) -> None:
        """Replace our hold on a job by one that its owner can lift."""

    async def requeue_held(self, name: str) -> None:
        """Stop a run and leave the job in the queue, held."""

    async def cancel(self, name: str) -> None:
        """Stop a job for good."""

    async def limit(self, name: str, limit_s: float) -> None:
        """Give a waiting job another time limit."""

    async def ended(self, name: str) -> Ended | None:
        """Return how a job ended that is not remembered any more, from the accounting; None: unknown."""

    async def started_s(self) -> float:
        """Return when it was last started (Unix time); it may have forgotten orders from before that. 0: unknown."""
