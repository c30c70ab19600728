"""What the back end needs of a resource manager, and Slurm's commands as one that offers it.

A manager knows jobs by its own names, decides nothing and keeps nothing. SlurmRefused: it answered no; SlurmAway: it
did not answer. Whoever steers another manager, or Slurm in another way, offers the same (rest.py, backend/gridengine).
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

GATHER_S = 0.02  # calls that come within this time are made together


class Manager(Protocol):
    """Holds, places and releases jobs, and says where they stand."""

    title: str  # for people

    @property
    def made(self) -> int:
        """Calls so far."""

    async def jobs(self) -> list[SlurmJob]:
        """Every job it remembers, those that ended included."""

    async def nodes(self) -> list[SlurmNode]:
        """Every node."""

    async def job(self, name: str) -> SlurmJob | None:
        """One job; None: it knows no such job."""

    async def place(self, name: str, nodes: Sequence[str], cores: int, mark: str) -> None:
        """Steer a held job to exactly these nodes, so many cores on each."""

    async def unplace(self, name: str, before: Before, most_nodes: int, mark: str) -> None:
        """Take a steering back."""

    async def mark(self, names: Sequence[str], text: str) -> None:
        """Write down what we did with jobs, where only administrators can."""

    async def release(self, names: Sequence[str]) -> None:
        """Let held jobs start."""

    async def hold(self, name: str) -> None:
        """Keep a waiting job from starting."""

    async def give_to_owner(self, name: str, mark: str) -> None:
        """Leave a held job to its owner: from now on it is held as if the owner had held it."""

    async def requeue_held(self, name: str) -> None:
        """Stop a run; the job waits in the queue, held."""

    async def cancel(self, name: str) -> None:
        """Stop a job for good."""

    async def limit(self, name: str, limit_s: float) -> None:
        """Give a waiting job another time limit."""

    async def ended(self, name: str) -> Ended | None:
        """How a job ended that is not remembered any more, from the accounting; None: nobody knows."""

    async def started_s(self) -> float:
        """When it was last started (Unix time), so that it may have forgotten what it was told before; 0: unknown."""


class Together:
    """Gathers what is wanted at about the same time into one call; where that is refused, each is done by itself, so
    that everybody hears what became of his own."""

    def __init__(self, call: Callable[[Sequence[commands.Words]], Awaitable[None]]) -> None:
        self._call = call
        self._waiting: list[tuple[commands.Words, asyncio.Future[None]]] = []

    async def do(self, order: commands.Words) -> None:
        """Returns when it is done; raises what it came to."""
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
        """Whether all of it was done, or nobody answered."""
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
        """Every job Slurm remembers, those that ended included."""
        return await self._reader.all()

    async def nodes(self) -> list[SlurmNode]:
        """Every node."""
        return text_output.nodes(await self.calls(commands.list_nodes()))

    async def job(self, name: str) -> SlurmJob | None:
        """One job; None: Slurm knows no such job."""
        try:
            said = await self.calls(commands.show_job(name))
        except SlurmRefused:
            return None
        return next((job for job in text_output.jobs(said) if job.name == name), None)

    async def place(self, name: str, nodes: Sequence[str], cores: int, mark: str) -> None:
        """Steer a held job to exactly these nodes, so many cores on each."""
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
        """Many updates are one process: half a millisecond of slurmctld and 4 ms each instead of 50."""
        lines = [commands.line_of(words) for words in orders]
        await self.calls(commands.SEVERAL, "".join(f"{line}\n" for line in lines))

    async def _release_all(self, orders: Sequence[commands.Words]) -> None:
        await self.calls(commands.release([name for names in orders for name in names]))

    async def hold(self, name: str) -> None:
        """Keep a waiting job from starting."""
        await self.calls(commands.hold(name))

    async def give_to_owner(self, name: str, mark: str) -> None:
        """Leave a held job to its owner's own hold."""
        await self.calls(commands.mark([name], mark))
        await self.calls(commands.hold_for_owner(name))

    async def requeue_held(self, name: str) -> None:
        """Stop a run; the job waits in the queue, held."""
        await self.calls(commands.requeue_held(name))

    async def cancel(self, name: str) -> None:
        """Stop a job for good."""
        await self.calls(commands.cancel(name))

    async def limit(self, name: str, limit_s: float) -> None:
        """Give a waiting job another time limit."""
        await self.calls(commands.change_limit(name, limit_s))

    async def ended(self, name: str) -> Ended | None:
        """How a job ended, from the accounting; None: there is none, or it does not know."""
        try:
            found = text_output.accounted(await self.calls(commands.accounting([name])))
        except SlurmRefused:
            return None
        return {one.name: one for one in found}.get(name)

    async def started_s(self) -> float:
        """When slurmctld was started."""
        return text_output.booted_s(await self.calls(commands.show_config()))
