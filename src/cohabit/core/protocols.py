"""What a policy must offer: small protocols, and the set of policies one scheduler runs with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import Columns
from cohabit.model.errors import InputError

if TYPE_CHECKING:
    from cohabit.compiled import ScoreEntry
    from cohabit.core.timeline import Timeline
    from cohabit.core.view import View
    from cohabit.model.plan import Placement


class ScoreFunction(Protocol):
    """One number per row, in one vectorised step; the smallest goes first, ties go to the earlier submission."""

    def __call__(self, jobs: Columns, rows: NDArray[np.int64], now_us: int, /, *parameters: float) -> NDArray[Any]: ...


@dataclass(frozen=True)
class Order:
    """Who goes first: a score function with its parameters."""

    function: ScoreFunction
    changing: bool = True  # whether a score depends on the time (or on other jobs) and is computed in every pass
    parameters: tuple[float, ...] = ()
    entry: ScoreEntry | None = None  # the same function compiled, where numba can
    name: str = "order"  # its name or file, for messages

    def scores(self, jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
        """The scores of these rows; a score that is not a number counts as last."""
        try:
            found = np.asarray(self.function(jobs, rows, now_us, *self.parameters))
        except Exception as error:
            raise InputError(f"the order failed: {error}", self.name, "correct its scores()") from error
        if found.shape != rows.shape or found.dtype.kind not in "biuf":
            what = f"the order gave {found.dtype} of shape {found.shape} for {len(rows)} jobs"
            raise InputError(what, self.name, "scores() must return one number per row")
        return np.where(np.isnan(found), np.inf, found) if found.dtype.kind == "f" else found


class Placer(Protocol):
    """Which nodes a job gets."""

    @property
    def exclusive(self) -> bool:
        """Whether every job has its nodes to itself."""
        ...

    def place(self, row: int, allowed: NDArray[np.int64], idle: NDArray[np.bool_], view: View) -> Placement | None:
        """Nodes out of `idle` for the job now, at most allowed[kind] of each kind; None if it cannot start now."""
        ...


class Backfill(Protocol):
    """Whether a job may start now given what has been promised to others."""

    @property
    def depth(self) -> int:
        """How many blocked jobs are promised a start; core/kernels.py names the depths with a meaning of their own."""
        ...

    def allowed(self, limit_us: int, timeline: Timeline) -> NDArray[np.int64]:
        """How many nodes of each kind the job may use from now until its limit without breaking a reservation."""
        ...


@dataclass(frozen=True)
class PolicySet:
    """The policies one scheduler decides with; `names` is how a person would write them."""

    order: Order
    backfill: Backfill
    placer: Placer
    backfill_order: Order | None = None
    fair_share_half_life_us: int = 0  # 0: usage is not tracked
    names: dict[str, Any] = field(default_factory=dict)

    @property
    def changing(self) -> bool:
        """Whether any order must be computed anew in every pass."""
        return self.order.changing or (self.backfill_order is not None and self.backfill_order.changing)
