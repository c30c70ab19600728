"""What a domain remembers of its own jobs with mates, as plain data in the state and in every checkpoint."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from cohabit.core.mates.state import MatesState
from cohabit.model.peer import NEVER
from cohabit.model.scheme import Scheme
from cohabit.model.units import FOREVER


class MateJob(msgspec.Struct):
    """A local job with mates elsewhere."""

    group: str
    first_chosen_us: int = NEVER  # when there were first nodes for it
    first_hold_us: int = NEVER  # when it first held them without running
    yields: int = 0
    yielded_us: int = NEVER  # out of the queue since then, until a local event
    attempt: int = 0  # the attempt of the protocol its nodes are promised to; 0: none
    run: int = 0  # the attempt in which it runs, or has run
    mates_expect_us: int = NEVER  # when its mates could start, as they report
    agreed_us: int = NEVER  # nodes are reserved for it from then on
    agreed_kinds: tuple[int, ...] = ()  # how many of each kind


class CoupledState(msgspec.Struct):
    """One domain among others."""

    scheme: Scheme
    rank: int
    protocol: MatesState
    jobs: dict[str, MateJob] = {}
    aside: dict[str, bool] = {}  # jobs that hold, are out of the queue, or have a reservation
    wanted: list[tuple[str, int]] = []  # (job, attempt): it gets nodes now; 0: to begin an attempt
    last: list[str] = []  # just released: behind all other jobs in this pass
    released_us: int = NEVER  # when holds were last released
    asking: str = ""  # the pass pauses until the mates of this job have answered, within this instant
    asking_us: int = NEVER
    pass_wake_us: int = FOREVER
    refused: list[str] = []  # the latest messages that were refused, and why

    def raised(self, names: list[str], scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return an order's scores (smallest first), moved up by a fraction of themselves for every yield."""
        if not self.scheme.raise_per_yield:
            return scores
        yields = np.array([self.jobs[name].yields if name in self.jobs else 0 for name in names])
        return np.asarray(scores - np.abs(scores) * self.scheme.raise_per_yield * yields)

    @property
    def agreed(self) -> list[tuple[str, MateJob]]:
        """Return the jobs with a reservation by their groups' names: the same order in every domain."""
        found = [(name, self.jobs[name]) for name in self.aside if self.jobs[name].agreed_us != NEVER]
        return sorted(found, key=lambda one: one[1].group)
