"""Slurm's commands as the resource manager that the steering back end needs. rest.py is another way to Slurm."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from cohabit.backend.slurm import commands, text_output
from cohabit.backend.slurm.calls import Calls
from cohabit.backend.slurm.reading import JobReader
from cohabit.backend.steered.contract import ManagerAway, ManagerRefused, Words
from cohabit.backend.steered.marks import Before, read_mark
from cohabit.backend.steered.shapes import Ended, ManagerJob, ManagerNode, ManagerWindow

GATHER_S = 0.02  # calls that come within this time are combined


class Together:
    """Combines orders that come at about the same time into one call. If that call is refused, each order is carried
    out by itself, so that every caller gets its own result."""

    def __init__(self, call: Callable[[Sequence[Words]], Awaitable[None]]) -> None:
        self._call = call
        self._waiting: list[tuple[Words, asyncio.Future[None]]] = []

    async def do(self, order: Words) -> None:
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

    async def _all(self, together: Sequence[tuple[Words, asyncio.Future[None]]]) -> bool:
        """Return whether all orders were done, or Slurm did not answer."""
        try:
            await self._call([order for order, _ in together])
        except ManagerRefused:
            return False
        except ManagerAway as error:
            for _, done in together:
                done.set_exception(error)
            return True
        for _, done in together:
            done.set_result(None)
        return True

    async def _each(self, order: Words, done: asyncio.Future[None]) -> None:
        try:
            await self._call([order])
            done.set_result(None)
        except (ManagerRefused, ManagerAway) as error:
            done.set_exception(error)


class SlurmManager:
    """Slurm through its commands."""

    title = "Slurm"

    def __init__(self, calls: Calls) -> None:
        self.calls, self._reader = calls, JobReader(calls)
        self._places, self._releases = Together(self._place_all), Together(self._release_all)

    @property
    def made(self) -> int:
        return self.calls.made

    async def jobs(self) -> list[ManagerJob]:
        """Return every job Slurm remembers, including jobs that have ended."""
        return await self._reader.all()

    async def nodes(self) -> list[ManagerNode]:
        return text_output.nodes(await self.calls(commands.list_nodes()))

    async def windows(self) -> list[ManagerWindow]:
        return text_output.reservations(await self.calls(commands.list_reservations()))

    async def job(self, name: str) -> ManagerJob | None:
        """Return one job; None if Slurm knows no such job."""
        try:
            said = await self.calls(commands.show_job(name))
        except ManagerRefused:
            return None
        return next((job for job in text_output.jobs(said) if job.name == name), None)

    async def place(self, name: str, nodes: Sequence[str], cores: int, mark: str) -> None:
        made = read.before.made if (read := read_mark(mark)) is not None else ""
        await self._places.do(commands.place(name, nodes, cores, mark, made))

    async def unplace(self, name: str, before: Before, most_nodes: int, mark: str) -> None:
        await self.calls(commands.unplace(name, before, most_nodes, mark))

    async def mark(self, names: Sequence[str], text: str) -> None:
        await self.calls(commands.mark(names, text))

    async def release(self, names: Sequence[str]) -> None:
        await self._releases.do(tuple(names))

    async def _place_all(self, orders: Sequence[Words]) -> None:
        """Carry out many updates in one process: half a millisecond of slurmctld and 4 ms each instead of 50."""
        lines = [commands.line_of(words) for words in orders]
        await self.calls(commands.SEVERAL, "".join(f"{line}\n" for line in lines))

    async def _release_all(self, orders: Sequence[Words]) -> None:
        await self.calls(commands.release([name for names in orders for name in names]))

    async def hold(self, name: str) -> None:
        job = await self.job(name)
        if job is not None and job.waits and not job.held:  # else an administrator's hold would become the owner's
            await self.calls(commands.hold(name))

    async def give_to_owner(self, name: str, mark: str) -> None:
        await self.calls(commands.mark([name], mark))
        await self.calls(commands.hold(name))

    async def requeue_held(self, name: str) -> None:
        await self.calls(commands.requeue_held(name))

    async def cancel(self, name: str) -> None:
        await self.calls(commands.cancel(name))

    async def limit(self, name: str, limit_s: float) -> None:
        await self.calls(commands.change_limit(name, limit_s))

    async def ended(self, name: str) -> Ended | None:
        """Return how a job ended, from the accounting; None if there is no accounting or it does not know the job."""
        try:
            found = text_output.accounted(await self.calls(commands.accounting([name])))
        except ManagerRefused:
            return None
        return {one.name: one for one in found}.get(name)

    async def started_s(self) -> float:
        """Return when slurmctld was started."""
        return text_output.booted_s(await self.calls(commands.show_config()))
