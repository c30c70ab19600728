"""The scheduler's state: flat arrays that kernels and policies read, and a few tables.

Everything a later decision depends on is here and in a checkpoint; nothing else is. Policies see it read-only through
core/view.py; only core/apply.py, core/commit.py and the compiled pass change it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import (
    AGE_LIMIT,
    AGE_RUNS,
    ENDS,
    EXPECTED,
    FIRST_WORD,
    FREE,
    GAUGES,
    JOB_COLUMNS,
    KEY_COLUMNS,
    LIMIT,
    RANGE_COUNT,
    RANGE_FIRST,
    RANGE_NEXT,
    RANGES,
    START,
    VOID,
)
from cohabit.core.descriptions import Descriptions
from cohabit.core.kernels import fair_share, ladder, profile
from cohabit.core.kernels import nodes as nodes_kernel
from cohabit.core.kernels.bundles import Machine, Queue, Rule
from cohabit.core.kinds import Kinds
from cohabit.core.ledger import Ledger, ranges_of
from cohabit.core.mates.local import CoupledState
from cohabit.core.protocols import PolicySet, shared_dimensions
from cohabit.core.trust import Trust
from cohabit.model.cluster import Cluster
from cohabit.model.cluster import Window as ClosedNodes
from cohabit.model.job import Job
from cohabit.model.plan import Placement, Promise
from cohabit.model.profile import Profile
from cohabit.model.telemetry import Window
from cohabit.model.units import FOREVER

UP, DRAINED, DOWN = 0, 1, 2


class State:
    """One cluster, its live jobs and its queue."""

    def __init__(self, cluster: Cluster, policies: PolicySet, capacity: int = 64) -> None:
        self.cluster = cluster
        self.changing, self.two_orders = policies.changing, policies.backfill_order is not None
        self.depth = policies.backfill.depth
        self.rule = Rule(
            self.depth,
            self.changing,
            alone=policies.alone,
            two_orders=self.two_orders,
            by_score=not self.changing,
        )
        self.windows: dict[str, tuple[ClosedNodes, ...]] = {}  # announced later than the cluster's own, by name
        self.kinds = Kinds(cluster)
        nodes = cluster.nodes
        self.jobs = np.zeros((JOB_COLUMNS, capacity), np.int64)
        self.keys = np.zeros((KEY_COLUMNS, capacity))
        self.specs: list[Job | None] = [None] * capacity
        self.rows: dict[str, int] = {}  # job id -> row, for jobs that are not finished
        self.spare_rows = list(range(capacity - 1, -1, -1))
        self.queue, self.second, self.running = ladder.make(capacity), ladder.make(capacity), ladder.make(capacity)
        self.idle = np.zeros((nodes + 63) // 64, np.uint64)
        self.pool = np.zeros((3, nodes + 1), np.int64)
        self.gauges = np.zeros(GAUGES, np.int64)
        self.gauges[AGE_LIMIT], self.gauges[AGE_RUNS] = policies.age_limit_us, policies.age_limit_thousandths
        nodes_kernel.initialise(self.idle, self.pool, self.gauges, nodes)
        self.slots = profile.make(capacity, 0)
        self.slots[:] = 0
        profile.reset(self.slots, self.gauges, nodes)
        self.node_state = np.zeros(nodes, np.int8)
        self.users: dict[int, int] = {}  # external user number -> 0, 1, 2 ... in order of arrival
        self.usage = fair_share.make(1)
        self.finished: dict[str, str] = {}  # how jobs ended, for jobs that depend on them
        self.attempts: dict[str, int] = {}  # runs so far of jobs that were started more than once
        self.waiting_for: dict[int, set[str]] = {}  # row -> job ids that must finish first
        self.held: set[int] = set()
        self.arrays: dict[str, tuple[int, int]] = {}  # array id -> (running, at most)
        self.members: dict[str, dict[int, None]] = {}  # bounded array -> rows of members; rebuilt from a checkpoint
        self.open_arrays: dict[str, tuple[int, str]] = {}  # array id -> (members not ended, worst end so far)
        self.refused_until: dict[int, int] = {}  # row -> not before this instant (a back end refused the start)
        self.ledger = None if policies.placer.exclusive else Ledger(self.kinds, shared_dimensions(policies))
        self.placed: dict[int, Placement] = {}  # row -> how it runs, for jobs on shared nodes
        self.used_until: dict[int, int] = {}  # node -> until when others use it, by requested times, if that is known
        self.crowded: dict[int, tuple[int, list[int]]] = {}  # node -> its condition, and jobs that do not fit together
        self.widened: dict[int, int] = {}  # row of a run on more whole nodes than it needs -> how many it needs
        self.promises: dict[int, Promise] = {}  # row -> the start promised on shared nodes, in the order of making
        self.fairness = policies.fairness
        self.profiles: dict[str, dict[int, Profile]] = {}  # program -> processes -> what was measured; the shared ones
        self.own_profiles: dict[tuple[str, str], dict[int, Profile]] = {}  # (owner, program) -> the same of a user
        self.kept: dict[str, Any] = {}  # cached answers of policies, by policy name; never in a checkpoint
        self.trust = Trust(policies.share_with, capacity)  # whose jobs may share nodes; never in a checkpoint
        self.described = self.describe(capacity)  # never in a checkpoint
        self.memory: dict[str, Any] = {}  # what policies remember, by policy name
        self.window: Window | None = None  # the newest telemetry
        self.coupled: CoupledState | None = None  # jobs with mates in other domains
        self.usable_kinds: dict[int, NDArray[np.bool_]] = {}  # cached answers for rows in use; never in a checkpoint
        self.nodes_by_kind: dict[int, NDArray[np.int64]] = {}
        self.next_seq = 0
        self.profiled = True  # whether `slots` is up to date: only the compiled pass reads it
        self.generation = 0  # grows with every change
        self.wake_us = FOREVER  # the last wake-up time asked for

    @property
    def queued(self) -> Queue:
        """The job table and the queue, as kernels take them."""
        return Queue(self.jobs, self.keys, self.queue, self.second)

    @property
    def machine(self) -> Machine:
        """The nodes and what runs on them, as kernels take them."""
        return Machine(self.running, self.idle, self.pool, self.slots, self.gauges)

    # ---- rows ---------------------------------------------------------------------------------------------------

    def new_row(self, job: Job) -> int:
        """Return a free row of the job table; grow the table if there is none."""
        if not self.spare_rows:
            self._grow()
        row = self.spare_rows.pop()
        self.jobs[:, row] = 0
        self.keys[:, row] = 0
        self.specs[row] = job
        self.trust.note(row, job)
        self.described.forget(row)
        self.rows[job.job_id] = row
        self.note_member(job.job_id, row)
        return row

    def note_member(self, job_id: str, row: int) -> None:
        """Note a member of a bounded array, in order of arrival."""
        if (array := job_id.rpartition("_")[0]) in self.arrays:
            self.members.setdefault(array, {})[row] = None

    def forget_row(self, row: int) -> None:
        """Free the row of a finished job."""
        job = self.specs[row]
        assert job is not None
        self.withdraw_promise(row)
        del self.rows[job.job_id]
        array = job.job_id.rpartition("_")[0]
        if self.members.get(array, {}).pop(row, row) is None and not self.members[array]:
            del self.members[array]
        self.specs[row] = None
        self.usable_kinds.pop(row, None)
        self.jobs[:, row] = 0
        self.spare_rows.append(row)

    def forget_ends(self) -> None:
        """Forget how jobs ended, and the answers cached by description, so that a core can run for ever.

        A simulation never forgets. The live controller keeps ends in its store and recalls those a new submission
        depends on before it submits it; both are events in its journal, so a replay decides the same.
        """
        self.finished.clear()
        self.described.forget_asks()

    def recall_end(self, job_id: str, status: str) -> None:
        """Recall the end of a job that is not here; for other jobs the core has newer information."""
        if job_id not in self.rows and job_id not in self.open_arrays:
            self.finished.setdefault(job_id, status)

    def user_number(self, user: int) -> int:
        """The internal number of a user, independent of the external one; -1 if the user is unknown."""
        return -1 if user < 0 else self.users.setdefault(user, len(self.users))

    def spec(self, row: int) -> Job:
        """Return the job in a row that is in use."""
        job = self.specs[row]
        assert job is not None
        return job

    def _grow(self) -> None:
        old = self.jobs.shape[1]
        self.jobs = np.concatenate([self.jobs, np.zeros((JOB_COLUMNS, old), np.int64)], axis=1)
        self.keys = np.concatenate([self.keys, np.zeros((KEY_COLUMNS, old))], axis=1)
        self.specs += [None] * old
        self.trust.grow(2 * old)
        self.described.grow(2 * old)
        self.spare_rows = list(range(2 * old - 1, old - 1, -1))
        self.queue, self.second, self.running = (
            _larger(one, 2 * old) for one in (self.queue, self.second, self.running)
        )
        self.slots = np.concatenate([self.slots, np.zeros_like(self.slots)], axis=1)

    # ---- shared nodes -------------------------------------------------------------------------------------------

    def promise(self, one: Promise) -> None:
        """Promise a job a start on shared nodes, or change its promise."""
        assert self.ledger is not None
        if one.row not in self.promises or self.promises[one.row].ranges != one.ranges:
            self.ledger.unpromise(one.row)
            parts = self.ledger.parts_of(one.ranges)
            assert parts is not None
            self.ledger.promise(one.row, parts)
        self.promises[one.row] = one

    def withdraw_promise(self, row: int) -> None:
        """Forget the start promised to a job."""
        if self.ledger is not None and self.promises.pop(row, None) is not None:
            self.ledger.unpromise(row)

    def strangers(self, row: int) -> NDArray[np.bool_] | None:
        """Return the rows beside which the job may not run; None: it may run beside any job."""
        return None if self.ledger is None else self.trust.strangers(row)

    def meets_strangers(self, row: int, classes: Iterable[int]) -> bool:
        """Return whether jobs beside which this one may not run are on nodes of these classes."""
        strangers = self.strangers(row)
        if strangers is None or self.ledger is None:
            return False
        return any(strangers[other] for index in classes for other in self.ledger.residents[index])

    def describe(self, capacity: int) -> Descriptions:
        """Return empty numbers of descriptions for this many rows."""
        return Descriptions(self.kinds, self.ledger is not None, capacity, self.trust.circle_of)

    # ---- nodes --------------------------------------------------------------------------------------------------

    def ranges_of(self, row: int) -> tuple[tuple[int, int], ...]:
        """The nodes of a running job, as (first, count)."""
        if self.ledger is not None:
            return ranges_of(self.ledger.nodes_of(row))
        found, link = [], int(self.jobs[RANGES, row])
        while link >= 0:
            found.append((int(self.pool[RANGE_FIRST, link]), int(self.pool[RANGE_COUNT, link])))
            link = int(self.pool[RANGE_NEXT, link])
        return tuple(found)

    def is_idle(self, node: int) -> bool:
        """Return whether the node is up and no job has it."""
        return bool((int(self.idle[node >> 6]) >> (node & 63)) & 1)

    def set_idle(self, node: int, idle: bool) -> None:
        """Put one node into the idle set, or take it out (a node came up, went down or is drained)."""
        if self.is_idle(node) == idle:
            return
        bit = np.uint64(1 << (node & 63))
        self.idle[node >> 6] ^= bit
        self.gauges[FREE] += 1 if idle else -1
        if idle:
            self.gauges[FIRST_WORD] = min(int(self.gauges[FIRST_WORD]), node >> 6)

    def idle_nodes(self) -> NDArray[np.bool_]:
        """One flag per node."""
        bits = np.unpackbits(self.idle.view(np.uint8), bitorder="little")
        return bits[: len(self.node_state)].astype(bool)

    def take(self, first: int, count: int) -> None:
        """Take a range of nodes out of the idle set."""
        low, end = first >> 6, -(-(first + count) // 64)
        bits = np.unpackbits(self.idle[low:end].view(np.uint8), bitorder="little")
        bits[first - 64 * low : first + count - 64 * low] = 0
        self.idle[low:end] = np.packbits(bits, bitorder="little").view(np.uint64)

    @property
    def idle_count(self) -> int:
        """The number of idle nodes."""
        return int(self.gauges[FREE]) if self.ledger is None else len(self.node_state)

    @property
    def raises(self) -> bool:
        """Return whether a job moves up in the order with every yield."""
        return self.coupled is not None and self.coupled.scheme.raise_per_yield > 0

    def raised(self, rows: NDArray[np.int64], scores: NDArray[Any]) -> NDArray[Any]:
        """Return an order's scores, with jobs moved up that have yielded to wait for mates."""
        if self.coupled is None or not self.raises:
            return scores
        return self.coupled.raised([self.spec(int(row)).job_id for row in rows], np.asarray(scores, np.float64))

    def expect_end(self, row: int, begin_us: int) -> None:
        """Set the expected end of a job that has nodes, as if it began at `begin_us`."""
        ladder.remove(self.running, self.jobs, self.keys[ENDS], row)
        self.jobs[START, row], self.jobs[EXPECTED, row] = begin_us, begin_us + self.jobs[LIMIT, row]
        self.keys[ENDS, row] = self.jobs[EXPECTED, row]
        ladder.insert(self.running, self.jobs, self.keys[ENDS], row)

    def void_promises(self) -> None:
        """Void all promises because nodes were lost or came back: conservative backfilling must plan anew."""
        self.gauges[VOID] = 1

    @property
    def interchangeable(self) -> bool:
        """Return whether all nodes are alike now, so that counting them is enough."""
        return self.kinds.count == 1 and not self.kinds.windows and not bool((self.node_state == DRAINED).any())

    def touch(self) -> None:
        """Note a change: cached answers are stale."""
        self.generation += 1


def _larger(old: ladder.Ladder, capacity: int) -> ladder.Ladder:
    new = ladder.make(capacity)
    rungs = old.items.shape[0]
    new.items[:rungs], new.info[:, :rungs], new.meta[:] = old.items, old.info, old.meta
    return new
