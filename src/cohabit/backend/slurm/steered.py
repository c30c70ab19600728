"""What the back end needs of a resource manager (the Manager protocol), and its implementation with Slurm's commands.

A manager knows jobs by its own names, decides nothing and keeps nothing. SlurmRefused: it answered no; SlurmAway: it
did not answer. Other managers, and other ways to Slurm, implement the same protocol (rest.py, backend/gridengine).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from cohabit.backend.slurm import commands, text_output
from cohabit.backend.slurm.calls import Calls, SlurmAway, SlurmRefused
from cohabit.backend.slurm.reading import JobReader
from cohabit.backend.steered.marks import Before, read_mark
from cohabit.backend.steered.shapes import Ended, SlurmJob, SlurmNode

GATHER_S = 0.02  # calls that come within this time are combined


class Manager(Protocol):
    """Holds, places and releases jobs, and reports their states."""

    title: str  # for people

    @property
    def made(self) -> int:
        """Calls so far."""

    async def jobs(self) -> list[SlurmJob]:
        """Return every job it remembers, including jobs that have ended."""

    async def nodes(self) -> list[SlurmNode]:
        """Every node."""

    async def job(self, name: str) -> SlurmJob | None:
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


class Together:
    """Combines orders that come at about the same time into one call. If that call is refused, each order is carried
    out by itself, so that every caller gets its own result."""

    def __init__(self, call: Callable[[Sequence[commands.Words]], Awaitable[None]]) -> None:
        self._call = call
        self._waiting: list[tuple[commands.Words, asyncio.Future[None]]] = []

    async def do(self, order: commands.Words) -> None:
        """Return when the order is done; raise the exception it ended with."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((order, done))
        if len(self._waiting) > 1:
            await done
            return
        await asyncio.sleep(GATHER_S)
        together, self._waiting = self._waiting, []
        if len(together) == 1 or not await self._all(together):
            await asyncio.gather(*(self._each(*one) for one in together))
        await done

    async def _all(self, together: Sequence[tuple[commands.Words, asyncio.Future[None]]]) -> bool:
        """Return whether all orders were done, or Slurm did not answer."""
        try:
            await self._call([order for order, _ in together])
        except SlurmRefused:
            return False
        except SlurmAway as error:
            for _, done in together:
                done.set_exception(error)
            return True
        for _, done in together:
            done.set_result(None)
        return True

    async def _each(self, order: commands.Words, done: asyncio.Future[None]) -> None:
        try:
            await self._call([order])
            done.set_result(None)
        except (SlurmRefused, SlurmAway) as error:
            done.set_exception(error)


class SlurmManager:
    """Slurm through its commands."""

    title = "Slurm"

    def __init__(self, calls: Calls) -> None:
        self.calls, self._reader = calls, JobReader(calls)
        self._places, self._releases = Together(self._place_all), Together(self._release_all)

    @property
    def made(self) -> int:
        """Calls so far."""
        return self.calls.made

    async def jobs(self) -> list[SlurmJob]:
        """Return every job Slurm remembers, including jobs that have ended."""
        return await self._reader.all()

    async def nodes(self) -> list[SlurmNode]:
        """Every node."""
        return text_output.nodes(await self.calls(commands.list_nodes()))

    async def job(self, name: str) -> SlurmJob | None:
        """Return one job; None if Slurm knows no such job."""
        try:
            said = await self.calls(commands.show_job(name))
        except SlurmRefused:
            return None
        return next((job for job in text_output.jobs(said) if job.name == name), None)

    async def place(self, name: str, nodes: Sequence[str], cores: int, mark: str) -> None:
        """Steer a held job to exactly these nodes, with so many cores on each."""
        made = read.before.made if (read := read_mark(mark)) is not None else ""
        await self._places.do(commands.place(name, nodes, cores, mark, made))

    async def unplace(self, name: str, before: Before, most_nodes: int, mark: str) -> None:
        """Take a steering back."""
        await self.calls(commands.unplace(name, before, most_nodes, mark))

    async def mark(self, names: Sequence[str], text: str) -> None:
        """Write down what we did with jobs, where only administrators can."""
        await self.calls(commands.mark(names, text))

    async def release(self, names: Sequence[str]) -> None:
        """Let held jobs start."""
        await self._releases.do(tuple(names))

    async def _place_all(self, orders: Sequence[commands.Words]) -> None:
        """Carry out many updates in one process: half a millisecond of slurmctld and 4 ms each instead of 50."""
        lines = [commands.line_of(words) for words in orders]
        await self.calls(commands.SEVERAL, "".join(f"{line}\n" for line in lines))

    async def _release_all(self, orders: Sequence[commands.Words]) -> None:
        await self.calls(commands.release([name for names in orders for name in names]))

    async def hold(self, name: str) -> None:
        """Keep a waiting job from starting."""
        await self.calls(commands.hold(name))

    async def give_to_owner(self, name: str, mark: str) -> None:
        """Replace our hold on a job by one that its owner can lift."""
        await self.calls(commands.mark([name], mark))
        await self.calls(commands.hold_for_owner(name))

    async def requeue_held(self, name: str) -> None:
        """Stop a run and leave the job in the queue, held."""
        await self.calls(commands.requeue_held(name))

    async def cancel(self, name: str) -> None:
        """Stop a job for good."""
        await self.calls(commands.cancel(name))

    async def limit(self, name: str, limit_s: float) -> None:
        """Give a waiting job another time limit."""
        await self.calls(commands.change_limit(name, limit_s))

    async def ended(self, name: str) -> Ended | None:
        """Return how a job ended, from the accounting; None if there is no accounting or it does not know the job."""
        try:
            found = text_output.accounted(await self.calls(commands.accounting([name])))
        except SlurmRefused:
            return None
        return {one.name: one for one in found}.get(name)

    async def started_s(self) -> float:
        """Return when slurmctld was started."""
        return text_output.booted_s(await self.calls(commands.show_config()))
