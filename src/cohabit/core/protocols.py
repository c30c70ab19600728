"""What a policy must offer: small protocols, and the set of policies one scheduler runs with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import Columns

if TYPE_CHECKING:
    from cohabit.core.timeline import Timeline
    from cohabit.core.view import View
    from cohabit.model.plan import Placement, Verdict


class Order(Protocol):
    """Who goes first: the smallest score; ties go to the earlier submission."""

    changing: bool  # whether a score depends on the time (or on other jobs) and must be computed in every pass

    def scores(self, jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
        """One number per row, in one vectorised step."""
        ...


class Placer(Protocol):
    """Which nodes a job gets."""

    exclusive: bool  # whether every job has its nodes to itself

    def place(self, row: int, allowed: NDArray[np.int64], view: View) -> Placement | None:
        """Nodes for the job now, with at most allowed[kind] nodes of each kind; None if it cannot start now."""
        ...


class Gate(Protocol):
    """A reason to wait although nodes are free. Asked without a placement first, then with one."""

    def check(self, row: int, placement: Placement | None, view: View) -> Verdict:
        """Go, Wait or Hold."""
        ...


class Backfill(Protocol):
    """Whether a job may start now given what has been promised to others."""

    depth: int

    def allowed(self, row: int, timeline: Timeline) -> NDArray[np.int64]:
        """How many nodes of each kind the job may use from now until its limit without breaking a reservation."""
        ...


@dataclass(frozen=True)
class PolicySet:
    """The policies one scheduler decides with; `names` is how a person would write them."""

    order: Order
    backfill: Backfill
    placer: Placer
    backfill_order: Order | None = None
    gates: tuple[Gate, ...] = ()
    fair_share_half_life_us: int = 0  # 0: usage is not tracked
    names: dict[str, Any] = field(default_factory=dict)

    @property
    def changing(self) -> bool:
        """Whether any order must be computed anew in every pass."""
        return self.order.changing or (self.backfill_order is not None and self.backfill_order.changing)
