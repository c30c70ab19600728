"""Promises on shared nodes: nodes kept for a waiting job from an instant on, with cores, ways, bandwidth and memory.

A promise is kept between passes. Its `latest_us` rests on requested times and moves later only if nodes are lost or a
job outlives its request; `expected_us` rests on expected run times and may move. A start is allowed if every promised
node keeps room for its promise even if all jobs run for as long as they request (ADR 13). Requests are often far too
long, so a start must not delay the expected start of a promised job either, unless other nodes can replace those it
takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple, Protocol

import numpy as np

from cohabit.core.columns import EXPECTED, PROMISED, START
from cohabit.core.cycles import Turn
from cohabit.core.kernels.bundles import CONSERVATIVE
from cohabit.core.ledger import Ledger, Nodes, Parts, Takes, ranges_of
from cohabit.core.outlook import Booking, Flags, Ints, Outlook, Residents, Want, residents_of
from cohabit.core.timeline import planned
from cohabit.core.view import View
from cohabit.model.plan import Ask, Plan, Promise, Withdraw
from cohabit.model.units import FOREVER, SECOND


class Draft:
    """The ledger with the starts and promises of this pass; it is copied when it is first read after a change."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._copied = ledger, False
        self._last: tuple[int, Parts, Takes] | None = None
        self.begun: dict[int, int] = {}  # row -> how long it is expected to run; 0: as long as it requests
        self.version = 0

    def ledger(self) -> Ledger:
        """Return the ledger with everything booked so far; it must not be changed."""
        if self._last is not None:
            last, self._last = self._last, None
            self._own().book(*last)
        return self._ledger

    def book(self, row: int, parts: Parts, takes: Takes, run_us: int = 0) -> Nodes:
        """Book these nodes for the job."""
        nodes = self.ledger().lowest(parts)
        self._last = (row, parts, takes)
        self.begun[row] = run_us
        self.version += 1
        return nodes

    def has(self, row: int) -> bool:
        """Whether the job starts in this pass."""
        return row in self.begun

    def promise(self, row: int, parts: Parts) -> None:
        """Note that a promise counts on these nodes."""
        self.ledger()
        self._own().promise(row, parts)
        self.version += 1

    def unpromise(self, row: int) -> None:
        """Note that a job has no promise any more."""
        if row in self.ledger().promised_in:
            self._own().unpromise(row)
            self.version += 1

    def _own(self) -> Ledger:
        if not self._copied:
            self._ledger, self._copied = self._ledger.draft(), True
        return self._ledger


class Passing(Protocol):
    """The pass that the promises belong to."""

    def start_promised(self, row: int, own: Ask) -> bool:
        """Start a promised job now, if it can; `own` is how it was to run."""
        ...

    def promised_asks(self, row: int) -> list[Ask]:
        """Return the ways to run a job that a promise may rest on."""
        ...

    def not_before_us(self, row: int) -> int:
        """Return until when the job may not start although it has found nodes; 0: nothing keeps it back."""
        ...


class Open(NamedTuple):
    """The ledger as open to a job that starts now, and how many nodes have room for it there."""

    ledger: Ledger
    room: int


class _Known:
    """Answers that hold for one version of a draft."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.residents: Residents | None = None
        self.outlooks: dict[bool, Outlook] = {}  # by requested times, and by expected ones
        self.spare: dict[int, Ints] = {}  # by row of a promise
        self.open: dict[tuple[Takes, tuple[int, ...], int], Open] = {}  # by promises not to break, and circle
        self.delays: dict[tuple[Takes, int, int], Delay] = {}  # by what may be delayed, and until when


class Delay(NamedTuple):
    """An expected start that a job could delay if it starts now."""

    lost: Flags  # the classes on which it takes nodes that the promised job could use
    spare: int  # how many of them it may take
    expected_us: int


class Promises:
    """The promises of one pass; `kept` are by row, in the order in which they were made."""

    def __init__(self, view: View, draft: Draft, plan: Plan) -> None:
        self._view, self._draft, self._plan = view, draft, plan
        self.kept = dict(view.promises)
        self.turn = Turn(view, None)
        self._known = _Known(-1)

    # ---- keeping ----------------------------------------------------------------------------------------------------

    @property
    def made(self) -> int:
        """How many jobs of the queue have a promise. Starts agreed on with mates in other domains do not count."""
        return sum(self._view.is_queued(row) for row in self.kept)

    def keep(self, one: Passing, depth: int) -> None:
        """Start the promised jobs that can start now, in the order of their promises, and renew the other promises.

        Under conservative backfilling a promise stays as it is. All are made anew, in order, when one cannot be kept:
        its nodes are lost, its start was refused, or a job has outlived its request.
        """
        view = self._view
        for row in [row for row in self.kept if not view.is_queued(row) and self._has_lost_nodes(row)]:
            self.withdraw(row)  # agreed on with mates: it is tried at its time, and agreed on anew if there is no room
        if self._refused() or any(self._has_lost_nodes(row) for row in self.kept):
            self._keep_anew(one)
            return
        version = -1
        while version != self._draft.version:  # a start or a moved promise may make room for another start
            version = self._draft.version
            for row, old in sorted(self.kept.items(), key=lambda one: one[1].latest_us):
                if not view.is_queued(row):
                    continue
                refused_us = view.refused_until.get(row, 0)
                if refused_us <= view.now_us and one.start_promised(row, old.ask):
                    continue
                not_before_us = max(refused_us, one.not_before_us(row))
                if max(old.latest_us, not_before_us) <= view.now_us:
                    self._keep_anew(one)
                    return
                if depth != CONSERVATIVE or not_before_us > old.latest_us:
                    self._renew(row, one.promised_asks(row), not_before_us)

    def _keep_anew(self, one: Passing) -> None:
        view, old = self._view, {row: one for row, one in self.kept.items() if self._view.is_queued(row)}
        rows = [*self._refused(), *sorted(old, key=lambda row: old[row].latest_us)]
        for row in old:
            self.withdraw(row)
        for row in rows:
            refused_us = view.refused_until.get(row, 0)
            may_start = row in old and refused_us <= view.now_us
            if self._draft.has(row) or (may_start and one.start_promised(row, old[row].ask)):
                continue
            self.make(row, one.promised_asks(row), max(refused_us, one.not_before_us(row)))

    def _has_lost_nodes(self, row: int) -> bool:
        """Whether promised nodes are down, drained, or closed by a window when the job is to run there."""
        ledger, marked, view = self._draft.ledger(), self._marked(row), self._view
        begin_us = self.kept[row].latest_us
        end_us = begin_us + planned(view.limit_us(row))
        windows = [view.kinds.windows_of[kind] for kind in np.unique(ledger.kind[marked])]
        closed = any(one.begin_us < end_us and begin_us < one.end_us for here in windows for one in here)
        return closed or not ledger.up[marked].all()

    def _refused(self) -> list[int]:
        """Return the rows whose promised start a back end refused, for now."""
        view = self._view
        return [
            row
            for row, until_us in view.refused_until.items()
            if until_us > view.now_us and row not in self.kept and view.is_queued(row) and view.jobs[PROMISED, row] >= 0
        ]

    # ---- making -----------------------------------------------------------------------------------------------------

    def make(self, row: int, asks: Iterable[Ask], not_before_us: int = 0) -> None:
        """Promise the job the start after which it is expected to end first; nothing if it can never start."""
        found = self._best(row, asks, not_before_us)
        if found is not None:
            self._note(row, *found)

    def earliest(self, row: int, asks: Iterable[Ask], not_before_us: int) -> Promise | None:
        """Return the earliest start that could be agreed on with mates in other domains; it breaks no promise."""
        self._draft.unpromise(row)
        found = self._best(row, asks, not_before_us)
        if found is None:
            return None
        ask, latest_us, _, parts = found
        return Promise(row, latest_us, latest_us, ranges_of(self._draft.ledger().lowest(parts)), ask)

    def _renew(self, row: int, asks: Sequence[Ask], not_before_us: int = 0) -> None:
        """Move a promise earlier where that is possible now, and to nodes that no other job could use now."""
        old = self.kept[row]
        found = self._best(row, [*asks, old.ask], not_before_us, old.latest_us)
        if found is None:
            self.withdraw(row)
            return
        if found[1] != old.latest_us or self._idle(found[3]) < self._idle(self._parts_of(row)):
            self._draft.unpromise(row)
            found = self._best(row, [*asks, old.ask], not_before_us, old.latest_us)
            assert found is not None
            self._note(row, *found)
        elif found[2] != old.expected_us:
            ranges = ranges_of(self._draft.ledger().nodes_promised_to(row))
            self.kept[row] = Promise(row, old.latest_us, found[2], ranges, old.ask)
            self._plan.actions.append(self.kept[row])

    def withdraw(self, row: int) -> None:
        """Take a promise back."""
        del self.kept[row]
        self._draft.unpromise(row)
        self._plan.actions.append(Withdraw(row))

    def drop(self, row: int) -> None:
        """Forget the promise of a job that starts."""
        self.kept.pop(row, None)

    def _note(self, row: int, ask: Ask, latest_us: int, expected_us: int, parts: Parts) -> None:
        ranges = ranges_of(self._draft.ledger().lowest(parts))
        self._draft.promise(row, parts)
        self.kept[row] = Promise(row, latest_us, expected_us, ranges, ask)
        self._plan.actions.append(self.kept[row])

    def _best(
        self, row: int, asks: Iterable[Ask], not_before_us: int, latest_us: int = -1
    ) -> tuple[Ask, int, int, Parts] | None:
        """Return the ask that is expected to end first, when it starts and where; not after `latest_us` if possible."""
        view, limits, forecast = self._view, self._outlook(), self._outlook(expected=True)
        bookings, length_us, strangers = self._bookings(row), planned(view.limit_us(row)), view.strangers(row)
        best: tuple[tuple[bool, int, int], tuple[Ask, int, int, Parts]] | None = None
        distinct: dict[tuple[Takes, int], Ask] = {}
        for ask in asks:
            distinct.setdefault((ask.takes, ask.nodes), ask)
        for ask in distinct.values():
            want = Want(ask.takes, ask.nodes, length_us, strangers)
            found = limits.earliest(want, bookings, not_before_us)
            if found is None or not self.turn.promises(at_us := self.turn.rounded(found[0])):
                continue
            found = at_us, found[1]
            sooner = forecast.earliest(want, (), not_before_us)
            expected_us = found[0] if sooner is None else min(self.turn.rounded(sooner[0]), found[0])
            rank = (0 <= latest_us < found[0], expected_us + (ask.run_us or length_us), found[0])
            if best is None or rank < best[0]:
                best = (rank, (ask, found[0], expected_us, found[1]))
        return None if best is None else best[1]

    # ---- asking -----------------------------------------------------------------------------------------------------

    def next_us(self) -> int:
        """Return the next instant at which a promised job may start without a new event.

        A job past its request is expected to end one second from now, in every pass; its end is an event.
        """
        view = self._view
        soonest_us = view.now_us + SECOND if view.overruns else view.now_us
        return min((one.latest_us for one in self.kept.values() if one.latest_us > soonest_us), default=FOREVER)

    def open_to(self, row: int, takes: Takes) -> Open:
        """Return the ledger as open to a job that starts now: where it breaks no promise, beside jobs it trusts."""
        view, known = self._view, self._known_now().open
        ends_us = view.now_us + planned(view.limit_us(row))
        others = tuple(one.row for one in self.kept.values() if one.row != row and ends_us > one.latest_us)
        about = takes, others, view.circle(row)
        if about not in known:
            known[about] = self._open_beside([self.kept[other] for other in others], takes, view.strangers(row))
        return known[about]

    def _open_beside(self, others: Sequence[Promise], takes: Takes, strangers: Flags | None) -> Open:
        """Return what is open to a job that runs into these promises."""
        ledger = self._draft.ledger()
        shut, wanted = np.zeros(len(ledger.count), np.bool_), ledger.wanted(takes)
        for one in others:
            marked = self._marked(one.row)
            if strangers is not None and strangers[one.row]:
                shut[marked] = True
            else:
                shut[marked] |= (self._spare_of(one)[:, marked] < wanted[:, marked]).any(axis=0)
        if strangers is not None:
            shut[
                [index for index in ledger.classes() if any(strangers[other] for other in ledger.residents[index])]
            ] = True
        ledger = ledger.open_to(~shut) if shut.any() else ledger
        return Open(ledger, ledger.room(takes))

    def delays(self, row: int, ask: Ask, takes: Takes) -> list[Delay]:
        """Return which expected starts the job could delay; of a promised job only those promised before it, and none
        when its own start is due."""
        view, found = self._view, []
        ends_us = view.now_us + (ask.run_us or planned(view.limit_us(row)))
        if row in self.kept and self.kept[row].latest_us <= view.now_us:
            return []
        for one in takewhile(lambda one: one.row != row, self.kept.values()):
            if view.now_us < one.expected_us < min(one.latest_us, ends_us):
                known, about = self._known_now().delays, (takes, one.row, one.expected_us)
                if about not in known:
                    known[about] = self._delay(one, takes)
                found.append(known[about])
        return found

    def _delay(self, one: Promise, takes: Takes) -> Delay:
        """Return how a job that takes this much could delay a promised start."""
        ledger, room = self._draft.ledger(), self._outlook(expected=True).room_at(one.expected_us)
        needs = ledger.wanted(one.ask.takes)
        before = ledger.up & (needs[0] >= 0) & (room >= needs).all(axis=0)
        after = (room - np.maximum(ledger.wanted(takes), 0) >= needs).all(axis=0)
        return Delay(before & ~after, int(ledger.count[before].sum()) - one.ask.nodes, one.expected_us)

    def _marked(self, row: int) -> Ints:
        return np.array(self._draft.ledger().promised_in.get(row, ()), np.int64)

    def _spare_of(self, one: Promise) -> Ints:
        """Return what nodes have left when a promise begins, beside everything that runs or is promised then."""
        known = self._known_now().spare
        if one.row not in known:
            begin_us = max(one.latest_us, self._view.now_us)
            spare, ledger = self._outlook().room_at(begin_us), self._draft.ledger()
            for booking in self._bookings(-1):
                if booking.begin_us <= begin_us < booking.end_us:
                    marked = self._marked(booking.row)
                    spare[:, marked] -= np.maximum(ledger.wanted(booking.takes)[:, marked], 0)
            known[one.row] = spare
        return known[one.row]

    def _bookings(self, row: int) -> list[Booking]:
        """Return all promises but that of this row."""
        view = self._view
        return [
            Booking(one.row, one.latest_us, one.latest_us + planned(view.limit_us(one.row)), one.ask.takes)
            for one in self.kept.values()
            if one.row != row
        ]

    def _known_now(self) -> _Known:
        """Return what is known of the draft as it is now."""
        if self._known.version != self._draft.version:
            self._known = _Known(self._draft.version)
        return self._known

    def _outlook(self, expected: bool = False) -> Outlook:
        """Return what is free over time by requested times, or by expected ones."""
        known, ledger, view = self._known_now(), self._draft.ledger(), self._view
        if expected not in known.outlooks:
            known.residents = known.residents or residents_of(ledger, view.others_until)
            ends = self._ends()
            ends = self._expected_ends(ends) if expected else ends
            known.outlooks[expected] = Outlook(ledger, known.residents, ends, view.now_us, view.kinds.windows_of)
        return known.outlooks[expected]

    def _ends(self) -> Ints:
        """Return when the jobs of the draft end by requested times, by row."""
        view, ends = self._view, np.array(self._view.jobs[EXPECTED], np.int64)
        for row in self._draft.begun:
            ends[row] = view.now_us + view.limit_us(row)
        return ends

    def _expected_ends(self, limits: Ints) -> Ints:
        """Return when jobs are expected to end, by row: after their expected run time, at the latest by their request.

        A job that has run for longer than expected is expected to run for another tenth of that.
        """
        view, ends, (rows, runs_us) = self._view, limits.copy(), self._forecast
        begun_us = view.jobs[START, rows]
        late_us = view.now_us + np.maximum((view.now_us - begun_us) // 10, SECOND)
        until_us = np.where(begun_us + runs_us <= view.now_us, late_us, begun_us + runs_us)
        ends[rows] = np.minimum(ends[rows], until_us)
        for row, run_us in self._draft.begun.items():
            if run_us:
                ends[row] = min(int(ends[row]), view.now_us + run_us)
        return ends

    @cached_property
    def _forecast(self) -> tuple[Ints, Ints]:
        """The rows of running jobs with an expected run time, and these times."""
        known = [(row, how.run_us) for row, how in self._view.placed.items() if how.run_us]
        rows, runs_us = np.array(known, np.int64).reshape(-1, 2).T
        return rows, runs_us

    def _parts_of(self, row: int) -> Parts:
        ledger = self._draft.ledger()
        return tuple((index, int(ledger.count[index])) for index in ledger.promised_in.get(row, ()))

    def _idle(self, parts: Parts) -> int:
        """Return how many of these nodes run nothing."""
        residents = self._draft.ledger().residents
        return sum(count for index, count in parts if not residents[index])
