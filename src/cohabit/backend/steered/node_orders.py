"""What a controller orders from the daemons of nodes: how caches are divided, and whose curves are to be measured.

Orders are files in a folder both sides see (agent/node/orders.py); without a folder no node divides its cache. An order
states all that holds on its node, so a later division must repeat which job's curves are wanted there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cohabit.agent.node.orders import order_division
from cohabit.model.command import SetShares, StartJob


class NodeOrders:
    """The orders of one controller. `names` are nodes by number, `theirs` returns the manager's name of a job, and
    `booked_mbs` what a job has booked on each node."""

    def __init__(
        self,
        folder: Path | None,
        names: Sequence[str],
        theirs: Callable[[str], str],
        booked_mbs: Callable[[str], int],
    ) -> None:
        self.folder, self._names, self._theirs, self._booked_mbs = folder, names, theirs, booked_mbs
        self._curves: dict[int, tuple[str, float]] = {}  # by node, as last ordered: the job, its expected seconds

    async def divide(self, command: SetShares) -> None:
        """Order a division; a job on these nodes whose curves are wanted is measured on."""
        there = {job for job, _, _ in command.shares}
        kept = set[tuple[str, float]]()
        for node in _numbers(command.nodes):
            wanted = self._curves.get(node)
            if wanted is not None and wanted[0] in there:
                kept.add(wanted)
            else:
                self._curves.pop(node, None)
        await self._write(command, sorted(kept))

    async def step_ways(self, order: StartJob, expected_s: float) -> None:
        """Order the curves of a run that has its nodes to itself."""
        wanted = (order.job_id, expected_s)
        self._curves |= dict.fromkeys(_numbers(order.nodes), wanted)
        await self._write(SetShares(order.nodes, ()), [wanted])

    async def starts(self, order: StartJob) -> None:
        """Take back the order for an earlier run of a job that starts again."""
        stale = [node for node, (job, _) in self._curves.items() if job == order.job_id]
        for node in stale:
            del self._curves[node]
        if stale:
            await self._write(SetShares(tuple((node, 1) for node in stale), ()), [])

    async def _write(self, command: SetShares, curves: Sequence[tuple[str, float]]) -> None:
        if self.folder is not None:
            words = (self.folder, self._names, command, self._theirs, self._booked_mbs, curves)
            await asyncio.to_thread(order_division, *words)


def _numbers(nodes: Sequence[tuple[int, int]]) -> Iterator[int]:
    return (node for first, count in nodes for node in range(first, first + count))
