"""The decision core: events in, commands out. `step` is a pure function of the state, the time and the events.

The live controller and the simulator both call it. It neither waits nor executes anything; its caller does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import called_again
from cohabit.core import known_programs, windows
from cohabit.core.apply import Applier
from cohabit.core.columns import BLOCKED, FREE, HEAD, HOLDING, NODES, QUEUED, RELEASED, STARTED, STATE, WAKE
from cohabit.core.commit import commit, start_command
from cohabit.core.decide import PROMISES, decide, place_one
from cohabit.core.kernels import ladder, overrunning, shortlist
from cohabit.core.kernels.bundles import CONSERVATIVE, EASY, make_workspace
from cohabit.core.kernels.ladder import ROWS
from cohabit.core.kernels.moves import enqueue
from cohabit.core.kernels.schedule import pass_of
from cohabit.core.leaving import leave_nodes
from cohabit.core.mates.desk import Desk
from cohabit.core.protocols import Order, PolicySet
from cohabit.core.scorer import make_scorer
from cohabit.core.sharing import shares_that_changed
from cohabit.core.state import State
from cohabit.core.view import View
from cohabit.model.cluster import Cluster
from cohabit.model.command import Command, StartJob, WakeAt
from cohabit.model.event import Event, JobStarted, PeerReported, Woken
from cohabit.model.peer import NEVER
from cohabit.model.plan import Plan, Promise, Start, Withdraw
from cohabit.model.profile import Profile
from cohabit.model.units import FOREVER

MOST_ROUNDS = 4  # passes at one instant


class SchedulerCore:
    """One cluster under one set of policies."""

    def __init__(
        self, cluster: Cluster, policies: PolicySet, readable: bool = False, profiles: Iterable[Profile] = ()
    ) -> None:
        self.policies = policies
        self.state = State(cluster, policies)
        for one in profiles:
            known_programs.put(self.state, one)
        self.readable = readable  # never use the compiled pass; for tests that compare the two
        self.state.profiled = not readable
        self._applier = Applier(self.state, policies)
        if self._applier.desk is not None:
            self._applier.desk.start = self._start_mate

    def step(self, now_us: int, events: Sequence[Event]) -> list[Command]:
        """Apply the events, decide once if any of them calls for it, and return the commands."""
        applier = self._applier
        due = False
        for event in events:
            due = applier.apply(now_us, event) or due
        due = due or bool(applier.arrivals)  # every job that entered the queue is looked at
        if applier.desk is not None:
            self._pass_with_mates(now_us, events, due, applier.desk)
        elif due:
            self._decide_and_commit(now_us)
        commands, applier.commands = applier.commands, []
        reason, applier.reasons = "; ".join(filter(None, applier.reasons)), []
        if self.state.ledger is not None and self.state.ledger.touched:
            commands += shares_that_changed(self.state, self.policies, self.view(now_us), reason)
        return commands

    @property
    def arrivals(self) -> list[int]:
        """Return the rows that entered the queue since the last decision."""
        return self._applier.arrivals

    @arrivals.setter
    def arrivals(self, rows: list[int]) -> None:
        self._applier.arrivals = rows

    def view(self, now_us: int) -> View:
        """Return a read-only view of the state."""
        return View(self.state, now_us)

    @property
    def compiled(self) -> bool:
        """Return whether the compiled pass may decide now: interchangeable whole nodes, nothing refused lately."""
        exclusive = self.policies.lowest_nodes and not self.policies.gates
        limited = self.policies.age_limit_us or self.policies.age_limit_runs
        if limited and (self.policies.order.name != "age" or self.policies.backfill_order is not None):
            return False  # the compiled pass knows the oldest job only as the first in order of age
        if self.state.coupled is not None and (self.state.depth == CONSERVATIVE or self.state.coupled.agreed):
            return False
        return exclusive and not self.readable and self.state.interchangeable and not self.state.refused_until

    def _decide_and_commit(self, now_us: int, rounds: int = 1, desk: Desk | None = None) -> int:
        """Run one pass. It ends early at the first job with mates that finds nodes; return its row, which has them.

        With a desk, a compiled pass goes on behind a job that yields without a question to its mates.
        """
        state = self.state
        windows.drop_past(state, now_us)
        arrivals, self._applier.arrivals = np.array(self._applier.arrivals, np.int64), []
        state.refused_until = {row: until for row, until in state.refused_until.items() if until > now_us}
        compiled = self.compiled
        if compiled != state.profiled:  # the two forms store promises in different places
            state.profiled = compiled
            state.gauges[HEAD], state.gauges[RELEASED] = -1, 1  # jobs that the other form skipped are looked at again
            state.void_promises()
            state.memory.pop(PROMISES, None)
        if compiled:
            kept = self._compiled_pass(now_us, arrivals, desk)
            wake_us = int(state.gauges[WAKE])
        else:
            overrunning.extend_overrunning(now_us, state.jobs, state.keys, state.running, state.gauges)
            plan = decide(self.view(now_us), self.policies)
            if plan.late:
                state.void_promises()
                plan = decide(self.view(now_us), self.policies)
            kept = self._cut_at_mates(plan)
            commands, refused = commit(state, plan, now_us, kept)
            self._applier.commands += commands
            if kept < 0 and rounds < MOST_ROUNDS and self._moved_promises(plan):
                return self._decide_and_commit(now_us, rounds + 1)
            kept = -1 if any(action.row == kept for action in refused) else kept
            wake_us = plan.wake_us if plan.wake_us is not None else FOREVER
        if state.coupled is not None:
            state.coupled.pass_wake_us = wake_us
        else:
            self._wake_at(wake_us)
        return kept

    def _moved_promises(self, plan: Plan) -> bool:
        """Whether a pass has moved one of several promises on shared nodes: another job may be able to start now."""
        in_cycles = self.policies.backfill.cycle is not None and self.policies.backfill.cycle.interval_us > 0
        return (
            self.state.depth > EASY
            and not in_cycles
            and any(isinstance(action, Promise | Withdraw) for action in plan.actions)
        )

    def _wake_at(self, wake_us: int) -> None:
        if wake_us != self.state.wake_us:
            self.state.wake_us = wake_us
            self._applier.commands.append(WakeAt(wake_us))

    def _compiled_pass(self, now_us: int, arrivals: NDArray[np.int64], desk: Desk | None) -> int:
        """Decide and commit in one compiled step: every start is checked and carried out when it is found."""
        state, policies = self.state, self.policies
        work = make_workspace(int(state.queue.meta[ROWS]) + 1)
        work.arrivals[: len(arrivals)] = arrivals
        asked = replace(
            policies,
            order=self._asked(policies.order, now_us),
            backfill_order=self._asked(policies.backfill_order, now_us) if policies.backfill_order else None,
        )
        columns = self.view(now_us).columns()
        short = shortlist.make(1)
        scorer = make_scorer(asked, columns, state.usage, work.waiting, work.fresh, short, [])
        rule = state.rule._replace(alone=policies.alone and not state.raises)
        run, arrived = called_again(pass_of(rule)), len(arrivals)
        while True:
            run(now_us, rule, arrived, state.queued, state.machine, scorer, work)
            assert state.gauges[FREE] >= 0
            state.touch()
            begun: list[int] = work.started[: state.gauges[STARTED]].tolist()
            first = next((place for place, row in enumerate(begun) if self._has_mates(row)), len(begun))
            for row in reversed(begun[first + 1 :]):
                leave_nodes(state, now_us, row)
                enqueue(row, state.rule, state.queued)
                state.gauges[HEAD] = -1
            self._applier.commands += [start_command(state, row) for row in begun[:first]]
            if first == len(begun):
                return -1
            if desk is None or not desk.yields_unasked(now_us, begun[first]):
                return begun[first]
            desk.refresh_holds(now_us)
            arrived = 0

    # ---- jobs with mates in other domains ---------------------------------------------------------------------------

    def _pass_with_mates(self, now_us: int, events: Sequence[Event], due: bool, desk: Desk) -> None:
        """Run passes until no more jobs start; they pause while the mates of a job that has found nodes are asked."""
        about, applier = desk.about, self._applier
        local = any(not isinstance(event, PeerReported | JobStarted | Woken) for event in events)
        due = windows.let_go_in_time(applier, now_us) or due
        due = desk.before(now_us, local, any(isinstance(event, Woken) for event in events)) or due
        while True:
            if about.wanted:
                name, attempt = about.wanted.pop(0)
                if name in self.state.rows:
                    desk.reserved(now_us, name, attempt, self._find_nodes_for(now_us, name, desk))
            elif about.asking:
                break
            elif due or applier.arrivals:
                desk.refresh_holds(now_us)
                row = self._decide_and_commit(now_us, desk=desk)
                if row >= 0:
                    desk.chosen(now_us, row)
                due = row >= 0 or desk.let_last_in(now_us)
            elif not about.want_early():
                break
        for command in [one for one in applier.commands if isinstance(one, StartJob)]:
            desk.started(now_us, command.job_id)
        self._wake_at(min(desk.after(now_us), windows.next_let_go_us(self.state, now_us)))

    def _find_nodes_for(self, now_us: int, name: str, desk: Desk) -> bool:
        """Run an extra pass for one job, without other jobs with mates; return whether it has nodes now."""
        state, applier, row = self.state, self._applier, self.state.rows[name]
        if state.jobs[STATE, row] not in (BLOCKED, QUEUED) or state.jobs[NODES, row] > state.idle_count:
            return bool(state.jobs[STATE, row] == HOLDING)
        if state.jobs[STATE, row] == QUEUED or desk.about.jobs[name].agreed_us != NEVER:
            return self._place(now_us, row)
        aside, found = [], -1
        applier.enter_queue(now_us, row)
        while found != row:
            desk.refresh_holds(now_us)
            found = self._decide_and_commit(now_us)
            if found < 0:
                break
            if found != row:
                leave_nodes(state, now_us, found)
                state.jobs[STATE, found] = BLOCKED
                aside.append(found)
        for other in aside:
            applier.enter_queue(now_us, other)
        if found != row and state.jobs[STATE, row] == QUEUED:
            applier.leave_queue(row)
        return found == row

    def _place(self, now_us: int, row: int) -> bool:
        """Give this job nodes before all others, if enough are idle for its whole limit."""
        state, queued = self.state, self.state.jobs[STATE, row] == QUEUED
        plan = place_one(self.view(now_us), self.policies, row)
        if plan is None:
            return False
        if not queued:
            enqueue(row, state.rule, state.queued)
        _, refused = commit(state, plan, now_us, row)
        if refused and not queued:
            self._applier.leave_queue(row)
        return not refused

    def _has_mates(self, row: int) -> bool:
        coupled = self.state.coupled
        job = self.state.spec(row)
        return coupled is not None and job.mates is not None and coupled.scheme_of(job.job_id).enabled

    def _cut_at_mates(self, plan: Plan) -> int:
        """Cut the plan after the first start of a job with mates; return its row, -1 if there is none."""
        if self.state.coupled is not None:
            for place, action in enumerate(plan.actions):
                if isinstance(action, Start) and self._has_mates(action.row):
                    del plan.actions[place + 1 :]
                    return action.row
        return -1

    def _start_mate(self, now_us: int, row: int, fuse_us: int) -> None:
        self.state.expect_end(row, now_us)
        self._applier.commands.append(start_command(self.state, row, fuse_us))

    def _asked(self, order: Order, now_us: int) -> Order:
        """Return the order for a pass; one in Python is asked before the pass, so that its errors change no state."""
        if not self.state.changing or (order.entry is not None and not self.state.raises):
            return order
        queued, known = ladder.all_rows(self.state.queue), np.zeros(self.state.jobs.shape[1])
        known[queued] = self.state.raised(queued, order.scores(self.view(now_us).columns(), queued, now_us))
        return replace(order, function=lambda _jobs, rows, _now_us, *_: known[rows], entry=None)
