"""What running jobs leave free on shared nodes over time, by class of nodes, if each of them ends at a given instant.

One pass works with two outlooks: ends by requested times, on which promises rest, and expected ends. Everything is
computed for all classes at once, because a machine of thousands of nodes has hundreds of classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.core.ledger import Ledger, Parts, Takes
from cohabit.model.cluster import Window
from cohabit.model.units import FOREVER

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
OTHERS = -1  # the row of jobs that are not the core's
NO_OTHERS: Mapping[int, int] = {}


class Booking(NamedTuple):
    """What a promise takes on each of its nodes, and when."""

    row: int
    begin_us: int
    end_us: int
    takes: Takes


class Want(NamedTuple):
    """What a job asks for: so many nodes, what it takes on each, for how long; beside which rows it may not run."""

    takes: Takes
    nodes: int
    length_us: int
    strangers: Flags | None = None


class Residents(NamedTuple):
    """All jobs on the nodes of a ledger, class after class: one entry for each job of each class, and one for all jobs
    there that are not the core's, if it is known when they end."""

    rows: Ints  # OTHERS: those that are not the core's
    classes: Ints
    first: Ints  # where those of a class begin
    takes: Ints  # on each node, by dimension
    until_us: Ints  # when those that are not the core's end


def residents_of(ledger: Ledger, others_until: Mapping[int, int] = NO_OTHERS) -> Residents:
    """List the jobs of all classes. `others_until`: by node, when jobs there that are not the core's are to end."""
    others = _others_in(ledger, others_until) if others_until else {}
    used = [index for index in ledger.classes() if ledger.residents[index] or index in others]
    lists = [ledger.residents[index] + ((OTHERS,) if index in others else ()) for index in used]
    sizes = np.array([len(one) for one in lists], np.int64)
    rows = np.fromiter(chain.from_iterable(lists), np.int64, int(sizes.sum()))
    takes = [np.zeros((0, len(ledger.dimensions)), np.int64)]
    for index in used:
        takes.append(ledger.booked[index])
        if index in others:
            whole = ledger.capacity[ledger.kind[index]]
            takes.append((whole - ledger.booked[index].sum(axis=0) - ledger.free[:, index])[None])
    classes = np.repeat(np.array(used, np.int64), sizes)
    until_us = np.array([others.get(index, 0) for index in classes.tolist()] if others else np.zeros(len(rows)))
    first = np.cumsum(sizes) - sizes
    return Residents(rows, classes, first, np.concatenate(takes).T.copy(), until_us.astype(np.int64))


def _others_in(ledger: Ledger, others_until: Mapping[int, int]) -> dict[int, int]:
    """Return by class when jobs that are not the core's have left all its nodes; no class where that is not known."""
    found = {}
    for index in {ledger.class_of(node) for node in others_until}:
        ends = [others_until.get(node, FOREVER) for node in ledger.nodes_in_class(index).tolist()]
        if ledger.up[index] and max(ends) < FOREVER:
            found[index] = max(ends)
    return found


class Closed(NamedTuple):
    """When a job may not begin: from begin_us until before end_us, by class; such stretches of a class are disjoint."""

    begin_us: Ints
    end_us: Ints
    classes: Ints


class Outlook:
    """The classes of a ledger and when their residents leave; `ends_us` is by row of the job table."""

    def __init__(
        self,
        ledger: Ledger,
        residents: Residents,
        ends_us: Ints,
        now_us: int,
        windows_of: Sequence[tuple[Window, ...]],
    ) -> None:
        self.ledger, self.now_us, self.windows_of = ledger, now_us, windows_of
        ends_us = np.where(residents.rows == OTHERS, residents.until_us, ends_us[residents.rows])
        self._residents, self._ends = residents, np.maximum(ends_us, now_us)
        self._windows = any(windows_of)

    @cached_property
    def _order(self) -> Ints:
        """The residents of each class, those first that leave first."""
        return np.lexsort((self._ends, self._residents.classes))

    @cached_property
    def ends(self) -> Ints:
        """When they leave, in this order."""
        return self._ends[self._order]

    @cached_property
    def _freed(self) -> Ints:
        """What is free on a node of its class when each of them has left, by dimension."""
        _, classes, first, takes, _ = self._residents
        gone = np.cumsum(takes[:, self._order], axis=1)
        sizes = np.diff(np.append(first, len(classes)))
        before = np.where(first > 0, gone[:, first - 1], 0) if len(first) else gone
        freed: Ints = self.ledger.free[:, classes] + gone - np.repeat(before, sizes, axis=1)
        return freed

    def room_at(self, instant_us: int) -> Ints:
        """Return what is free on a node of every class at an instant, by dimension."""
        room, (_, classes, first, takes, _) = self.ledger.free.copy(), self._residents
        if len(first):
            room[:, classes[first]] += np.add.reduceat(np.where(self._ends <= instant_us, takes, 0), first, axis=1)
        return room

    def free_from(self, want: Want) -> Ints:
        """Return from when on every class has room for a job if nothing else comes; FOREVER: never."""
        ledger, wanted = self.ledger, self.ledger.wanted(want.takes)
        possible = (wanted[0] >= 0) & ledger.up & (ledger.count > 0)
        since = np.where(possible & (ledger.free >= wanted).all(axis=0), self.now_us, FOREVER)
        rows, classes, starts, *_ = self._residents
        if not len(rows):
            return since
        enough = (self._freed >= wanted[:, classes]).all(axis=0)
        first = np.minimum.reduceat(np.where(enough, self.ends, FOREVER), starts)
        there = classes[starts]
        since[there] = np.where(possible[there], np.minimum(since[there], first), FOREVER)
        if want.strangers is not None:
            among = want.strangers[rows] & (rows != OTHERS)
            last = np.maximum.reduceat(np.where(among, self._ends, self.now_us), starts)
            since[there] = np.maximum(since[there], last)
        return since

    def earliest(self, want: Want, bookings: Sequence[Booking], not_before_us: int = 0) -> tuple[int, Parts] | None:
        """Return the first instant at which a job could begin and run for its whole time, and the nodes for it.

        Of the nodes that have room then, it takes those that have it last: the others stay open to jobs that run now.
        None: there will never be enough.
        """
        since = self.free_from(want)
        able = np.flatnonzero(since < FOREVER)
        count, first_us = self.ledger.count, max(self.now_us, not_before_us)
        if not bookings and not self._windows:  # a class that is open once stays open
            order = able[np.argsort(since[able])]
            last = int(np.searchsorted(np.cumsum(count[order]), want.nodes))
            if last == len(order):
                return None
            begin_us = max(first_us, int(since[order[last]]))
            return begin_us, self._last_free(able[since[able] <= begin_us], since, want.nodes)
        closed = self._closed(since, able, want, bookings)
        instants = np.unique(np.append(closed.end_us[closed.end_us > first_us], first_us))
        shut = np.zeros(len(instants), np.int64)
        for edge, sign in ((closed.begin_us, 1), (closed.end_us, -1)):
            order = np.argsort(edge, kind="stable")
            total = np.append(0, np.cumsum(count[closed.classes[order]]))
            shut += sign * total[np.searchsorted(edge[order], instants, side="right")]
        enough = np.flatnonzero(count[able].sum() - shut >= want.nodes)
        if not len(enough):
            return None
        begin_us = int(instants[enough[0]])
        shut_then = closed.classes[(closed.begin_us <= begin_us) & (begin_us < closed.end_us)]
        open_then = able[~np.isin(able, shut_then)]
        return begin_us, self._last_free(open_then, since, want.nodes)

    def _last_free(self, classes: Ints, since: Ints, nodes: int) -> Parts:
        """Return nodes of these classes, those first that become free last."""
        ledger, parts = self.ledger, []
        for index in classes[
            np.lexsort((ledger.first[classes], ledger.occupied[classes], since[classes]))[::-1]
        ].tolist():
            parts.append((index, min(nodes, int(ledger.count[index]))))
            nodes -= parts[-1][1]
            if not nodes:
                break
        return tuple(parts)

    def _closed(self, since: Ints, able: Ints, want: Want, bookings: Sequence[Booking]) -> Closed:
        """Return when the job may not begin, by class, among the classes on which it may run at all."""
        by_row = {one.row: one for one in bookings}
        special = [
            index
            for index in able.tolist()
            if self.windows_of[self.ledger.kind[index]]
            or (by_row and not by_row.keys().isdisjoint(self.ledger.promised[index]))
        ]
        plain = np.setdiff1d(able[since[able] > self.now_us], special, assume_unique=True)
        spans = [(*span, index) for index in special for span in self._spans(index, int(since[index]), want, by_row)]
        begin, end, classes = np.array(spans, np.int64).reshape(-1, 3).T
        return Closed(
            np.append(np.full(len(plain), self.now_us), begin),
            np.append(since[plain], end),
            np.append(plain, classes),
        )

    def _spans(self, index: int, since_us: int, want: Want, by_row: Mapping[int, Booking]) -> list[tuple[int, int]]:
        """Return when the job may not begin on a class: before its residents leave, or into a promise or a window."""
        kind = int(self.ledger.kind[index])
        bad = [(window.begin_us, window.end_us) for window in self.windows_of[kind]]
        bad += self._crowded(index, want, [by_row[row] for row in self.ledger.promised[index] if row in by_row])
        spans = [(begin - want.length_us + 1, end) for begin, end in bad if end > self.now_us]
        merged: list[tuple[int, int]] = []
        for begin, end in sorted([(self.now_us, since_us), *((max(begin, self.now_us), end) for begin, end in spans)]):
            if merged and begin <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(merged[-1][1], end)
            elif begin < end:
                merged.append((begin, end))
        return merged

    def _crowded(self, index: int, want: Want, bookings: Sequence[Booking]) -> list[tuple[int, int]]:
        """Return when promises leave too little room on a class, beside its residents."""
        if not bookings:
            return []
        ledger, kind, here = self.ledger, int(self.ledger.kind[index]), np.flatnonzero(self._residents.classes == index)
        wanted = np.array(want.takes[kind], np.int64)
        taken = [(max(one.begin_us, self.now_us), one.end_us, self._beside(one, kind, want)) for one in bookings]
        edges = {at for begin, end, _ in taken for at in (begin, end)} | set(self.ends[here].tolist())
        instants, bad = sorted(edges), []
        for at_us, until_us in zip(instants, [*instants[1:], FOREVER], strict=True):
            left = here[self.ends[here] <= at_us]
            free = (self._freed[:, left[-1]] if len(left) else ledger.free[:, index]).copy()
            promised = [takes for begin, end, takes in taken if begin <= at_us < end]
            if promised and (free - sum(promised) < wanted).any():
                bad.append((at_us, until_us))
        return bad

    def _beside(self, booking: Booking, kind: int, want: Want) -> Ints:
        """Return what a promise takes on a node of this kind: all of it if the job may not run beside it."""
        if want.strangers is not None and want.strangers[booking.row]:
            everything: Ints = self.ledger.capacity[kind]
            return everything
        return np.array(booking.takes[kind] or (0,) * len(self.ledger.dimensions), np.int64)
