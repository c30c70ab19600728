"""Windows that are announced while the scheduler runs: maintenance, and reservations of operators and managers.

A window closes its nodes to every job that could still run there, by its limit, after the window has begun. A job that
runs already goes on; what must not overlap is stopped by the operator of the window. A new window splits kinds of
nodes (core/kinds.py), so all that is stored by kind is stored anew here. Windows of the past are dropped before a pass.
No job is started or stopped here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from cohabit.core.columns import EXPECTED, HEAD, HOLDING, LIMIT, RELEASED, STATE
from cohabit.core.decide import PROMISES
from cohabit.core.kernels.bundles import CONSERVATIVE
from cohabit.core.kernels.ladder import ROWS
from cohabit.core.kinds import Kinds
from cohabit.core.ledger import Ledger, Nodes, Takes, nodes_in
from cohabit.core.state import State
from cohabit.model.cluster import NodeGroup, Window
from cohabit.model.event import WindowSet
from cohabit.model.node_ranges import ranges_text
from cohabit.model.units import FOREVER, SECOND

if TYPE_CHECKING:
    from cohabit.core.apply import Applier


def set_window(applier: Applier, now_us: int, told: WindowSet) -> bool:
    """Announce a window, or change the one of this name; True if a pass is due."""
    state = applier.state
    if told.end_us <= now_us:
        return clear_window(applier, now_us, told.name)
    if what_is_wrong(state, told):
        return False
    parts = tuple(Window(told.begin_us, told.end_us, first, count, told.name) for first, count in told.nodes)
    if state.windows.get(told.name) == parts:
        return False
    state.windows[told.name] = parts
    _split_anew(state, now_us)
    let_go_in_time(applier, now_us)
    return True


def clear_window(applier: Applier, now_us: int, name: str) -> bool:
    """Drop the window of this name, unless it is over and goes by itself; True if a pass is due."""
    parts = applier.state.windows.get(name)
    if parts is None or parts[0].end_us <= now_us:
        return False
    del applier.state.windows[name]
    _split_anew(applier.state, now_us)
    return True


def what_is_wrong(state: State, told: WindowSet) -> str:
    """Return why the cluster cannot have such a window; empty if it can."""
    last = len(state.node_state) - 1
    for first, count in told.nodes:
        if first < 0 or count < 1 or first + count - 1 > last:
            return f"it names nodes {ranges_text(told.nodes)}, the cluster has 0 to {last}"
    if not told.nodes:
        return "it names no nodes"
    return "it ends before it begins" if told.end_us <= told.begin_us else ""


def drop_past(state: State, now_us: int) -> None:
    """Drop windows that are over. Promises by kind are never moved for that: while there are any, they stay."""
    past = any(parts[0].end_us <= now_us for parts in state.windows.values())
    if not past or (state.depth == CONSERVATIVE and state.queue.meta[ROWS]):
        return
    _split_anew(state, now_us)


def restore(state: State, saved: Mapping[str, Sequence[Any]]) -> None:
    """Set the windows of a checkpoint, in a state that has no jobs yet."""
    state.windows = {name: tuple(msgspec.convert(one, Window) for one in parts) for name, parts in saved.items()}
    if state.windows:
        state.kinds = _kinds(state)
        if state.ledger is not None:
            state.ledger = Ledger(state.kinds, state.ledger.dimensions)


def let_go_in_time(applier: Applier, now_us: int) -> bool:
    """Give back nodes kept for jobs that wait for their mates, if they would now run into a window; True if any."""
    found = [(row, closing(applier.state, row, now_us)) for row in _holding(applier.state)]
    for row, window in found:
        if window is not None:
            applier.let_go(now_us, row, f"{in_words(window)} closes its nodes")
    return any(window is not None for _, window in found)


def next_let_go_us(state: State, now_us: int) -> int:
    """Return the next instant at which kept nodes must be given back for that."""
    found = [
        window.begin_us - max(int(state.jobs[LIMIT, row]), 1) + 1
        for row in _holding(state)
        for kind in _kinds_of(state, row)
        for window in state.kinds.windows_of[kind]
    ]
    return min((instant for instant in found if instant > now_us), default=FOREVER)


def closing(state: State, row: int, now_us: int) -> Window | None:
    """Return the first window that this job would run into, by its limit, if it began now on the nodes it has."""
    if not state.kinds.windows:
        return None
    until_us = now_us + max(int(state.jobs[LIMIT, row]), 1)
    windows = (one for kind in _kinds_of(state, row) for one in state.kinds.windows_of[kind])
    return first_of(windows, now_us, until_us)


def _holding(state: State) -> list[int]:
    if state.coupled is None or not state.kinds.windows:
        return []
    return [row for row in state.rows.values() if state.jobs[STATE, row] == HOLDING]


def _kinds_of(state: State, row: int) -> list[int]:
    return [int(kind) for kind in np.unique(state.kinds.of_node[nodes_in(state.ranges_of(row))])]


def first_of(windows: Iterable[Window], begin_us: int, end_us: int) -> Window | None:
    """Return the first of these windows that closes any of this time."""
    found = (one for one in windows if one.begin_us < end_us and begin_us < one.end_us)
    return min(found, key=lambda one: (one.begin_us, one.end_us, one.first), default=None)


def in_words(window: Window) -> str:
    """Name a window."""
    return f"window {window.name}" if window.name else "a maintenance window"


# ---- what is stored by kind -----------------------------------------------------------------------------------------


def _kinds(state: State) -> Kinds:
    return Kinds(state.cluster, tuple(one for parts in state.windows.values() for one in parts))


def _split_anew(state: State, now_us: int) -> None:
    """Number the kinds anew, without windows of the past, and store by the new numbers all that is stored by kind.
    Promises are made again."""
    state.windows = {name: parts for name, parts in state.windows.items() if parts[0].end_us > now_us}
    old, new = state.kinds, _kinds(state)
    state.kinds = new
    state.usable_kinds.clear()
    state.nodes_by_kind.clear()
    state.kept.clear()
    state.described = state.describe(len(state.specs))
    if state.ledger is not None:
        state.ledger = _ledger_by(state, state.ledger, old, now_us)
    if state.coupled is not None:
        for name, job in state.coupled.agreed if state.ledger is None else ():
            end_us = job.agreed_us + (int(state.jobs[LIMIT, state.rows[name]]) or SECOND)
            job.agreed_kinds = _spread(job.agreed_kinds, old, new, job.agreed_us, end_us)
    state.gauges[RELEASED], state.gauges[HEAD] = 1, -1
    state.void_promises()
    state.memory.pop(PROMISES, None)


def _ledger_by(state: State, old_ledger: Ledger, old: Kinds, now_us: int) -> Ledger:
    """Return the same bookings by the new kinds; nodes that are to be divided anew stay noted."""
    saved, new = old_ledger.save(), state.kinds
    takes: dict[int, Takes] = {}
    for row, booked in old_ledger.takes.items():
        here = set(new.of_node[old_ledger.nodes_of(row)].tolist())
        until_us = max(int(state.jobs[EXPECTED, row]), now_us + 1)
        takes[row] = _takes_by(booked, old, new, here, now_us, until_us)
        state.placed[row] = replace(state.placed[row], takes=takes[row])
    for row, one in state.promises.items():
        by_group = _takes_by(one.ask.takes, old, new, set(range(new.count)), now_us, FOREVER)
        state.promises[row] = replace(one, ask=one.ask._replace(takes=by_group))
    classes = []
    for _, condition, residents, raw, *promised in saved["classes"]:
        for kind, part in _parted(np.frombuffer(raw, "<i4").astype(np.int32), new.of_node):
            classes.append([kind, condition, residents, part.astype("<i4").tobytes(), *promised])
    ledger = Ledger(new, old_ledger.dimensions)
    ledger.load(saved | {"classes": classes, "takes": [[row, booked] for row, booked in takes.items()]})
    return ledger


def _parted(nodes: Nodes, by: Nodes) -> list[tuple[int, Nodes]]:
    """Part nodes by a number that each of them has."""
    numbers = by[nodes]
    return [(number, nodes[numbers == number]) for number in np.unique(numbers).tolist()]


def _takes_by(booked: Takes, old: Kinds, new: Kinds, here: set[int], now_us: int, until_us: int) -> Takes:
    """Return what a running job takes on a node of each new kind: where it runs, and where it might move to."""
    known: dict[NodeGroup, tuple[int, ...]] = {}
    for group, one in zip(old.groups, booked, strict=True):
        if one:
            known.setdefault(group, one)
    return tuple(
        known.get(group, ()) if kind in here or first_of(windows, now_us, until_us) is None else ()
        for kind, (group, windows) in enumerate(zip(new.groups, new.windows_of, strict=True))
    )


def _spread(counts: Sequence[int], old: Kinds, new: Kinds, begin_us: int, end_us: int) -> tuple[int, ...]:
    """Return nodes of the same groups by the new kinds, first of those that are open at that time."""
    left = Counter[NodeGroup]()
    for group, count in zip(old.groups, counts, strict=True):
        left[group] += count
    found = [0] * new.count
    for kind in sorted(range(new.count), key=lambda k: first_of(new.windows_of[k], begin_us, end_us) is not None):
        found[kind] = min(left[new.groups[kind]], int(new.size[kind]))
        left[new.groups[kind]] -= found[kind]
    return tuple(found)
