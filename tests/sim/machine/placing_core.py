"""A stand-in for the scheduler in tests of the world: every job starts when it comes in, on the nodes it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from cohabit.model.command import CancelJob, Command, SetShares, StartJob
from cohabit.model.event import Event, JobCancelled, JobFinished, JobSubmitted, ProfileLearned


@dataclass
class PlacingCore:
    """Starts jobs as the table says; divides the cache equally, in order of arrival, where `partition` is set."""

    orders: dict[str, StartJob]
    partition: bool = False
    shares_first: bool = False  # give SetShares before StartJob, as a careless core might
    there: dict[int, list[str]] = field(default_factory=dict)
    learned: list[ProfileLearned] = field(default_factory=list)
    told: list[tuple[int, Event]] = field(default_factory=list)
    state: Any = field(default_factory=lambda: SimpleNamespace(rows={}))

    def step(self, now_us: int, events: Sequence[Event]) -> list[Command]:
        commands: list[Command] = []
        touched: set[int] = set()
        for event in events:
            self.told.append((now_us, event))
            if isinstance(event, JobSubmitted):
                order = self.orders[event.job.job_id]
                commands.append(order)
                for first, count in order.nodes:
                    for node in range(first, first + count):
                        self.there.setdefault(node, []).append(order.job_id)
                        touched.add(node)
            elif isinstance(event, JobFinished | JobCancelled):
                for node, jobs in self.there.items():
                    if event.job_id in jobs:
                        jobs.remove(event.job_id)
                        touched.add(node)
                if isinstance(event, JobCancelled):
                    commands.append(CancelJob(event.job_id, 1, "cancelled"))
            elif isinstance(event, ProfileLearned):
                self.learned.append(event)
        divided = [self.divided(node) for node in sorted(touched) if self.partition and self.there[node]]
        return [*divided, *commands] if self.shares_first else [*commands, *divided]

    def divided(self, node: int) -> SetShares:
        jobs = self.there[node]
        each, more = divmod(20, len(jobs))
        masks, first = [], 0
        for place, job_id in enumerate(jobs):
            masks.append((job_id, first, each + (place < more)))
            first += masks[-1][2]
        return SetShares(((node, 1),), tuple(masks))
