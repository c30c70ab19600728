"""The numpy a recorded order sees: arrays as long as the queue are noted, tables of columns kept column by column.

Only what numpy itself would not hand over to the stand-ins, or what policy/settled.py settles, has its own form here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cohabit.policy.settled import LONGEST_SUM, SETTLED, contraction, from_left_to_right
from cohabit.policy.stand_ins import FUNCTIONS, NUMBER_TYPES, OF_A_NUMBER, Noted, StandIn, Tape, example_of
from cohabit.policy.vocabulary import astype, filled, interp, to_float
from cohabit.policy.whole_queue import REDUCTIONS, lexsort

MOST_PRODUCTS = 512  # of columns with weights, in one product
REDUCED = {np.add: "sum", np.maximum: "max", np.minimum: "min"}
OF_TRUTHS = (np.logical_and, np.logical_or, np.bitwise_and, np.bitwise_or)


class Stacked(np.lib.mixins.NDArrayOperatorsMixin, StandIn):
    """A table of columns, a row per job, or of rows, a column per job (`lying`)."""

    is_asked_first = True

    def __init__(self, tape: Tape, columns: list[Noted], lying: bool) -> None:
        super().__init__(tape)
        self.columns, self.lying = columns, lying

    __hash__ = StandIn._refuse

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what type the numbers are."""
        return self.columns[0].dtype

    @property
    def T(self) -> Stacked:
        """The other way round."""
        return Stacked(self.tape, self.columns, not self.lying)

    def __getitem__(self, key: Any) -> Any:
        """One of its columns, or of its rows if it is lying."""
        if type(key) is tuple and len(key) == 2:
            whole, place = key if not self.lying else key[::-1]
            key = place if type(whole) is slice and whole == slice(None) else None
        elif not self.lying:
            key = None
        count = len(self.columns)
        return self.columns[key] if type(key) is int and -count <= key < count else self.tape.beyond()

    def dot(self, weights: Any) -> Any:
        """As the operator @."""
        return product(self.tape, self, weights)

    def sum(self, axis: Any = None) -> Any:
        """Of its columns, from left to right; and so are these:"""
        return self._joined(np.add, axis)

    def mean(self, axis: Any = None) -> Any:
        return self._joined(np.add, axis) / len(self.columns)

    def average(self, axis: Any = None, weights: Any = None) -> Any:
        """Of its columns, with weights."""
        if weights is None:
            return self.mean(axis)
        self._check(axis)
        numbers = _numbers(weights)
        return _weighted(self.tape, self, numbers) / np.array(numbers, float).sum()

    def max(self, axis: Any = None) -> Any:
        return self._joined(np.maximum, axis)

    def min(self, axis: Any = None) -> Any:
        return self._joined(np.minimum, axis)

    def __array_function__(self, function: Any, _types: Any, values: Any, options: Any) -> Any:
        name = REDUCTIONS.get(function, "average" if function is np.average else "")
        known = name in ("sum", "mean", "max", "min", "average") and values[0] is self
        return getattr(self, name)(*values[1:], **options) if known else self.tape.beyond()

    def _check(self, axis: Any) -> None:
        """Whether this is the one on which the columns are."""
        if type(axis) is not int or axis not in ((0, -2) if self.lying else (1, -1)):
            self.tape.beyond()

    def _joined(self, ufunc: np.ufunc, axis: Any) -> Any:
        self._check(axis)
        truths = ufunc is np.add and self.columns[0].dtype == np.bool_  # they are counted
        columns = [astype(self.tape, column, int) if truths else column for column in self.columns]
        total = columns[0].copy()
        for column in columns[1:]:
            total = ufunc(total, column)
        return total

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        target = options.pop("out", (None,))[0]
        if method != "__call__" or options:
            self.tape.beyond()
        if ufunc is np.matmul:
            return product(self.tape, *inputs) if target is None else self.tape.beyond()
        beside = [self._beside(one) for one in inputs]
        power = ufunc is np.power and type(inputs[1]) in (int, float)
        if ufunc is np.power and not power:
            self.tape.beyond()
        found = [one[0] ** one[1] if power else ufunc(*one) for one in zip(*beside, strict=True)]
        if target is None:
            return Stacked(self.tape, found, self.lying)
        if not isinstance(target, Stacked) or target.lying != self.lying or len(target.columns) != len(found):
            self.tape.beyond()
        for old, new in zip(target.columns, found, strict=True):
            old.put_into(old, new)
        return target

    def _beside(self, value: Any) -> list[Any]:
        """What stands beside each column when the two are taken element by element."""
        count = len(self.columns)
        if isinstance(value, Stacked):
            return value.columns if value.lying == self.lying and len(value.columns) == count else self.tape.beyond()
        if isinstance(value, Noted):
            return [value] * count if self.lying or not value.per_row else self.tape.beyond()
        if isinstance(value, bool | int | float | np.number):
            return [value] * count
        numbers = _numbers(value)
        return numbers if len(numbers) == count and not self.lying else self.tape.beyond()


class Weights(StandIn):
    """A short array of numbers, some of them parameters."""

    def __init__(self, tape: Tape, numbers: list[Any]) -> None:
        super().__init__(tape)
        self.numbers = numbers

    def dot(self, table: Any) -> Any:
        """As the operator @."""
        return product(self.tape, self, table)

    def __matmul__(self, table: Any) -> Any:
        return product(self.tape, self, table)


def _numbers(value: Any) -> list[Any]:
    """Of a short array; none of anything else."""
    if isinstance(value, Weights):
        return value.numbers
    array = np.asarray(value) if isinstance(value, list | tuple | np.ndarray) else np.zeros(0)
    return list(array) if array.ndim == 1 and array.dtype in NUMBER_TYPES[1:] else []


def product(tape: Tape, one: Any, other: Any) -> Any:
    """A table of columns times weights, or weights times a table of rows; several weights each make a table."""
    standing = isinstance(one, Stacked) and not one.lying
    table, weights = (one, other) if standing else (other, one)
    if not isinstance(table, Stacked) or table.lying == standing or isinstance(weights, Stacked):
        tape.beyond()
    if isinstance(weights, np.ndarray) and weights.ndim == 2:
        sets = [_numbers(np.asarray(one)) for one in (weights.T if standing else weights)]
        if not 0 < weights.size <= MOST_PRODUCTS:
            tape.beyond()
        return Stacked(tape, [_weighted(tape, table, numbers) for numbers in sets], table.lying)
    return _weighted(tape, table, _numbers(weights))


def _weighted(tape: Tape, table: Stacked, numbers: list[Any]) -> Any:
    """The columns with their weights, added from left to right."""
    if len(numbers) != len(table.columns) or len(numbers) > LONGEST_SUM:
        tape.beyond()
    return from_left_to_right([column.copy() for column in table.columns], numbers)


class NumberType:
    """`int`, `float` or `np.float64` as a recorded order sees it: called with what is noted, else the type it names."""

    def __init__(self, tape: Tape, kind: type) -> None:
        self.tape, self.kind, self.dtype = tape, kind, np.dtype(kind)

    def __call__(self, *values: Any) -> Any:
        if not any(map(_concerns_queue, values)):
            return self.kind(*values)
        return self.tape.ask(float64 if self.kind is np.float64 else FUNCTIONS[self.kind], *values)


class RecordedUfunc:
    """np.maximum and the like: what `reduce` makes of a list of arrays is noted."""

    def __init__(self, tape: Tape, ufunc: np.ufunc) -> None:
        self.tape, self.ufunc = tape, ufunc

    def __call__(self, *values: Any, **options: Any) -> Any:
        return self.ufunc(*values, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ufunc, name)

    def reduce(self, values: Any, *more: Any, **options: Any) -> Any:
        """Of a list, element by element."""
        if type(values) not in (list, tuple) or not _concerns_queue(values):
            return self.ufunc.reduce(values, *more, **options)
        return self.tape.ask(self._of_list, values, *more, **options)

    def _of_list(self, tape: Tape, values: Any, axis: Any = 0) -> Any:
        if self.ufunc in REDUCED:
            return getattr(_stacked(tape, values, lying=True), REDUCED[self.ufunc])(axis)
        if type(axis) is not int or axis not in (0, -2):
            tape.beyond()
        total = tape.per_row(values[0], "b")
        for value in values[1:]:
            total = self.ufunc(total, tape.per_row(value, "b"))
        return total


class RecordedMath:
    """Python's math: what is made of one noted number is noted."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape

    def __getattr__(self, name: str) -> Any:
        function = getattr(math, name)
        if name not in OF_A_NUMBER:
            return function

        def call(*values: Any) -> Any:
            if not any(map(_concerns_queue, values)):
                return function(*values)
            return self.tape.ask(_of_number, name, *values)

        return call


def _of_number(tape: Tape, name: str, value: Any) -> Noted:
    """A number of Python's own; where math raises an error, this goes on with what numpy has."""
    found = to_float(tape, value)
    return tape.number(f"numpy.{name}({found.name})", [found], getattr(math, name)(abs(found.example) + 1.0))


class RecordedNumpy:
    """numpy, as policy/settled.py has it, but what has to do with the queue is noted."""

    def __init__(self, tape: Tape) -> None:
        self.tape, self.float64 = tape, NumberType(tape, np.float64)

    def __getattr__(self, name: str) -> Any:
        function, understood = getattr(SETTLED, name), NEW.get(name)
        if understood is None:
            return RecordedUfunc(self.tape, function) if function in (*REDUCED, *OF_TRUTHS) else function

        def call(*values: Any, **options: Any) -> Any:
            if not any(_concerns_queue(one) for one in (*values, *options.values())):
                return function(*values, **options)
            return self.tape.ask(understood, *values, **options)

        return call


def _concerns_queue(value: Any) -> bool:
    """Whether a stand-in is in it."""
    if type(value) in (list, tuple):
        return any(map(_concerns_queue, value))
    return isinstance(value, StandIn)


def _is_length(tape: Tape, shape: Any) -> bool:
    one = shape[0] if type(shape) is tuple and len(shape) == 1 else shape
    return type(one) is Noted and one.name == "count"


def _made(function: Callable[..., Any]) -> Callable[..., Any]:
    """np.zeros and the like, as long as the queue."""

    def make(tape: Tape, shape: Any, *more: Any, **options: Any) -> Noted:
        if not _is_length(tape, shape):
            tape.beyond()
        if function is np.full and more and isinstance(more[0], Noted):
            if len(more) > 1 or options or more[0].per_row:
                tape.beyond()
            return tape.note(more[0].name, [more[0]], np.full(3, more[0].example), per_row=True)
        return filled(tape, function(3, *more, **options))

    return make


def arange(tape: Tape, *bounds: Any, dtype: Any = int) -> Any:
    """0, 1, 2, ... for all rows, or from another number on."""
    start, stop = bounds if len(bounds) == 2 else (0, *bounds)
    if type(start) is not int or not isinstance(stop, Noted):
        tape.beyond()
    if stop.name not in ({(tape.count + start).name, (start + tape.count).name} if start else {"count"}):
        tape.beyond()
    found = tape.note("numpy.int64(index)", [], np.arange(3), per_row=True, fixed=False)
    tape.numbered.add(found.name)
    return astype(tape, found + start if start else found, dtype)


def column_stack(tape: Tape, columns: Any) -> Stacked:
    return _stacked(tape, columns, lying=False)


def vstack(tape: Tape, rows: Any) -> Stacked:
    return _stacked(tape, rows, lying=True)


def stack(tape: Tape, arrays: Any, axis: Any = 0) -> Stacked:
    if type(axis) is not int or axis not in (0, 1, -1):
        tape.beyond()
    return _stacked(tape, arrays, lying=axis == 0)


def _stacked(tape: Tape, columns: Any, lying: bool) -> Stacked:
    if type(columns) not in (list, tuple):
        tape.beyond()
    kind = np.result_type(*(tape.per_row(column, "if").example for column in columns))
    return Stacked(tape, [astype(tape, column, kind) for column in columns], lying)


def array(tape: Tape, values: Any, dtype: Any = None) -> Any:
    """A copy, a table of rows, or a few numbers."""
    if isinstance(values, Noted) and values.per_row:
        return astype(tape, values, values.dtype if dtype is None else dtype)
    if (dtype is not None and np.dtype(dtype) != np.float64) or type(values) not in (list, tuple):
        tape.beyond()
    if all(isinstance(one, Noted) and one.per_row for one in values):
        rows = _stacked(tape, values, lying=True)
        kind = rows.columns[0].dtype if dtype is None else float
        return Stacked(tape, [astype(tape, one, kind) for one in rows.columns], lying=True)
    examples = [example_of(one) for one in values]
    if not all(type(one) in (int, float, np.float64, np.int64) for one in examples):
        tape.beyond()
    if float not in map(type, examples) and np.float64 not in map(type, examples):
        tape.beyond()  # whole numbers, which may be large
    return Weights(tape, [to_float(tape, one) if isinstance(one, Noted) else float(one) for one in values])


def asarray(tape: Tape, values: Any, dtype: Any = None) -> Any:
    """The values themselves, or as others."""
    if not isinstance(values, Noted) or not values.per_row:
        return array(tape, values, dtype)
    return astype(tape, values, values.dtype if dtype is None else dtype, copy=False)


def float64(tape: Tape, value: Any) -> Any:
    if isinstance(value, Noted) and value.per_row:
        return astype(tape, value, float)
    found = to_float(tape, value)
    return Noted(tape, found.name, False, np.float64(found.example))


def _of_table(function: Callable[..., Any]) -> Callable[..., Any]:
    """np.sum and the like; a list of arrays is a table of rows."""

    def reduced(tape: Tape, values: Any, *more: Any, **options: Any) -> Any:
        listed = type(values) in (list, tuple)
        return function(_stacked(tape, values, lying=True) if listed else values, *more, **options)

    return reduced


def einsum(tape: Tape, pattern: Any, *operands: Any) -> Any:
    if pattern == "i,i->i":
        return np.multiply(*operands)
    known = contraction(pattern) if len(operands) == 2 else None
    if known is None:
        tape.beyond()
    table, columns = known
    return product(tape, operands[table], operands[1 - table]) if columns else product(
        tape, operands[1 - table], operands[table]
    )  # fmt: skip


def polyval(tape: Tape, weights: Any, at: Any) -> Any:
    numbers = _numbers(weights)
    if not 0 < len(numbers) <= LONGEST_SUM or not isinstance(at, Noted) or not at.per_row:
        tape.beyond()
    total: Any = np.zeros_like(at)
    for number in numbers:
        total = total * at + number
    return total


NEW: dict[str, Callable[..., Any]] = {
    "zeros": _made(np.zeros), "ones": _made(np.ones), "full": _made(np.full), "empty": _made(np.zeros),
    "arange": arange, "column_stack": column_stack, "vstack": vstack, "stack": stack, "array": array,
    "asarray": asarray, "asanyarray": asarray, "dot": product, "matmul": product,
    **{function.__name__: _of_table(function) for function in (np.sum, np.mean, np.max, np.min, np.average)},
    "amax": _of_table(np.amax), "amin": _of_table(np.amin),
    "einsum": einsum, "interp": interp, "lexsort": lexsort, "polyval": polyval,
}  # fmt: skip
