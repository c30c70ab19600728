"""Stories on shared nodes: a core told what happens, in seconds, with every step checked."""

from __future__ import annotations

from typing import Any

from cohabit.core import invariants
from cohabit.core.core import SchedulerCore
from cohabit.core.explain import why_waiting
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import Command, SetShares, StartJob
from cohabit.model.event import Event
from cohabit.model.units import SECOND
from cohabit.policy.options import PlacementOptions
from tests.support.builders import sharing_scheduler, submitted
from tests.support.clusters import SHARED
from tests.support.tenancy import nodes_in

UNLEARNED = PlacementOptions(learn=False)
ONE_NODE, TWO_NODES = (Cluster((NodeGroup(count, 8, 0, 10, 2, 4, SHARED.groups[0].bandwidth_gbs),)) for count in (1, 2))


class Story:
    """One core; `shares` is how the cache of each node is divided, as far as it was told."""

    def __init__(self, core: SchedulerCore) -> None:
        self.core = core
        self.shares: dict[int, dict[str, tuple[int, int]]] = {}  # node -> job -> (first way, ways)

    def __call__(self, now_s: float, *events: Event) -> list[Command]:
        commands = self.core.step(round(now_s * SECOND), list(events))
        invariants.check(self.core.state)
        for command in commands:
            if isinstance(command, SetShares):
                for node in nodes_in(command.nodes):
                    self.shares[node] = {name: (first, ways) for name, first, ways in command.shares}
        return commands

    def starts(self, now_s: float, *events: Event) -> dict[str, StartJob]:
        """The jobs that start."""
        return {one.job_id: one for one in self(now_s, *events) if isinstance(one, StartJob)}

    def run(self, now_s: float, name: str, program: str = "", processes: int = 8, **asked: Any) -> StartJob | None:
        """One job comes in; how it starts, if it does."""
        return self.starts(now_s, submitted(name, program=program, processes=processes, **asked)).get(name)

    def why(self, name: str, now_s: float = 0) -> str:
        """Why it waits."""
        return why_waiting(self.core.state, self.core.policies, name, round(now_s * SECOND))


def story(**options: Any) -> Story:
    """A story on clusters.SHARED under spread, unless told otherwise."""
    return Story(sharing_scheduler(**options))


def must(start: StartJob | None) -> StartJob:
    """It has to have started."""
    assert start is not None
    return start
