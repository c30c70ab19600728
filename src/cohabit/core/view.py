"""The state as policies and explanations see it: the same arrays, read-only, never copied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import (
    BLOCKED,
    ELIGIBLE,
    EXPECTED,
    HOLDING,
    LIMIT,
    NODES,
    QUEUED,
    RUNNING,
    SEQ,
    START,
    STARTING,
    STATE,
    Columns,
    columns_of,
)
from cohabit.core.fairness import fair
from cohabit.core.kernels.ladder import ROWS, all_rows
from cohabit.core.kernels.moves import age_limit
from cohabit.core.kinds import Kinds
from cohabit.core.known_programs import known_of
from cohabit.core.ledger import Ledger
from cohabit.core.protocols import Order, SharedPlacer
from cohabit.core.state import State
from cohabit.core.timeline import Timeline, planned
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.job import Job
from cohabit.model.plan import Ask, Placement, Promise
from cohabit.model.profile import Profile, Tenant, load_factor
from cohabit.model.telemetry import Window
from cohabit.model.units import SECOND

CO_RUNS = "co_runs"  # the memory of what runs beside others have shown (core/co_runs.py)


class View:
    """A read-only view; `generation` identifies the state. `names_all`: jobs of other users may be named."""

    def __init__(self, state: State, now_us: int, names_all: bool = False) -> None:
        self._state = state
        self.now_us = now_us
        self.names_all = names_all
        self.generation = state.generation
        self.jobs = _locked(state.jobs)
        self.gauges = _locked(state.gauges)
        self.node_state = _locked(state.node_state)
        self._ledger: Ledger | None = None

    @property
    def kinds(self) -> Kinds:
        """The kinds of nodes."""
        return self._state.kinds

    @property
    def cluster(self) -> Cluster:
        """The machine as it is described."""
        return self._state.cluster

    @property
    def memory(self) -> dict[str, Any]:
        """The memory of policies."""
        return self._state.memory

    @property
    def co_runs(self) -> Mapping[str, Any]:
        """What runs beside others have shown (core/co_runs.py); empty where no placement learns from them."""
        found: dict[str, Any] = self._state.memory.get(CO_RUNS, {})
        return found

    @property
    def window(self) -> Window | None:
        """The newest telemetry."""
        return self._state.window

    @property
    def refused_until(self) -> dict[int, int]:
        """Rows that a back end refused to start, and until when they are not tried again."""
        return self._state.refused_until

    def columns(self) -> Columns:
        """The job table by name."""
        return columns_of(self.jobs, _locked(self._state.usage))

    def queued(self) -> NDArray[np.int64]:
        """Rows of all queued jobs."""
        return all_rows(self._state.queue)

    @property
    def waiting(self) -> int:
        """The number of queued jobs."""
        return int(self._state.queue.meta[ROWS])

    def running(self) -> NDArray[np.int64]:
        """Rows of all running jobs, by expected end."""
        return all_rows(self._state.running)

    def expected_ends(self) -> NDArray[np.int64]:
        """The ends of the running jobs by requested times, sorted."""
        return np.asarray(self.jobs[EXPECTED, self.running()], np.int64)

    @property
    def overruns(self) -> bool:
        """Return whether a running job is past its request."""
        rows = self.running()
        return bool((self.jobs[START, rows] + self.jobs[LIMIT, rows] <= self.now_us).any())

    def ranked(self, rows: NDArray[np.int64], order: Order) -> NDArray[np.int64]:
        """Return these rows in order; jobs that a back end refused lately are left out."""
        scores = self._state.raised(rows, order.scores(self.columns(), rows, self.now_us)) if len(rows) else rows
        return self._allowed(rows[np.lexsort((self.jobs[SEQ, rows], scores))])

    def queue(self, order: Order) -> NDArray[np.int64]:
        """Return all queued rows in order, like `ranked`; `order` is the first of the scheduler's orders."""
        state = self._state
        if state.changing or state.raises:
            return fair(state, self.ranked(self.queued(), order), self.now_us)
        return fair(state, self._allowed(self.queued()), self.now_us)  # it is sorted by score, then by submission

    def _allowed(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        refused = [row for row, until in self._state.refused_until.items() if until > self.now_us]
        return rows[~np.isin(rows, refused)] if refused else rows

    def usable(self, row: int) -> NDArray[np.bool_]:
        """The kinds of nodes that the job may run on."""
        cache = self._state.usable_kinds
        if row not in cache:
            cache[row] = self.kinds.eligible(self._state.spec(row))[0]
        return cache[row]

    def kind_counts(self, row: int) -> NDArray[np.int64]:
        """Return how many nodes of each kind a running job returns when it ends."""
        cache = self._state.nodes_by_kind
        if row not in cache:
            counts = np.zeros(self.kinds.count, np.int64)
            for first, count in self._state.ranges_of(row):
                nodes = slice(first, first + count)
                up = self.node_state[nodes] == 0
                counts += np.bincount(self.kinds.of_node[nodes][up], minlength=self.kinds.count)
            cache[row] = counts
        return cache[row]

    def idle_nodes(self) -> NDArray[np.bool_]:
        """One flag per node."""
        return self._state.idle_nodes()

    def idle_by_kind(self) -> NDArray[np.int64]:
        """Idle nodes of each kind."""
        if self.kinds.count == 1 and self._state.ledger is None:
            return np.array([self._state.idle_count], np.int64)
        return np.bincount(self.kinds.of_node[self.idle_nodes()], minlength=self.kinds.count).astype(np.int64)

    def timeline(self, without: int = -1) -> Timeline:
        """Return what the running jobs, and starts agreed on with other domains, leave free by requested times."""
        rows, kinds = self.running(), self.kinds
        ends_us = self.jobs[EXPECTED, rows]
        released = np.array([self.kind_counts(int(row)) for row in rows], np.int64).reshape(-1, kinds.count)
        if others := self.others_until:
            of_nodes = np.eye(kinds.count, dtype=np.int64)[kinds.of_node[list(others)]]
            ends_us, released = np.append(ends_us, list(others.values())), np.concatenate([released, of_nodes])
            order = np.argsort(ends_us, kind="stable")
            ends_us, released = ends_us[order], released[order]
        found = Timeline(self.now_us, self.idle_by_kind(), kinds, ends_us, released)
        for name, job in [] if self._state.coupled is None else self._state.coupled.agreed:
            row = self._state.rows[name]
            if row != without:
                begin_us = max(job.agreed_us, self.now_us)
                found.add(begin_us, begin_us + planned(self.limit_us(row)), -np.array(job.agreed_kinds))
        return found

    @property
    def others_until(self) -> Mapping[int, int]:
        """Until when jobs that are not the core's use nodes, as far as that is known; never before a second from now,
        like runs past their request."""
        return {node: max(until, self.now_us + SECOND) for node, until in self._state.used_until.items()}

    def is_queued(self, row: int) -> bool:
        """Return whether the job waits and may be started."""
        return bool(self.jobs[STATE, row] == QUEUED)

    def waits(self, job_id: str) -> bool:
        """Return whether a job of this name is here and has not started."""
        row = self._state.rows.get(job_id)
        return row is not None and self.jobs[STATE, row] in (BLOCKED, QUEUED, HOLDING)

    def is_running(self, row: int) -> bool:
        """Return whether the job has been started."""
        return bool(self.jobs[STATE, row] in (STARTING, RUNNING))

    def is_holding(self, row: int) -> bool:
        """Return whether the job has nodes and waits for its mates in other domains."""
        return bool(self.jobs[STATE, row] == HOLDING)

    def need(self, row: int) -> int:
        """The number of nodes the job requests."""
        return int(self.jobs[NODES, row])

    def limit_us(self, row: int) -> int:
        """The time the job requests."""
        return int(self.jobs[LIMIT, row])

    # ---- shared nodes -----------------------------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        """The bookings on all nodes; to be read, or copied with `draft`."""
        if self._ledger is None:
            assert self._state.ledger is not None
            self._ledger = self._state.ledger.locked()
        return self._ledger

    @property
    def cluster_nodes(self) -> int:
        """The number of nodes."""
        return len(self.node_state)

    def job(self, row: int) -> Job:
        """The job as its owner described it."""
        return self._state.spec(row)

    def node_type(self, row: int) -> NodeGroup:
        """The least capable of the nodes the job may use."""
        groups = [group for group, fits in zip(self.kinds.groups, self.usable(row), strict=True) if fits]
        return min(groups, key=lambda group: (group.cores, group.ways))

    def smallest_node(self, row: int) -> int:
        """Cores of the least capable node the job may use."""
        return self.node_type(row).cores

    def profile(self, program: str, processes: int, owner: str) -> Profile | None:
        """Return the profile of a program for an owner: the most complete, of those the nearest in processes."""
        known = self.profiles_of(program, owner)
        if not known:
            return None
        return known[min(known, key=lambda count: (-known[count].usable_scales, abs(count - processes), count))]

    def profiles_of(self, program: str, owner: str) -> Mapping[int, Profile]:
        """Return all profiles of a program that apply to an owner (core/known_programs.py), by number of processes."""
        return known_of(self._state, program, owner)

    def trials_of(self, program: str, owner: str) -> set[tuple[int, str]]:
        """Return the measuring runs of a program in progress that write this owner's profile, as (scale, purpose)."""
        state = self._state
        return {
            (placement.scale, placement.purpose)
            for row, placement in state.placed.items()
            if placement.purpose != "run"
            and state.spec(row).program == program
            and state.spec(row).profile_owner == owner
        }

    @property
    def kept(self) -> dict[str, Any]:
        """Answers a policy caches while profiles stay as they are; they must follow from the state alone."""
        return self._state.kept

    def tenant(self, row: int, kind: int, cores: int = 0) -> Tenant:
        """Return the job on a node of this kind, as its neighbours see it; `cores`: its cores before it runs."""
        job, node, how = self._state.spec(row), self.kinds.groups[kind], self._state.placed.get(row)
        profile, load = self.profile(job.program, job.processes, job.profile_owner), 0.0
        if profile is not None:
            reference_nodes = -(-profile.processes // node.cores)
            load = load_factor(job.processes, node.cores, profile.processes, reference_nodes, self.need(row))
        if how is None:
            return Tenant(job.program, cores, 1, 0, job.alpha, load, profile)
        return Tenant(job.program, how.cores, how.scale, how.ways, job.alpha, load, profile)

    @property
    def placed(self) -> Mapping[int, Placement]:
        """How each running job runs, by row."""
        return self._state.placed

    @property
    def promises(self) -> Mapping[int, Promise]:
        """The starts promised to waiting jobs, by row, in the order in which they were made."""
        return self._state.promises

    def strangers(self, row: int) -> NDArray[np.bool_] | None:
        """Return the rows beside which the job may not run, because the site shares nodes within an account or a
        user only; None: it may run beside any job."""
        return self._state.strangers(row)

    @property
    def strangers_there(self) -> str:
        """Say that nodes have jobs beside which a job may not run."""
        return f"jobs of other {self._state.trust.share_with}s are there"

    def circle(self, row: int) -> int:
        """Return a number that is equal for jobs that may share nodes (core/trust.py)."""
        return self._state.trust.circle(row)

    def booked_mbs(self, row: int) -> int:
        """Memory bandwidth a running job has booked on each of its nodes; 0: none."""
        how = self._state.placed.get(row)
        return 0 if how is None else how.bandwidth_mbs

    def may_move(self, row: int) -> bool:
        """Return whether the job runs, on one node, and its owner lets it be moved within its server."""
        how = self._state.placed.get(row)
        movable = how is not None and how.nodes == 1 and not how.exclusive and self._state.spec(row).movable
        return bool(movable and self.jobs[STATE, row] == RUNNING)

    def asks(self, row: int, placer: SharedPlacer) -> list[Ask]:
        """Return the ways in which the job could run; answers are cached for jobs of the same description."""
        return self._state.described.asks(row, self._state.specs, lambda: placer.asks(row, self))

    def without_room(self, ledger: Ledger) -> NDArray[np.int64]:
        """Return the descriptions for which that ledger has no room, as far as their asks are known."""
        return self._state.described.without_room(ledger)

    def descriptions(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a number for each of these rows: equal for jobs that are placed alike."""
        return self._state.described.numbers(rows, self._state.specs)

    @property
    def description_count(self) -> int:
        """An upper bound of the numbers of descriptions: all are below it."""
        return self._state.described.count

    def waited_us(self, row: int) -> int:
        """Return how long the job has been able to run."""
        return self.now_us - int(self.jobs[ELIGIBLE, row])

    def aged(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of these rows have waited past the age limit."""
        waited: NDArray[np.bool_] = self.now_us - self.jobs[ELIGIBLE, rows] >= self.age_limit_us()
        return waited

    def age_limit_us(self) -> int:
        """The wait after which a job may not be overtaken any more."""
        return int(age_limit(self.gauges))

    def job_id(self, row: int) -> str:
        """The job's name."""
        return self._state.spec(row).job_id


def _locked(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view
