"""The ledger of shared nodes: what is booked on each, kept in classes of nodes that no decision can tell apart.

Nodes of one kind, in one condition, with the same residents, on which the same promises count (core/promises.py), form
a class; a job on 4,096 otherwise idle nodes is one class. A search looks at classes, never at nodes, so its cost
follows the number of different situations on the machine and not its size. Bookings are whole numbers per node in any
number of dimensions (cores, ways, MB/s, ...); the placement policy defines what a dimension means. Nothing here knows
profiles or scores beyond a weighted sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.kinds import Kinds
from cohabit.model.plan import Ranges
from cohabit.model.resources import Dimension

Nodes = NDArray[np.int32]  # node numbers, rising
Key = tuple[int, int, tuple[int, ...], tuple[int, ...]]  # kind, condition, residents, promised
Parts = tuple[tuple[int, int], ...]  # (class, how many of its nodes), the lowest-numbered ones
Takes = tuple[tuple[int, ...], ...]  # what a job books on a node, by kind and dimension
UP = 0
STATES = 4  # a condition: whether the node is up, drained or down, and above that what others use of it
DIGITS = 9  # decimals of an occupation: equal occupations must compare equal despite rounding
_ARRAYS = ("free", "count", "kind", "up", "occupied", "first")
_LISTS = ("nodes", "residents", "booked", "condition", "promised", "spare")
_TABLES = ("by_key", "takes", "classes_of", "promised_in")


class Ledger:
    """All nodes of a cluster by class, and what each running job has booked on its nodes."""

    def __init__(self, kinds: Kinds, dimensions: Sequence[Dimension]) -> None:
        self.dimensions = tuple(dimensions)
        self.capacity = np.array([[d.capacity(group) for d in dimensions] for group in kinds.groups], np.int64)
        self.weights = tuple(dimension.weight for dimension in dimensions)
        room = 16
        self.free = np.zeros((len(dimensions), room), np.int64)  # free on every node of the class
        self.count = np.zeros(room, np.int64)  # nodes in the class; 0: the entry is unused
        self.kind = np.zeros(room, np.int64)
        self.up = np.zeros(room, bool)
        self.occupied = np.zeros(room)  # weighted sum of occupied fractions: the smaller, the idler
        self.first = np.zeros(room, np.int64)  # lowest node number, which breaks ties
        self.nodes: list[Nodes | None] = [None] * room
        self.residents: list[tuple[int, ...]] = [()] * room  # rows, in order of arrival
        self.booked: list[NDArray[np.int64]] = [np.zeros((0, len(dimensions)), np.int64)] * room  # by these, in order
        self.condition: list[int] = [UP] * room
        self.promised: list[tuple[int, ...]] = [()] * room  # rows of waiting jobs whose promises count on these nodes
        self.by_key: dict[Key, int] = {}
        self.spare = list(range(room - 1, -1, -1))
        self.class_at = np.zeros(len(kinds.of_node), np.int32)  # by node
        self.takes: dict[int, Takes] = {}  # row -> what it booked
        self.classes_of: dict[int, tuple[int, ...]] = {}  # row -> classes its nodes are in
        self.promised_in: dict[int, tuple[int, ...]] = {}  # row of a waiting job -> classes its promise counts on
        self.touched: dict[int, list[Nodes]] = {}  # class -> nodes that came into it since the last query
        for kind in range(len(kinds.groups)):
            self._put((kind, UP, (), ()), np.flatnonzero(kinds.of_node == kind).astype(np.int32))

    # ---- reading ----------------------------------------------------------------------------------------------------

    def classes(self) -> list[int]:
        """The classes in use."""
        return list(np.flatnonzero(self.count).tolist())

    def nodes_in_class(self, index: int) -> Nodes:
        """The nodes of a class in use."""
        nodes = self.nodes[index]
        assert nodes is not None
        return nodes

    def nodes_of(self, row: int) -> Nodes:
        """The nodes of a running job."""
        return self._nodes_in(self.classes_of.get(row, ()))

    def nodes_promised_to(self, row: int) -> Nodes:
        """The nodes that a waiting job's promise counts on."""
        return self._nodes_in(self.promised_in.get(row, ()))

    def _nodes_in(self, classes: Sequence[int]) -> Nodes:
        parts = [self.nodes_in_class(index) for index in classes]
        return np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int32)

    def wanted(self, takes: Takes) -> NDArray[np.int64]:
        """Return what such a job takes on a node of every class, by dimension; -1 where it may not run."""
        found = np.array([one or (-1,) * len(self.dimensions) for one in takes], np.int64)
        return found[self.kind].T if len(found) > 1 else found.T.repeat(len(self.kind), axis=1)

    def open_to(self, classes: NDArray[np.bool_]) -> Ledger:
        """Return the same ledger, to be searched only, in which all other classes count as closed."""
        view = object.__new__(Ledger)
        view.__dict__.update(self.__dict__)
        view.up = self.up & classes
        return view

    def class_of(self, node: int) -> int:
        """The class a node is in."""
        return int(self.class_at[node])

    def others_on(self, node: int) -> tuple[int, int]:
        """Return the cores and the MiB of memory that jobs use on a node which are not the core's."""
        return used_in(self.condition[self.class_of(node)])

    def rows_on(self, node: int) -> tuple[int, ...]:
        """Return the rows of the jobs that run on a node."""
        return self.residents[self.class_of(node)]

    def suitable(self, takes: Takes) -> NDArray[np.bool_]:
        """Return which classes have room on each of their nodes; a kind with nothing in `takes` is not used."""
        wanted = self.wanted(takes)
        fits: NDArray[np.bool_] = (self.free >= wanted).all(axis=0) & (wanted[0] >= 0) & self.up & (self.count > 0)
        return fits

    def room(self, takes: Takes) -> int:
        """Return how many nodes have room for such a job now."""
        return int(self.count[self.suitable(takes)].sum())

    def rooms(self, wanted: Sequence[Takes]) -> NDArray[np.int64]:
        """Return `room` for many takes at once."""
        found, dimensions = np.zeros(len(wanted), np.int64), len(self.dimensions)
        used = np.flatnonzero((self.count > 0) & self.up)
        for kind in np.unique(self.kind[used]).tolist():
            takes = np.array([one[kind] or (-1,) * dimensions for one in wanted], np.int64).reshape(-1, dimensions)
            here = used[
                (self.kind[used] == kind) & (self.free[0, used] >= takes[:, 0].min(initial=0, where=takes[:, 0] >= 0))
            ]
            fits = np.repeat(takes[:, :1] >= 0, len(here), axis=1)
            for dimension in range(dimensions):
                fits &= self.free[dimension, here] >= takes[:, dimension, np.newaxis]
            found += fits @ self.count[here]
        return found

    def find(self, takes: Takes, nodes: int) -> Parts | None:
        """Find enough nodes with room, the idlest, out of one group of equal idle cores if one is enough (S28 to S30).

        If several groups are, take the one whose nodes are idlest in total, then the one with more idle cores. Of
        equally idle nodes take the lowest-numbered.
        """
        fits = np.flatnonzero(self.suitable(takes))
        if self.count[fits].sum() < nodes:
            return None
        idle_cores = self.free[0, fits]
        best: tuple[float, int, Parts] | None = None
        for cores in set(idle_cores.tolist()):
            group = fits[idle_cores == cores]
            if self.count[group].sum() >= nodes:
                load, parts = self._idlest(group, nodes)
                if best is None or (load, -cores) < best[:2]:
                    best = (load, -cores, parts)
        return best[2] if best is not None else self._idlest(fits, nodes)[1]

    def _idlest(self, classes: NDArray[np.int64], nodes: int) -> tuple[float, Parts]:
        """Return the `nodes` least occupied nodes of these classes, and their total occupation."""
        order = classes[np.lexsort((self.first[classes], self.occupied[classes]))]
        occupied, counts = self.occupied[order], self.count[order]
        parts: list[tuple[int, int]] = []
        load, begin = 0.0, 0
        while nodes:
            end = int(np.searchsorted(occupied, occupied[begin], side="right"))  # all classes that are equally idle
            equal, available = order[begin:end].tolist(), int(counts[begin:end].sum())
            taken = min(nodes, available)
            if taken == available or len(equal) == 1:
                parts += [(index, min(taken, int(self.count[index]))) for index in equal]
            else:
                parts += self._lowest_numbered(equal, taken)
            load += taken * float(occupied[begin])
            nodes, begin = nodes - taken, end
        return round(load, DIGITS), tuple(parts)

    def _lowest_numbered(self, classes: list[int], nodes: int) -> list[tuple[int, int]]:
        """Return the lowest-numbered `nodes` nodes of several classes, which are sorted by their lowest node."""
        classes = classes[:nodes]  # this many nodes are in at most this many classes, the first ones
        lists = [self.nodes_in_class(index)[:nodes] for index in classes]
        last = np.partition(np.concatenate(lists), nodes - 1)[nodes - 1]
        counts = [int(one.searchsorted(last, side="right")) for one in lists]
        return [(index, count) for index, count in zip(classes, counts, strict=True) if count]

    def lowest(self, parts: Parts) -> Nodes:
        """Return the nodes of these parts."""
        return np.sort(np.concatenate([self.nodes_in_class(index)[:count] for index, count in parts]))

    def parts_of(self, ranges: Ranges) -> Parts | None:
        """Return these nodes as parts; None if they are not the lowest-numbered ones of their classes."""
        nodes = nodes_in(ranges)
        if not len(nodes) or nodes[0] < 0 or nodes[-1] >= len(self.class_at):
            return None
        classes, counts = np.unique(self.class_at[nodes], return_counts=True)
        parts = tuple(zip(classes.tolist(), counts.tolist(), strict=True))
        return parts if np.array_equal(self.lowest(parts), nodes) else None

    def holds(self, parts: Parts, takes: Takes) -> bool:
        """Whether these parts can still be booked."""
        fits, classes = self.suitable(takes), {index for index, _ in parts}
        return len(classes) == len(parts) > 0 and all(
            0 <= index < len(fits) and fits[index] and 0 < count <= self.count[index] for index, count in parts
        )

    # ---- changing ---------------------------------------------------------------------------------------------------

    def book(self, row: int, parts: Parts, takes: Takes) -> Nodes:
        """Book nodes for the job and return them."""
        self.takes[row] = takes
        self.classes_of[row] = ()
        moved = [(self._key(index), index, self._cut(index, count)) for index, count in parts]
        for (kind, condition, residents, promised), _, nodes in moved:
            self._put((kind, condition, (*residents, row), promised), nodes)
        for _, index, _ in moved:
            self._drop_if_empty(index)
        self.unpromise(row)  # a promise ends with the start
        return np.sort(np.concatenate([nodes for _, _, nodes in moved]))

    def release(self, row: int) -> None:
        """Remove the job's bookings."""
        for index in self.classes_of.pop(row):
            nodes, (kind, condition, residents, promised) = self.nodes_in_class(index), self._key(index)
            self._remove(index)
            self._put((kind, condition, _without(row, residents), promised), nodes)
        del self.takes[row]

    def promise(self, row: int, parts: Parts) -> None:
        """Note that a promise to a waiting job counts on these nodes; nothing is booked."""
        self.promised_in[row] = ()
        for index, count in parts:
            kind, condition, residents, promised = self._key(index)
            self._relabel(index, count, (kind, condition, residents, tuple(sorted((*promised, row)))))

    def unpromise(self, row: int) -> None:
        """Note that a job has no promise any more."""
        for index in self.promised_in.pop(row, ()):
            kind, condition, residents, promised = self._key(index)
            self._relabel(index, int(self.count[index]), (kind, condition, residents, _without(row, promised)))

    def _relabel(self, index: int, count: int, key: Key) -> None:
        """Move nodes to another class with the same residents: they are not touched by that."""
        came = self.touched.get(index, ())
        nodes = self._cut(index, count)
        self._drop_if_empty(index)
        target = self._put(key, nodes, came=False)
        for one in came:
            if len(moved := one[np.isin(one, nodes, assume_unique=True)]):
                self.touched.setdefault(target, []).append(moved)

    def move(self, row: int, node: int) -> bool:
        """Move a job that has one node to another; return False and change nothing if that is not possible."""
        takes, target = self.takes[row], self.class_of(node)
        if len(self.nodes_of(row)) != 1 or row in self.residents[target] or not self.suitable(takes)[target]:
            return False
        self.release(row)
        self.takes[row], self.classes_of[row] = takes, ()
        kind, condition, residents, promised = self._take_out(node)
        self._put((kind, condition, (*residents, row), promised), np.array([node], np.int32))
        return True

    def set_condition(self, node: int, condition: int) -> None:
        """Set the condition of a node: it came up, is drained or is lost; with `used_by_others`, what others have."""
        kind, _, residents, promised = self._take_out(node)
        self._put((kind, condition, residents, promised), np.array([node], np.int32))

    def draft(self) -> Ledger:
        """Return a copy to plan on; node lists are never changed in place, so they are shared."""
        copy = object.__new__(Ledger)
        copy.__dict__.update(self.__dict__)
        for name in _ARRAYS:
            setattr(copy, name, getattr(self, name).copy())
        for name in _LISTS:
            setattr(copy, name, list(getattr(self, name)))
        for name in _TABLES:
            setattr(copy, name, dict(getattr(self, name)))
        copy.class_at, copy.touched = self.class_at.copy(), {}
        return copy

    def locked(self) -> Ledger:
        """Return the same ledger for reading only; a draft of it can be changed again."""
        view = object.__new__(Ledger)
        view.__dict__.update(self.__dict__)
        for name in (*_ARRAYS, "class_at"):
            array: NDArray[Any] = getattr(self, name).view()
            array.flags.writeable = False
            setattr(view, name, array)
        for name in _LISTS:
            setattr(view, name, tuple(getattr(self, name)))
        for name in (*_TABLES, "touched"):
            setattr(view, name, MappingProxyType(getattr(self, name)))
        return view

    # ---- classes ----------------------------------------------------------------------------------------------------

    def _key(self, index: int) -> Key:
        return int(self.kind[index]), self.condition[index], self.residents[index], self.promised[index]

    def _take_out(self, node: int) -> Key:
        """Take a node out of its class; return the key of the class."""
        index = self.class_of(node)
        found = self._key(index)
        nodes = self.nodes_in_class(index)
        if len(nodes) == 1:
            self._remove(index)
        else:
            self.nodes[index] = rest = nodes[nodes != node]
            self.count[index], self.first[index] = len(rest), rest[0]
        return found

    def _put(self, key: Key, nodes: Nodes, came: bool = True) -> int:
        """Add nodes to the class they now belong to, and return it; `came`: their residents have changed."""
        index = self.by_key.get(key)
        nodes.flags.writeable = False
        if index is None:
            index = self._new(key)
            self.by_key[key] = index
            self.nodes[index] = nodes
        else:
            self.nodes[index] = np.sort(np.concatenate([self.nodes_in_class(index), nodes]), kind="stable")
        self.class_at[nodes] = index
        self.count[index], self.first[index] = len(self.nodes_in_class(index)), self.nodes_in_class(index)[0]
        if came:
            self.touched.setdefault(index, []).append(nodes)
        return index

    def _new(self, key: Key) -> int:
        kind, condition, residents, promised = key
        if not self.spare:
            self._grow()
        index = self.spare.pop()
        booked = np.array([self.takes[row][kind] for row in residents], np.int64).reshape(-1, len(self.dimensions))
        capacity = self.capacity[kind]
        self.free[:, index] = capacity - booked.sum(axis=0)
        if condition >= STATES:  # both may have come at the same time
            used = dict(zip(("cores", "memory"), used_in(condition), strict=True))
            taken = np.array([used.get(one.name, 0) for one in self.dimensions], np.int64)
            self.free[:, index] = np.maximum(self.free[:, index] - taken, 0)
        assert (self.free[:, index] >= 0).all(), f"overbooked: {self.free[:, index]} left for {residents}"
        fractions = (
            weight * (int(whole) - int(left)) / max(int(whole), 1)
            for weight, whole, left in zip(self.weights, capacity, self.free[:, index], strict=True)
        )
        self.occupied[index] = round(sum(fractions), DIGITS)
        self.kind[index], self.up[index], self.condition[index] = kind, condition % STATES == UP, condition
        self.residents[index], self.booked[index], self.promised[index] = residents, booked, promised
        for row in residents:
            self.classes_of[row] += (index,)
        for row in promised:
            self.promised_in[row] += (index,)
        return index

    def _cut(self, index: int, count: int) -> Nodes:
        """Take the lowest-numbered nodes out of a class; it may be empty for a moment."""
        nodes = self.nodes_in_class(index)
        self.nodes[index] = nodes[count:]
        self.count[index] = len(nodes) - count
        if count < len(nodes):
            self.first[index] = nodes[count]
        return nodes[:count]

    def _drop_if_empty(self, index: int) -> None:
        if self.count[index] == 0 and self.nodes[index] is not None:
            self._remove(index)

    def _remove(self, index: int) -> None:
        del self.by_key[self._key(index)]
        for rows, table in ((self.residents[index], self.classes_of), (self.promised[index], self.promised_in)):
            for row in rows:
                if row in table:
                    table[row] = _without(index, table[row])
        self.nodes[index], self.residents[index], self.promised[index], self.count[index] = None, (), (), 0
        self.touched.pop(index, None)
        self.spare.append(index)

    def _grow(self) -> None:
        old = len(self.count)
        for name in _ARRAYS:
            array: NDArray[Any] = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros_like(array)], axis=-1))
        self.nodes += [None] * old
        self.residents += [()] * old
        self.booked += self.booked[:1] * old
        self.condition += [UP] * old
        self.promised += [()] * old
        self.spare = list(range(2 * old - 1, old - 1, -1))

    # ---- checkpoints ------------------------------------------------------------------------------------------------

    def save(self) -> dict[str, Any]:
        """Return the ledger as plain data."""
        order = sorted(self.classes(), key=lambda index: int(self.first[index]))
        classes = [
            [
                int(self.kind[i]),
                self.condition[i],
                list(self.residents[i]),
                self.nodes_in_class(i).astype("<i4").tobytes(),
                *([list(self.promised[i])] if self.promised[i] else []),
            ]
            for i in order
        ]
        saved: dict[str, Any] = {"classes": classes, "takes": [[row, takes] for row, takes in self.takes.items()]}
        if self.touched:
            nodes = np.unique(np.concatenate([one for came in self.touched.values() for one in came]))
            saved["touched"] = nodes.astype("<i4").tobytes()
        return saved

    def load(self, data: dict[str, Any]) -> None:
        """Restore saved data, in a ledger made for the same cluster."""
        for index in self.classes():
            self._remove(index)
        self.takes = {row: tuple(tuple(one) for one in takes) for row, takes in data["takes"]}
        self.classes_of = dict.fromkeys(self.takes, ())
        self.promised_in = {row: () for one in data["classes"] for row in (one[4] if len(one) > 4 else ())}
        for kind, condition, residents, raw, *promised in data["classes"]:
            key = (kind, condition, tuple(residents), tuple(promised[0]) if promised else ())
            self._put(key, np.frombuffer(raw, "<i4").astype(np.int32))
        self.touched = {}
        if "touched" in data:
            nodes = np.frombuffer(data["touched"], "<i4").astype(np.int32)
            for index in np.unique(self.class_at[nodes]).tolist():
                self.touched[index] = [nodes[self.class_at[nodes] == index]]


def used_by_others(cores: int, memory_mib: int) -> int:
    """Return what the condition of a node that is up is more by, if others use so much of it."""
    return ((max(memory_mib, 0) << 20) + min(max(cores, 0), (1 << 20) - 1)) * STATES


def used_in(condition: int) -> tuple[int, int]:
    """The inverse: cores and MiB of memory."""
    used = condition // STATES
    return used & ((1 << 20) - 1), used >> 20


def _without(one: int, numbers: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(number for number in numbers if number != one)


def ranges_of(nodes: Nodes) -> Ranges:
    """Return rising node numbers as (first, count) ranges."""
    if not len(nodes):
        return ()
    breaks = np.flatnonzero(np.diff(nodes) != 1) + 1
    firsts = nodes[np.concatenate([[0], breaks])].tolist()
    counts = np.diff(np.concatenate([[0], breaks, [len(nodes)]])).tolist()
    return tuple(zip(firsts, counts, strict=True))


def nodes_in(ranges: Iterable[tuple[int, int]]) -> Nodes:
    """The inverse of `ranges_of`."""
    parts = [np.arange(first, first + count, dtype=np.int32) for first, count in ranges]
    return np.concatenate(parts) if parts else np.empty(0, np.int32)
