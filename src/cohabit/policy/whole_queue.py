"""What recorded orders may do with all rows at once, in numpy's words: sums, extremes, sorts, ranks, counts.

As in policy/vocabulary.py each function is called with the tape and what numpy would be called with. What is made of
the whole queue is noted as a line that `reduces`; policy/recording.py writes it as a loop, or as a call of a kernel in
core/ranks.py and core/sums.py. Where numpy raises an error (no such place in a sort, weights that come to nothing) a
recorded order goes on with the nearest place, or with what is no number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cohabit.policy.stand_ins import Noted, StandIn, Tape, example_of
from cohabit.policy.vocabulary import astype, edges_passed, understands

REDUCTIONS = {
    np.sum: "sum", np.mean: "mean", np.amax: "max", np.amin: "min", np.max: "max", np.min: "min", np.any: "any",
    np.all: "all", np.median: "median",
}  # fmt: skip


def _reduction(how: str) -> Any:
    def reduced(tape: Tape, value: Any, axis: Any = None) -> Any:
        return reduce(tape, value, how) if axis in (None, 0, -1) else tape.beyond()

    return reduced


for _function, _how in REDUCTIONS.items():
    understands(_function, method="" if _how == "median" else _how)(_reduction(_how))
for _ufunc, _how in (("add", "sum"), ("maximum", "max"), ("minimum", "min")):
    understands(ufunc=(_ufunc, "reduce"))(_reduction(_how))


def reduce(tape: Tape, value: Any, how: str) -> Any:
    """One number made of all rows."""
    value = tape.per_row(value)
    if how in ("any", "all"):
        truth = value if value.example.dtype.kind == "b" else np.not_equal(value, 0)
        return np.not_equal(truth.sum(), 0) if how == "any" else np.equal((~truth).sum(), 0)
    if value.example.dtype.kind == "b" and how not in ("sum", "mean"):
        tape.beyond()
    if how == "median":
        return tape.note(value.stored_type(), [value], np.median(value.example), reduces=how)
    return tape.note(value.example.dtype.name, [value], getattr(value.example, how)(), reduces=how)


@understands(np.var, method="var")
def var(tape: Tape, value: Any, axis: Any = None, ddof: Any = 0) -> Any:
    value = tape.per_row(value, "if")
    if axis not in (None, 0, -1) or ddof not in (0, 1):
        tape.beyond()
    apart = value - value.mean()
    squared = apart * apart
    return squared.mean() if ddof == 0 else squared.sum() / np.maximum(tape.count - ddof, 0)


@understands(np.std, method="std")
def std(tape: Tape, value: Any, axis: Any = None, ddof: Any = 0) -> Any:
    return np.sqrt(var(tape, value, axis, ddof))


@understands(np.ptp)
def ptp(tape: Tape, value: Any) -> Any:
    value = tape.per_row(value, "if")
    return value.max() - value.min()


@understands(np.count_nonzero)
def count_nonzero(tape: Tape, value: Any) -> Noted:
    """A number of Python's own."""
    value = tape.per_row(value)
    truth = value if value.example.dtype.kind == "b" else np.not_equal(value, 0)
    found = truth.sum()
    return Noted(tape, found.name, False, int(found.example))


@understands(np.average)
def average(tape: Tape, value: Any, axis: Any = None, weights: Any = None) -> Any:
    """A mean, or one with weights: their sum is made as one of floating-point numbers."""
    value = tape.per_row(value, "if")
    if axis not in (None, 0, -1):
        tape.beyond()
    if weights is None:
        return value.mean()
    weights = tape.per_row(weights, "if")
    example = weights.example.sum(dtype=float)
    total = tape.note(weights.example.dtype.name, [weights], example, reduces="float_sum")
    return (astype(tape, value, float) * astype(tape, weights, float)).sum() / total


@understands(np.cumsum, method="cumsum")
def cumsum(tape: Tape, value: Any, axis: Any = None) -> Noted:
    """Sums of all rows up to each."""
    value = tape.per_row(value)
    if axis not in (None, 0, -1):
        tape.beyond()
    return tape.note(value.stored_type(), [value], np.cumsum(value.example), reduces="running")


@understands(ufunc=("add", "accumulate"))
def accumulate(tape: Tape, value: Any) -> Any:
    return cumsum(tape, tape.per_row(value, "if"))


# ---- sorts: all that is made of one sort uses the same places ----


def places(tape: Tape, value: Noted) -> Noted:
    """The place of every row in a stable sort."""
    order = np.argsort(value.example, kind="stable")
    found = tape.note(value.stored_type(), [value], np.argsort(order), reduces="places")
    inverse = tape.note(f"{found.name}_order[index]", [found], order)
    tape.inverse.update({found.name: inverse.name, inverse.name: found.name})
    return found


@understands(np.argsort, method="argsort")
def argsort(tape: Tape, value: Any, kind: Any = None, stable: Any = None) -> Noted:
    """The order of a sort that is stable: numpy leaves open what others do with equal ones."""
    value = tape.per_row(value)
    if kind not in ("stable", "mergesort") and stable is not True:
        tape.beyond()
    return order_of(tape, value)


def order_of(tape: Tape, value: Noted) -> Noted:
    example = np.argsort(value.example, kind="stable")
    if value.name in tape.inverse:
        return Noted(tape, tape.inverse[value.name], True, example)
    return Noted(tape, tape.inverse[places(tape, value).name], True, example)


@understands(np.lexsort)
def lexsort(tape: Tape, keys: Any, axis: Any = -1) -> Noted:
    """The order of a sort by the last key, where that is equal by the one before, and so on."""
    if not isinstance(keys, tuple | list) or not keys or axis not in (0, -1):
        tape.beyond()
    found = tape.per_row(keys[-1])
    for key in keys[-2::-1]:
        found = _pair(tape, _rank(tape, found), _rank(tape, tape.per_row(key)))
    return order_of(tape, found)


def _rank(tape: Tape, key: Noted) -> Noted:
    """A whole number per row, less than there are rows in the table, that sorts as the key does."""
    example = np.unique(key.example, return_inverse=True)[1]
    if key.name in tape.fixed:
        return tape.note(key.stored_type(), [key], example, reduces="dense")
    return tape.note("int64", [places(tape, key)], example, reduces="below")


def _pair(tape: Tape, first: Noted, second: Noted) -> Noted:
    text = f"({first.name} * capacity + {second.name})"
    return tape.number(text, [first, second], first.example * 3 + second.example)


class Sorted(StandIn):
    """What np.sort gives: only single ones at a place are known, and how many are less than another."""

    def __init__(self, of: Noted) -> None:
        super().__init__(of.tape)
        self.of = of.copy()

    @property
    def size(self) -> Noted:
        """How many there are."""
        return self.of.size

    def __getitem__(self, place: Any) -> Noted:  # type: ignore[override]
        if type(example_of(place)) is not int:
            self.tape.beyond()
        example = np.sort(self.of.example)[example_of(place)]
        return self.tape.note(self.of.stored_type(), [self.of, _as_noted(self.tape, place)], example, reduces="at")

    def __array_function__(self, function: Any, _types: Any, values: Any, options: Any) -> Any:
        return self.tape.ask(searchsorted if function is np.searchsorted else None, *values, **options)

    def searchsorted(self, *values: Any, **options: Any) -> Any:
        """np.searchsorted"""
        return self.tape.ask(searchsorted, self, *values, **options)


def _as_noted(tape: Tape, number: Any) -> Noted:
    """A number of the function's own, with a name."""
    return number if isinstance(number, Noted) else tape.note(tape.term(number), [], number)


@understands(np.sort)
def sort(tape: Tape, value: Any, axis: Any = -1, kind: Any = None, stable: Any = None) -> Sorted:
    """The values in rising order."""
    return Sorted(tape.per_row(value, "if")) if axis in (0, -1) else tape.beyond()


class Parted(Sorted):
    """What np.partition gives: only the one at the place asked for is known."""

    def __init__(self, of: Noted, place: Any) -> None:
        super().__init__(of)
        self.place = place

    def __getitem__(self, place: Any) -> Noted:  # type: ignore[override]
        same = self.tape.term(place) == self.tape.term(self.place)
        return super().__getitem__(place) if same else self.tape.beyond()

    __array_function__ = searchsorted = StandIn._refuse


@understands(np.partition)
def partition(tape: Tape, value: Any, place: Any) -> Parted:
    return Parted(tape.per_row(value, "if"), place)


@understands(np.quantile)
def quantile(tape: Tape, value: Any, q: Any, axis: Any = None, method: str = "linear") -> Any:
    """One or several, each a fraction."""
    value = tape.per_row(value, "if")
    if axis not in (None, 0, -1) or method != "linear":
        tape.beyond()
    if isinstance(q, list | tuple):
        return tuple(quantile(tape, value, float(one)) for one in q)
    if type(example_of(q)) not in (float, np.float64):
        tape.beyond()
    example = np.quantile(value.example, example_of(q))
    return tape.note(value.stored_type(), [value, _as_noted(tape, q)], example, reduces="quantile")


@understands(np.percentile)
def percentile(tape: Tape, value: Any, q: Any, axis: Any = None, method: str = "linear") -> Any:
    if isinstance(q, list | tuple):
        return tuple(percentile(tape, value, one, axis, method) for one in q)
    if type(example_of(q)) not in (int, float, np.float64):
        tape.beyond()
    return quantile(tape, value, q / 100, axis, method)


@understands(np.searchsorted, method="searchsorted")
def searchsorted(tape: Tape, table: Any, value: Any, side: Any = "left") -> Any:
    """How many of a table are less (or not more) than each: of a short one, or of the queue itself in rising order."""
    if side not in ("left", "right"):
        tape.beyond()
    if type(table) is not Sorted:
        return edges_passed(tape, value, table, np.less_equal if side == "left" else np.less)
    value, of = tape.per_row(value, "if"), table.of
    if of.example.dtype != value.example.dtype:
        tape.beyond()
    example = np.searchsorted(np.sort(of.example), value.example, side=side)
    if of.name == value.name:
        return tape.note("int64", [places(tape, of)], example, reduces="below" if side == "left" else "upto")
    found = tape.note(of.stored_type(), [places(tape, of)], np.sort(of.example), reduces="sorted")
    text = f"ranks.passed({found.name}_sorted, {value.name}, {side == 'right'})"
    return tape.note(text, [value], example, fixed=False)


# ---- how many have the same number ----


class _OfDifferent(StandIn):
    """Something numpy knows of the different numbers among the rows."""

    def __init__(self, of: Noted) -> None:
        super().__init__(of.tape)
        self.of = of.copy()


class Different(_OfDifferent):
    """These numbers themselves; only how many there are is known."""

    @property
    def size(self) -> Noted:
        """How many there are."""
        counts = sizes(self.tape, self.of)
        return self.tape.note(f"{counts.name}_different", [], len(np.unique(self.of.example)), fixed=False)


class Inverse(_OfDifferent):
    """For each row, which of them it has."""


class Counts(_OfDifferent):
    """How often each of them is there; with `Inverse`, for each row."""

    def __getitem__(self, inverse: Any) -> Noted:  # type: ignore[override]
        same = type(inverse) is Inverse and inverse.of.name == self.of.name
        return sizes(self.tape, self.of) if same else self.tape.beyond()


class Bins(_OfDifferent):
    """What np.bincount gives, for each row what belongs to its number."""

    def __init__(self, of: Noted, weights: Noted | None) -> None:
        super().__init__(of)
        self.weights = weights

    def __getitem__(self, number: Any) -> Noted:  # type: ignore[override]
        if not isinstance(number, Noted) or number.name != self.of.name:
            self.tape.beyond()
        if self.weights is None:
            return sizes(self.tape, self.of)
        inverse = np.unique(self.of.example, return_inverse=True)[1]
        example = np.bincount(inverse, self.weights.example)[inverse]
        return self.tape.note("int64", [self.of, self.weights], example, reduces="totals")


def sizes(tape: Tape, value: Noted) -> Noted:
    """How many rows have the same number as each."""
    _, inverse, counts = np.unique(value.example, return_inverse=True, return_counts=True)
    return tape.note("int64", [value], counts[inverse], reduces="sizes")


@understands(np.unique)
def unique(tape: Tape, value: Any, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """Of whole numbers: how many there are, and counts[inverse]."""
    value = tape.per_row(value, "i")
    found: list[_OfDifferent] = [Different(value)]
    found += [kind(value) for kind, wanted in ((Inverse, return_inverse), (Counts, return_counts)) if wanted]
    return found[0] if len(found) == 1 else tuple(found)


@understands(np.bincount)
def bincount(tape: Tape, value: Any, weights: Any = None, minlength: int = 0) -> Bins:
    value = tape.per_row(value, "i")
    return Bins(value, None if weights is None else astype(tape, tape.per_row(weights, "if"), float))
