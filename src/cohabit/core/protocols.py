"""What a policy must offer: small protocols, and the set of policies one scheduler runs with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import Columns
from cohabit.model.errors import InputError
from cohabit.model.scheme import Scheme

if TYPE_CHECKING:
    from cohabit.compiled import ScoreEntry
    from cohabit.core.ledger import Ledger, Parts, Takes
    from cohabit.core.timeline import Timeline
    from cohabit.core.view import View
    from cohabit.model.cluster import NodeGroup
    from cohabit.model.plan import Ask, Move, Placement
    from cohabit.model.profile import Tenant
    from cohabit.model.resources import Dimension


class ScoreFunction(Protocol):
    """One number per row, in one vectorised step; the smallest goes first, ties go to the earlier submission."""

    def __call__(self, jobs: Columns, rows: NDArray[np.int64], now_us: int, /, *parameters: float) -> NDArray[Any]: ...


@dataclass(frozen=True)
class Order:
    """Who goes first: a score function with its parameters."""

    function: ScoreFunction
    changing: bool = True  # whether a score depends on the time (or on other jobs) and is computed in every pass
    # whether no score rises while the job waits, nor falls as its user's usage share grows, nor depends on other rows
    falling: bool = False
    parameters: tuple[float, ...] = ()
    entry: ScoreEntry | None = None  # compiled for one job at a time, called by address; then it is the definition
    name: str = "order"  # its name or file, for messages

    @property
    def alone(self) -> bool:
        """Whether it can score some rows without the others."""
        return self.falling or self.entry is not None

    def scores(self, jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
        """The scores of these rows; a score that is not a number counts as last."""
        found = self.raw_scores(jobs, rows, now_us)
        return np.where(np.isnan(found), np.inf, found) if found.dtype.kind == "f" else found

    def raw_scores(self, jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
        """What the order gives: one number per row, or an error that says what is wrong."""
        if self.entry is not None:
            return self.entry.scores(jobs, rows, now_us, self.parameters)
        try:
            found = np.asarray(self.function(jobs, rows, now_us, *self.parameters))
        except Exception as error:
            raise InputError(f"the order failed: {error}", self.name, "correct its scores()") from error
        if found.shape != rows.shape or found.dtype.kind not in "biuf":
            what = f"the order gave {found.dtype} of shape {found.shape} for {len(rows)} jobs"
            raise InputError(what, self.name, "scores() must return one number per row")
        return found


@runtime_checkable
class Placer(Protocol):
    """Which nodes a job gets."""

    @property
    def exclusive(self) -> bool:
        """Whether every job has its nodes to itself."""
        ...

    def place(self, row: int, allowed: NDArray[np.int64], idle: NDArray[np.bool_], view: View) -> Placement | None:
        """Nodes out of `idle` for the job now, at most allowed[kind] of each kind; None if it cannot start now."""
        ...


@runtime_checkable
class SharedPlacer(Protocol):
    """How a job could run on nodes it shares: ways to run it, the preferred one first, and nodes for each."""

    @property
    def exclusive(self) -> bool:
        """False: nodes are shared."""
        ...

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """What is counted on a node; cores come first."""
        ...

    def asks(self, row: int, view: View) -> list[Ask]:
        """The ways in which the job could run; it must depend on the job's description and profile only."""
        ...

    def find(self, row: int, ask: Ask, takes: Takes, ledger: Ledger, view: View) -> Parts | None:
        """Nodes for a job that would run like this and take that much; None if there are not enough it should have."""
        ...


@runtime_checkable
class GroupPlacer(SharedPlacer, Protocol):
    """Jobs that start together on the same nodes: the policy makes the groups (core/together.py finds nodes).

    The first of a job's asks is how it runs in a group, the last how it runs alone.
    """

    def groups(self, queue: Sequence[int], view: View) -> tuple[list[tuple[int, ...]], dict[str, Any]]:
        """Groups of rows in the order they should start, those alone as groups of one; and what to remember."""
        ...

    def join(self, row: int, ask: Ask, takes: Takes, ledger: Ledger, view: View) -> Parts | None:
        """Nodes on which the job may join those who run there already; None: on none."""
        ...


@runtime_checkable
class Explaining(Protocol):
    """A placement with reasons of its own why a job waits."""

    def why_not(self, row: int, view: View) -> str:
        """Why the job does not start although there may be room; empty if the usual reasons are all there is."""
        ...


@runtime_checkable
class Mover(Protocol):
    """Who should change its node while it runs."""

    @property
    def most_moves(self) -> int:
        """So many at each decision; 0: nobody moves."""
        ...

    def moves(self, ledger: Ledger, touched: Collection[int], view: View) -> list[Move]:
        """Moves worth making now that the residents of the touched nodes have changed, in order."""
        ...


@dataclass(frozen=True)
class Wait:
    """Not now: the job is asked about again at `until_us`, and whenever nodes are released before."""

    reason: str
    until_us: int


class Gate(Protocol):
    """Whether a job that has found its nodes should start there now; core/gating.py asks."""

    @property
    def name(self) -> str:
        """Under which its memory is kept."""
        ...

    def check(self, row: int, nodes: NDArray[np.int64], view: View, memory: dict[str, Any]) -> Wait | None:
        """None: go. `memory` is its own, plain data to be changed; memory["jobs"] forgets jobs that have gone."""
        ...

    def calmer(self, row: int, idle: NDArray[np.bool_], view: View) -> NDArray[np.bool_] | None:
        """Of the idle nodes those on which it would rather see the job; None: it has no opinion."""
        ...


class Partitioner(Protocol):
    """Who gets which cache ways on a node."""

    def split(self, tenants: Sequence[Tenant], node: NodeGroup) -> list[tuple[int, int]]:
        """(first way, ways) for each job on a node, in the order they came; equal masks are shared, others disjoint."""
        ...


class Answer(NamedTuple):
    """What a guarantor makes of a measurement: rows whose nodes are divided anew, and why."""

    rows: tuple[int, ...] = ()
    reason: str = ""


class Corrected(NamedTuple):
    """A division with all corrections: (first way, ways) for each job, and (job, percent) for those held back."""

    shares: list[tuple[int, int]]
    caps: tuple[tuple[str, int], ...]


@runtime_checkable
class Guarantor(Partitioner, Protocol):
    """A division that is corrected by what is measured of running jobs; core/guaranteeing.py asks.

    `memory` is its own, plain data to be changed; memory["jobs"] forgets jobs that have gone.
    """

    @property
    def name(self) -> str:
        """Under which its memory is kept."""
        ...

    def measured(self, row: int, progress: float, window_us: int, view: View, memory: dict[str, Any]) -> Answer:
        """A running job has made that progress against running alone."""
        ...

    def refused(self, rows: Sequence[int], until_us: int, view: View, memory: dict[str, Any]) -> Answer:
        """The world cannot give these jobs what they should have before then."""
        ...

    def correct(
        self, rows: Sequence[int], shares: list[tuple[int, int]], node: NodeGroup, view: View, memory: dict[str, Any]
    ) -> Corrected:
        """What it remembers, applied to a division of `split`; nothing is changed by asking."""
        ...

    def story(self, job_id: str, memory: dict[str, Any]) -> list[tuple[int, str]]:
        """What was done for a job or at its cost, with the instants; nothing is changed by asking."""
        ...


class Backfill(Protocol):
    """Whether a job may start now given what has been promised to others."""

    @property
    def depth(self) -> int:
        """How many blocked jobs are promised a start; see core/kernels/bundles.py."""
        ...

    def allowed(self, limit_us: int, timeline: Timeline) -> NDArray[np.int64]:
        """How many nodes of each kind the job may use from now until its limit without breaking a reservation."""
        ...


@dataclass(frozen=True)
class Coupling:
    """This domain among others: its name, its place among them, and what it does when mates are not ready."""

    domain: str
    rank: int = 0
    scheme: Scheme = field(default_factory=Scheme)
    peers: tuple[str, ...] = ()  # the other domains


@dataclass(frozen=True)
class PolicySet:
    """The policies one scheduler decides with; `names` is how a person would write them."""

    order: Order
    backfill: Backfill
    placer: Placer | SharedPlacer
    backfill_order: Order | None = None
    fair_share_half_life_us: int = 0  # 0: usage is not tracked
    partitioner: Partitioner | None = None  # None: the cache is not divided
    mates: Coupling | None = None  # None: jobs have no mates elsewhere
    gates: tuple[Gate, ...] = ()  # asked in turn before every start; one that says wait is enough
    age_limit_us: int = 0  # who has waited this long may not be overtaken any more; 0: no such limit
    age_limit_runs: float = 0.0  # the same as a multiple of the mean run time of finished jobs; 0: no such limit
    names: dict[str, Any] = field(default_factory=dict)

    @property
    def age_limit_thousandths(self) -> int:
        """`age_limit_runs` in whole numbers, as the compiled pass has it."""
        return round(1000 * self.age_limit_runs)

    @property
    def changing(self) -> bool:
        """Whether any order must be computed anew in every pass."""
        return self.order.changing or (self.backfill_order is not None and self.backfill_order.changing)

    @property
    def alone(self) -> bool:
        """Whether some rows can be scored without the others."""
        second = self.backfill_order
        return self.order.alone and (second is None or not second.changing or second.alone)

    @property
    def falling(self) -> bool:
        """Whether the queue can be kept in order of bounds, and some rows can be scored without the others."""
        return self.order.changing and self.order.falling and self.alone


def shared_dimensions(policies: PolicySet) -> tuple[Dimension, ...]:
    """What is counted on shared nodes."""
    placer = policies.placer
    assert isinstance(placer, SharedPlacer)
    return placer.dimensions
