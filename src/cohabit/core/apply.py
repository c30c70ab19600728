"""Apply events to the state: one small function per kind of event, which returns whether a scheduling pass is due.

Releases, submissions, refusals, wakes and node changes need a pass; a confirmed start does not. No decision is made
here, except two that cannot wait: a job that can never run is refused, and a job whose dependency failed is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from cohabit.core import co_runs, known_programs, own_runs, windows
from cohabit.core.columns import (
    ABSENT,
    ATTEMPT,
    BACKFILL_SCORE,
    BLOCKED,
    CANCELLED,
    CORES,
    ELIGIBLE,
    FLAGS,
    HEAD,
    HOLDING,
    LIMIT,
    NODES,
    PROCESSES,
    PROMISED,
    QOS,
    QUEUED,
    RANGES,
    RELEASED,
    RESERVED,
    RUN_US,
    RUNNING,
    RUNS,
    SCORE,
    SEQ,
    START,
    STARTING,
    STATE,
    SUBMIT,
    USER,
    columns_of,
)
from cohabit.core.decide import PROMISES
from cohabit.core.fairness import note_end
from cohabit.core.guaranteeing import take_measurement, take_refusal
from cohabit.core.kernels import fair_share
from cohabit.core.kernels.bundles import CONSERVATIVE
from cohabit.core.kernels.conservative import cancel_reservation
from cohabit.core.kernels.moves import dequeue, enqueue
from cohabit.core.kernels.profile import UNRESERVED
from cohabit.core.leaving import leave_nodes, node_became, node_is_used
from cohabit.core.mates.desk import Desk
from cohabit.core.protocols import PolicySet
from cohabit.core.state import DOWN, DRAINED, UP, State
from cohabit.model import event as fact
from cohabit.model import telemetry
from cohabit.model.command import CancelJob, Command, StopJob
from cohabit.model.errors import InputError
from cohabit.model.job import Job
from cohabit.model.units import FOREVER

WENT_WELL = "done"
STOPPED = "stopped"  # by our own command: the job waits in the queue again


class Applier:
    """Apply events to one state for one set of policies; `arrivals` are rows enqueued since the last pass."""

    def __init__(self, state: State, policies: PolicySet) -> None:
        self.state, self.policies = state, policies
        self.arrivals: list[int] = []
        self.commands: list[Command] = []
        self.reasons: list[str] = []  # why nodes are divided anew at the end of this step
        self.desk = None if policies.mates is None else Desk(state, self, policies.mates)

    def apply(self, now_us: int, event: fact.Event) -> bool:
        """Change the state; True if a scheduling pass is due."""
        self.state.touch()
        match event:
            case fact.JobSubmitted(job):
                return self._submitted(now_us, job)
            case fact.JobFinished(job_id, attempt, status):
                return self.finished(now_us, job_id, attempt, status)
            case fact.JobStarted(job_id, attempt):
                return self._started(job_id, attempt)
            case fact.StartRefused(job_id, attempt, _, back_off_us):
                return self._refused(now_us, job_id, attempt, back_off_us)
            case fact.JobCancelled(job_id):
                return self.cancel(now_us, job_id, "cancelled")
            case fact.JobHeld(job_id):
                return self._held(now_us, job_id)
            case fact.JobReleased(job_id):
                return self._released(now_us, job_id)
            case fact.JobRequeued(job_id):
                return self._requeued(job_id)
            case fact.EndsForgotten():
                self.state.forget_ends()
                return False
            case fact.EndRecalled(job_id, status):
                self.state.recall_end(job_id, status)
                return False
            case fact.JobChanged(job_id, limit_us, qos):
                return self._changed(now_us, job_id, limit_us, qos)
            case fact.NodeUp(node):
                return node_became(self, now_us, node, UP)
            case fact.NodeUsed():
                return node_is_used(self, now_us, event)
            case fact.NodeDrained(node):
                return node_became(self, now_us, node, DRAINED)
            case fact.NodeDown(node):
                return node_became(self, now_us, node, DOWN)
            case fact.WindowSet():
                return windows.set_window(self, now_us, event)
            case fact.WindowCleared(name):
                return windows.clear_window(self, now_us, name)
            case fact.ProfileLearned():
                return known_programs.learn(self.state, event)
            case fact.ProgramDrifted(program, _, owner):
                return known_programs.forget(self.state, program, owner)
            case fact.ProfileShared(program, owner):
                return known_programs.share(self.state, program, owner)
            case fact.ProfileStored(profile):
                return known_programs.take_stored(self.state, profile)
            case fact.ProfileForgotten(program, processes, owner):
                return known_programs.remove(self.state, program, processes, owner)
            case fact.CoRunsStored():
                return co_runs.take_stored(self.state, self.policies, now_us, event)
            case fact.ProgressMeasured():
                self.reasons.append(take_measurement(self.state, self.policies, now_us, event))
                return False
            case fact.SharesRefused():
                self.reasons.append(take_refusal(self.state, self.policies, now_us, event))
                return False
            case fact.TelemetryReduced(window):
                return self._telemetry(now_us, window)
            case fact.PeerReported(message):
                return self._at_desk(lambda desk: desk.heard(now_us, message))
            case fact.SchemeChanged():
                return self._at_desk(lambda desk: desk.switch(now_us, event))
            case fact.Recovered(same_clock):
                return self._at_desk(lambda desk: desk.recovered(now_us, same_clock))
        self.state.wake_us = FOREVER  # Woken: the requested wake-up has happened
        return True

    def _at_desk(self, deal_with: Callable[[Desk], None]) -> bool:
        """Handle an event about jobs with mates; a pass follows if nodes have become free."""
        if self.desk is not None:
            deal_with(self.desk)
        return bool(self.state.gauges[RELEASED])

    def _telemetry(self, now_us: int, content: bytes) -> bool:
        """Replace the window by a newer one; a pass is due only for jobs that a gate keeps back."""
        state, window = self.state, telemetry.decode(content)
        if state.window is not None and window.end_us <= state.window.end_us:
            return False  # late, or the sender's clock went back
        state.window = window
        return any(state.memory.get(gate.name, {}).get("jobs") for gate in self.policies.gates)

    # ---- jobs in --------------------------------------------------------------------------------------------------

    def _submitted(self, now_us: int, job: Job) -> bool:
        if job.array_count:
            if job.array_at_most and job.job_id not in self.state.members:
                self.state.arrays[job.job_id] = (0, job.array_at_most)
            self.state.open_arrays.setdefault(job.job_id, (job.array_count, WENT_WELL))
            elements = [
                msgspec.structs.replace(job, job_id=f"{job.job_id}_{number}", array_count=0)
                for number in range(job.array_first, job.array_first + job.array_count)
            ]
            due = False
            for element in elements:
                due = self._submitted(now_us, element) or due
            return due
        state = self.state
        try:
            job.check()
            self._check_mates(job)
        except InputError as error:
            self.commands.append(CancelJob(job.job_id, 0, f"can never run: {error.what}"))
            self._end(now_us, job.job_id, "rejected")
            return False
        usable, need = state.kinds.eligible(job)
        most = int(state.kinds.size[usable].sum())
        if job.job_id in state.rows:
            self.commands.append(CancelJob(job.job_id, 0, "a job of this name is already here"))
            return False
        if need > most:
            self.commands.append(
                CancelJob(job.job_id, 0, f"can never run: needs {need} node{'s' * (need != 1)}, {most} could take it")
            )
            self._end(now_us, job.job_id, "rejected")
            return False
        if job.single_node and need > 1:
            self.commands.append(CancelJob(job.job_id, 0, f"can never run: needs {need} nodes but cannot span nodes"))
            self._end(now_us, job.job_id, "rejected")
            return False
        row = state.new_row(job)
        jobs = state.jobs
        jobs[NODES, row], jobs[LIMIT, row], jobs[SUBMIT, row] = need, job.limit_us, now_us
        jobs[SEQ, row], jobs[CORES, row], jobs[PROCESSES, row] = state.next_seq, job.processes, job.processes
        jobs[USER, row], jobs[QOS, row] = state.user_number(job.user), job.qos
        jobs[RANGES, row], jobs[ELIGIBLE, row] = -1, -1
        jobs[RESERVED, row] = jobs[PROMISED, row] = UNRESERVED
        state.next_seq += 1
        if jobs[USER, row] >= state.usage.shape[1] - 1:
            state.usage = fair_share.grown(state.usage, 2 * len(state.users))
        pending = {name for name in job.after if name not in state.finished}
        failed = [name for name in job.after if state.finished.get(name, WENT_WELL) != WENT_WELL]
        if failed and not job.after_any:
            jobs[STATE, row] = BLOCKED
            return self.cancel(now_us, job.job_id, f"job {failed[0]} it depends on did not finish well")
        if job.reprofile:
            known_programs.forget(self.state, job.program, job.profile_owner)
        if pending:
            state.waiting_for[row] = pending
        if job.held:
            state.held.add(row)
        due = self.enter_queue(now_us, row)
        if job.mates is not None and self.desk is not None:
            self.desk.submitted(now_us, job)
        return due

    def let_go(self, now_us: int, row: int, reason: str) -> None:
        """Release the nodes that are kept for a job while it waits for its mates; it goes back into the queue."""
        if row >= 0 and self.state.jobs[STATE, row] == HOLDING and self.desk is not None:
            self.desk.lost_nodes(now_us, row, reason)

    def _check_mates(self, job: Job) -> None:
        if job.mates is not None and self.desk is None:
            raise InputError("it has mates in other domains, but this cluster is not coupled with any", "job")
        if self.desk is not None and (problem := self.desk.about.what_is_wrong(job)):
            raise InputError(problem, "job")

    def enter_queue(self, now_us: int, row: int) -> bool:
        """Put a job into the queue, unless a hold, a dependency or an array bound keeps it out."""
        state = self.state
        if row in state.held or state.waiting_for.get(row) or self._array_is_full(row):
            state.jobs[STATE, row] = BLOCKED
            return False
        if state.jobs[ELIGIBLE, row] < 0:
            state.jobs[ELIGIBLE, row] = now_us
        columns, one = columns_of(state.jobs, state.usage), np.array([row])
        if not state.changing:
            state.keys[SCORE, row] = state.raised(one, self.policies.order.scores(columns, one, now_us))[0]
            if self.policies.backfill_order is not None:
                second = self.policies.backfill_order.scores(columns, one, now_us)
                state.keys[BACKFILL_SCORE, row] = state.raised(one, second)[0]
        enqueue(row, state.rule, state.queued)
        self.arrivals.append(row)
        return True

    def leave_queue(self, row: int) -> None:
        state = self.state
        dequeue(row, state.rule, state.queued)
        if state.depth == CONSERVATIVE:
            if state.profiled:
                cancel_reservation(row, state.jobs, state.machine)
            else:
                state.memory.get(PROMISES, {}).pop(state.spec(row).job_id, None)
        state.withdraw_promise(row)
        state.jobs[STATE, row] = BLOCKED
        state.jobs[RESERVED, row] = state.jobs[PROMISED, row] = UNRESERVED
        state.gauges[HEAD], state.gauges[RELEASED] = -1, 1
        self.arrivals = [one for one in self.arrivals if one != row]

    def _array_is_full(self, row: int) -> bool:
        array = self.state.spec(row).job_id.rpartition("_")[0]
        if array not in self.state.arrays:
            return False
        running, at_most = self.state.arrays[array]
        members = np.fromiter(self.state.members.get(array, ()), np.int64)
        return running + int(np.count_nonzero(self.state.jobs[STATE, members] == QUEUED)) >= at_most

    def _fill_array(self, now_us: int, array: str) -> None:
        """Enqueue blocked members of a bounded array after one of its members ended or left the queue."""
        for row in tuple(self.state.members.get(array, ())):
            if self.state.jobs[STATE, row] == BLOCKED:
                if self._array_is_full(row):
                    break
                self.enter_queue(now_us, row)

    # ---- jobs out -------------------------------------------------------------------------------------------------

    def finished(self, now_us: int, job_id: str, attempt: int, status: str) -> bool:
        """End a run, and its job with it unless it may run again."""
        row = self.state.rows.get(job_id, -1)
        if (
            row < 0
            or self.state.jobs[STATE, row] not in (STARTING, RUNNING)
            or self.state.jobs[ATTEMPT, row] != attempt
        ):
            return False  # an old attempt, or a repeated event
        if status not in ("lost", STOPPED):
            self.state.gauges[RUN_US] += now_us - self.state.jobs[START, row]
            self.state.gauges[RUNS] += 1
            note_end(self.state, row, now_us)
        co_runs.note_end(self.state, self.policies, now_us, row, status == WENT_WELL)
        if status == WENT_WELL:
            own_runs.note_end(self.state, self.policies, now_us, row)
        self._stop(now_us, row)
        lost = status == "lost" and self.state.spec(row).requeue and self.state.cluster.on_node_loss == "requeue"
        again = lost or status == STOPPED
        if again and self.state.jobs[FLAGS, row] == CANCELLED:
            again, status = False, "cancelled"  # it was cancelled while it ran
        self.state.jobs[STATE, row] = BLOCKED
        if self.desk is not None:
            self.desk.finished(now_us, job_id, again)
        if again:
            return self.enter_queue(now_us, row) or True
        self.state.forget_row(row)
        self._end(now_us, job_id, "failed" if status == "lost" else status)
        return True

    def _stop(self, now_us: int, row: int) -> None:
        """Take a run off its nodes and charge what it used."""
        state = self.state
        leave_nodes(state, now_us, row)
        user, half_life = int(state.jobs[USER, row]), self.policies.fair_share_half_life_us
        if half_life and user >= 0:
            fair_share.charge(state.usage, user, state.jobs[CORES, row], state.jobs[START, row], now_us, half_life)
        array = state.spec(row).job_id.rpartition("_")[0]
        if array in state.arrays:
            running, at_most = state.arrays[array]
            state.arrays[array] = (running - 1, at_most)
            state.jobs[STATE, row] = ABSENT
            self._fill_array(now_us, array)

    def _end(self, now_us: int, job_id: str, status: str) -> None:
        """Record how the job ended; release the jobs that depend on it, or cancel them."""
        state = self.state
        state.finished[job_id] = status
        state.attempts.pop(job_id, None)
        self._count_down_array(now_us, job_id.rpartition("_")[0], status)
        for row, pending in list(state.waiting_for.items()):
            if job_id not in pending or row not in state.waiting_for:
                continue
            job = state.spec(row)
            if status != WENT_WELL and not job.after_any:
                self.cancel(now_us, job.job_id, f"job {job_id} it depends on did not finish well")
                continue
            pending.discard(job_id)
            if not pending:
                del state.waiting_for[row]
                self.enter_queue(now_us, row)

    def _count_down_array(self, now_us: int, array: str, status: str) -> None:
        """End the array when its last member has ended: successfully, if all members did."""
        if array not in self.state.open_arrays:
            return
        left, worst = self.state.open_arrays.pop(array)
        worst = worst if status == WENT_WELL else status
        if left > 1:
            self.state.open_arrays[array] = (left - 1, worst)
        else:
            self.state.arrays.pop(array, None)
            self._end(now_us, array, worst)

    def cancel(self, now_us: int, job_id: str, reason: str) -> bool:
        state = self.state
        row = state.rows.get(job_id, -1)
        if row < 0:
            return False
        self.commands.append(CancelJob(job_id, int(state.jobs[ATTEMPT, row]), reason))
        if state.jobs[STATE, row] in (STARTING, RUNNING):
            state.jobs[FLAGS, row] = CANCELLED
            return False  # the executor stops it and reports its end
        self.let_go(now_us, row, reason)
        if state.jobs[STATE, row] == QUEUED:
            self.leave_queue(row)
        if self.desk is not None:
            self.desk.withdrawn(now_us, job_id)
        state.held.discard(row)
        state.waiting_for.pop(row, None)
        state.refused_until.pop(row, None)
        state.forget_row(row)
        self._end(now_us, job_id, "cancelled")
        self._fill_array(now_us, job_id.rpartition("_")[0])
        return True

    # ---- answers and changes --------------------------------------------------------------------------------------

    def _started(self, job_id: str, attempt: int) -> bool:
        row = self.state.rows.get(job_id, -1)
        if row >= 0 and self.state.jobs[ATTEMPT, row] == attempt and self.state.jobs[STATE, row] == STARTING:
            self.state.jobs[STATE, row] = RUNNING
        return False

    def _refused(self, now_us: int, job_id: str, attempt: int, back_off_us: int) -> bool:
        row = self.state.rows.get(job_id, -1)
        if row < 0 or self.state.jobs[STATE, row] != STARTING or self.state.jobs[ATTEMPT, row] != attempt:
            return False
        self._stop(now_us, row)
        self.state.jobs[STATE, row] = BLOCKED
        if self.state.jobs[FLAGS, row] == CANCELLED:
            return self.cancel(now_us, job_id, "cancelled")
        if self.desk is not None:
            self.desk.start_refused(now_us, job_id, "the executor refused it")
        self.state.refused_until[row] = now_us + max(back_off_us, 1)
        return self.enter_queue(now_us, row)

    def _held(self, now_us: int, job_id: str) -> bool:
        row = self.state.rows.get(job_id, -1)
        self.let_go(now_us, row, "its owner wants it held")
        if row < 0 or self.state.jobs[STATE, row] not in (QUEUED, BLOCKED):
            return False
        self.state.held.add(row)
        self.state.jobs[ELIGIBLE, row] = -1
        if self.state.jobs[STATE, row] == QUEUED:
            self.leave_queue(row)
            self._fill_array(now_us, job_id.rpartition("_")[0])
            return True
        return False

    def _released(self, now_us: int, job_id: str) -> bool:
        row = self.state.rows.get(job_id, -1)
        if row not in self.state.held:
            return False
        self.state.held.discard(row)
        return self.enter_queue(now_us, row)

    def _requeued(self, job_id: str) -> bool:
        """Have its run stopped; when that ends, the job returns to the queue."""
        state, row = self.state, self.state.rows.get(job_id, -1)
        if row >= 0 and state.jobs[STATE, row] in (STARTING, RUNNING) and state.jobs[FLAGS, row] != CANCELLED:
            self.commands.append(StopJob(job_id, int(state.jobs[ATTEMPT, row]), "it is to be queued again"))
        return False

    def _changed(self, now_us: int, job_id: str, limit_us: int | None, qos: int | None) -> bool:
        state = self.state
        row = state.rows.get(job_id, -1)
        self.let_go(now_us, row, "it was changed")
        if row < 0 or state.jobs[STATE, row] not in (QUEUED, BLOCKED):
            return False
        queued = bool(state.jobs[STATE, row] == QUEUED)
        if queued:
            self.leave_queue(row)
        job = state.spec(row)
        job = msgspec.structs.replace(
            job, limit_us=job.limit_us if limit_us is None else limit_us, qos=job.qos if qos is None else qos
        )
        state.specs[row] = job
        state.described.forget(row)
        state.jobs[LIMIT, row], state.jobs[QOS, row] = job.limit_us, job.qos
        if queued:
            self.enter_queue(now_us, row)
        return queued
