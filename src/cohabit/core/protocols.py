"""The protocols that policies implement, and the set of policies one scheduler runs with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cohabit.core.bounds import Bound
from cohabit.core.columns import Columns
from cohabit.core.cycles import Cycle
from cohabit.model.errors import InputError
from cohabit.model.scheme import Scheme

if TYPE_CHECKING:
    from cohabit.compiled import ScoreEntry
    from cohabit.core.ledger import Ledger, Parts, Takes
    from cohabit.core.timeline import Timeline
    from cohabit.core.view import View
    from cohabit.model.cluster import NodeGroup
    from cohabit.model.plan import Ask, Move, Placement, Ranges
    from cohabit.model.profile import Tenant
    from cohabit.model.resources import Dimension


ANYBODY, SAME_ACCOUNT, SAME_USER = SHARE_WITH = ("anybody", "account", "user")


class ScoreFunction(Protocol):
    """One score per row, in one vectorised step; the smallest goes first, ties go to the earlier submission."""

    def __call__(self, jobs: Columns, rows: NDArray[np.int64], now_us: int, /, *parameters: float) -> NDArray[Any]: ...


@dataclass(frozen=True)
class Order:
    """The order of the queue: a score function with its parameters."""

    function: ScoreFunction
    changing: bool = True  # whether a score depends on the time (or on other jobs) and is computed in every pass
    # whether no score rises while the job waits, nor falls as its user's usage share grows, nor depends on other rows
    falling: bool = False
    parameters: tuple[float, ...] = ()
    entry: ScoreEntry | None = None  # compiled for one job at a time, called by address; if set, it is the definition
    name: str = "order"  # its name or file, for messages

    @property
    def alone(self) -> bool:
        """Return whether the order can score some rows without the others."""
        return self.falling or self.entry is not None

    def scores(self, jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
        """Return the scores of these rows; NaN counts as last."""
        found = self.raw_scores(jobs, rows, now_us)
        return np.where(np.isnan(found), np.inf, found) if found.dtype.kind == "f" else found

    def raw_scores(self, jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
        """Return the order's own scores, one number per row; raise an error that says what is wrong with them."""
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
    """The choice of nodes for a job."""

    @property
    def exclusive(self) -> bool:
        """Return whether every job has its nodes to itself."""
        ...

    def place(self, row: int, allowed: NDArray[np.int64], idle: NDArray[np.bool_], view: View) -> Placement | None:
        """Choose nodes out of `idle` for the job, at most allowed[kind] of each kind; None if it cannot start now."""
        ...


@runtime_checkable
class SharedPlacer(Protocol):
    """The ways to run a job on shared nodes, the preferred one first, and nodes for each."""

    @property
    def exclusive(self) -> bool:
        """False: nodes are shared."""
        ...

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The resources that are counted on a node; cores come first."""
        ...

    def asks(self, row: int, view: View) -> list[Ask]:
        """Return the ways in which the job could run; they must depend on the job's description and profile only."""
        ...

    def find(self, row: int, ask: Ask, takes: Takes, ledger: Ledger, view: View) -> Parts | None:
        """Find nodes for a job that runs like this and takes this much; None if not enough are suitable."""
        ...


@runtime_checkable
class Choosing(SharedPlacer, Protocol):
    """A placement that weighs jobs and ways to run them against each other (core/sharing.py)."""

    @property
    def window(self) -> int:
        """The number of jobs at the front of the queue among which the one to start next is chosen."""
        ...

    def costs(self, row: int, asks: Sequence[Ask], view: View, begun: int) -> list[tuple[float, Ask]]:
        """Return the asks worth a start with what they cost more than the cheapest, relative to it, the cheapest first;
        `begun` jobs of the queue start already."""
        ...


class Intent(NamedTuple):
    """What a plan of the queue wants now: starts in order, with their nodes, and what to remember."""

    starts: tuple[tuple[int, Ask, Ranges], ...]
    followed: bool  # the plan decides; otherwise the pass goes on without it
    memory: dict[str, Any]


@runtime_checkable
class Planning(Choosing, Protocol):
    """A placement that plans the queue as a whole before a pass, and says which jobs start now."""

    @property
    def name(self) -> str:
        """The name under which its memory is kept."""
        ...

    def intent(self, queue: Sequence[int], ways_of: Callable[[int], list[Ask]], view: View) -> Intent:
        """Return what the plan wants now; `ways_of` gives the ways in which a waiting job could run at all."""
        ...


@runtime_checkable
class GroupPlacer(SharedPlacer, Protocol):
    """Jobs that start together on the same nodes: the policy makes the groups (core/together.py finds nodes).

    The first of a job's asks is how it runs in a group, the last how it runs alone.
    """

    def groups(self, queue: Sequence[int], view: View) -> tuple[list[tuple[int, ...]], dict[str, Any]]:
        """Return groups of rows in the order they should start, single jobs as groups of one; and what to remember."""
        ...

    def join(self, row: int, ask: Ask, takes: Takes, ledger: Ledger, view: View) -> Parts | None:
        """Return nodes on which the job may join running jobs; None if there are none."""
        ...


@runtime_checkable
class CoRunLearner(Protocol):
    """A placement whose expectations of neighbours move with every co-run (core/co_runs.py)."""

    @property
    def learns(self) -> bool:
        """Return whether it has a model that can learn."""
        ...

    def by_counters(self, jobs: Sequence[Tenant], node: NodeGroup) -> NDArray[np.float64]:
        """Return percent for every ordered pair as counters alone say it; NaN: not known."""
        ...


@runtime_checkable
class Explaining(Protocol):
    """A placement policy that has its own reasons why a job waits."""

    def why_not(self, row: int, view: View) -> str:
        """Return why the job does not start although there may be room; empty if only the usual reasons apply."""
        ...


@runtime_checkable
class Remarking(Protocol):
    """A placement policy that has something to add to the usual reasons why a job waits."""

    def remark(self, row: int, view: View) -> str:
        """Return it; empty if there is nothing to add."""
        ...


@runtime_checkable
class Mover(Protocol):
    """The choice of running jobs that should change their node."""

    @property
    def most_moves(self) -> int:
        """The maximum number of moves at each decision; 0: no job moves."""
        ...

    def moves(self, ledger: Ledger, touched: Collection[int], view: View) -> list[Move]:
        """Return the moves worth making, in order, now that the residents of the touched nodes have changed."""
        ...


@dataclass(frozen=True)
class Wait:
    """The job does not start now; the gate is asked again at `until_us`, and whenever nodes are released before."""

    reason: str
    until_us: int
    lent_us: int = 0  # its nodes are lent until then: its reservation begins no earlier; 0: it keeps them


class Gate(Protocol):
    """A check whether a job that has found nodes should start there now; core/gating.py asks."""

    @property
    def name(self) -> str:
        """The name under which its memory is kept."""
        ...

    def check(self, row: int, nodes: NDArray[np.int64], view: View, memory: dict[str, Any]) -> Wait | None:
        """None: it may start. `memory` is its own plain data, to be changed; memory["jobs"] drops jobs that left."""
        ...

    def calmer(self, row: int, idle: NDArray[np.bool_], view: View) -> NDArray[np.bool_] | None:
        """Return the idle nodes that the gate prefers for the job; None if it has no preference."""
        ...

    def because(self, row: int, view: View) -> str:
        """Return in a few words what its last answer rests on; empty: its reason says all. Only for display."""
        ...


class Partitioner(Protocol):
    """The division of a node's cache ways among its jobs."""

    def split(self, tenants: Sequence[Tenant], node: NodeGroup) -> list[tuple[int, int]]:
        """Return (first way, ways) per job on a node, in order of arrival; masks are equal (shared) or disjoint."""
        ...


class Answer(NamedTuple):
    """The guarantor's answer to a measurement: rows whose nodes are divided anew, and the reason."""

    rows: tuple[int, ...] = ()
    reason: str = ""


class Corrected(NamedTuple):
    """A division with all corrections: (first way, ways) for each job, and (job, percent) for the capped jobs."""

    shares: list[tuple[int, int]]
    caps: tuple[tuple[str, int], ...]


@runtime_checkable
class Guarantor(Partitioner, Protocol):
    """A division that is corrected by measurements of running jobs; core/guaranteeing.py asks.

    `memory` is the guarantor's own plain data and may be changed; memory["jobs"] drops jobs that have gone.
    """

    @property
    def name(self) -> str:
        """The name under which its memory is kept."""
        ...

    def measured(self, row: int, progress: float, window_us: int, view: View, memory: dict[str, Any]) -> Answer:
        """Take in the measured progress of a running job, relative to running alone."""
        ...

    def refused(self, rows: Sequence[int], until_us: int, view: View, memory: dict[str, Any]) -> Answer:
        """Take in that the back end cannot give these jobs their shares before `until_us`."""
        ...

    def correct(
        self, rows: Sequence[int], shares: list[tuple[int, int]], node: NodeGroup, view: View, memory: dict[str, Any]
    ) -> Corrected:
        """Apply the remembered corrections to a division of `split`; this changes nothing."""
        ...

    def story(self, job_id: str, memory: dict[str, Any]) -> list[tuple[int, str]]:
        """Return what was done for a job or at its cost, with the instants; this changes nothing."""
        ...


class Backfill(Protocol):
    """The rule whether a job may start now, given the reservations of others."""

    @property
    def depth(self) -> int:
        """The number of blocked jobs that are promised a start; see core/kernels/bundles.py."""
        ...

    @property
    def cycle(self) -> Cycle | None:
        """The terms of backfilling in cycles; None: every pass backfills, without bounds."""
        ...

    def allowed(self, limit_us: int, timeline: Timeline) -> NDArray[np.int64]:
        """Return the nodes of each kind the job may use from now until its limit without breaking a reservation."""
        ...


@dataclass(frozen=True)
class Coupling:
    """This domain among others: its name, its rank, and what it does when mates are not ready."""

    domain: str
    rank: int = 0
    scheme: Scheme = field(default_factory=Scheme)
    peers: tuple[str, ...] = ()  # the other domains


@dataclass(frozen=True)
class PolicySet:
    """The policies one scheduler decides with; `names` is how a user would write them."""

    order: Order
    backfill: Backfill
    placer: Placer | SharedPlacer
    backfill_order: Order | None = None
    fair_share_half_life_us: int = 0  # 0: usage is not tracked
    partitioner: Partitioner | None = None  # None: the cache is not divided
    mates: Coupling | None = None  # None: jobs have no mates elsewhere
    gates: tuple[Gate, ...] = ()  # asked in turn before every start; a single wait keeps the job back
    age_limit_us: int = 0  # a job that has waited this long may not be overtaken any more; 0: no such limit
    age_limit_runs: float = 0.0  # the same as a multiple of the mean run time of finished jobs; 0: no such limit
    share_with: str = ANYBODY  # whose jobs may run on one node at once: one of SHARE_WITH
    bounds: tuple[Bound, ...] = ()  # what may run at once of a user, an account, a partition or a QOS
    fairness: float = 0.0  # most that a user's mean slowdown may be, as a multiple of the mean of all; 0: no bound
    notes_co_runs: bool = False  # for the profile store, also where the placement does not learn from them
    names: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def guarantor(self) -> Guarantor | None:
        """The partitioner, if it corrects divisions by measurements; asked once, because there are many of them."""
        return self.partitioner if isinstance(self.partitioner, Guarantor) else None

    @property
    def lowest_nodes(self) -> bool:
        """Return whether jobs get whole nodes, the lowest-numbered idle ones (the placer says `lowest = True`).

        The compiled pass does that by itself, without asking the placer. It knows neither bounds nor cycles.
        """
        plain = not self.bounds and self.backfill.cycle is None
        return plain and self.placer.exclusive and bool(getattr(self.placer, "lowest", False))

    @property
    def age_limit_thousandths(self) -> int:
        """`age_limit_runs` in thousandths, as the compiled pass stores it."""
        return round(1000 * self.age_limit_runs)

    @property
    def changing(self) -> bool:
        """Return whether any order must be computed anew in every pass."""
        return self.order.changing or (self.backfill_order is not None and self.backfill_order.changing)

    @property
    def alone(self) -> bool:
        """Return whether some rows can be scored without the others."""
        second = self.backfill_order
        return self.order.alone and (second is None or not second.changing or second.alone)

    @property
    def falling(self) -> bool:
        """Return whether the queue can be kept in order of bounds, and some rows can be scored without the others."""
        return self.order.changing and self.order.falling and self.alone


def shared_dimensions(policies: PolicySet) -> tuple[Dimension, ...]:
    """The resources that are counted on shared nodes."""
    placer = policies.placer
    assert isinstance(placer, SharedPlacer)
    return placer.dimensions
