"""What recorded orders may do with single jobs beside operators and element-wise functions, in numpy's words.

Each function here is called with the tape and what numpy would be called with, and notes expressions of element-wise
functions that come to the same, to the last bit. What it is not sure of it refuses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.policy.settled import slopes, usable_table
from cohabit.policy.stand_ins import FUNCTIONS, METHODS, OWN_UFUNCS, Noted, Tape, example_of

MOST_LISTED = 64  # numbers that may be looked for one after the other
LONGEST_TABLE = 16  # to interpolate in
MOST_DIGITS = 8  # behind the point, to round to

Understood = Callable[..., Any]


def understands(*functions: Any, method: str = "", ufunc: tuple[str, str] | None = None) -> Callable[[Understood], Any]:
    """Enter a function into what is understood."""

    def enter(understood: Understood) -> Understood:
        FUNCTIONS.update(dict.fromkeys(functions, understood))
        if method:
            METHODS[method] = understood
        if ufunc:
            OWN_UFUNCS[ufunc] = understood
        return understood

    return enter


@understands(np.where)
def where(tape: Tape, condition: Any, one: Any, other: Any) -> Noted:
    example = np.where(*(example_of(value) for value in (condition, one, other)))
    terms = [tape.term(value) for value in (one, condition, other)]
    return tape.number("({} if {} else {})".format(*terms), [condition, one, other], example)


@understands(np.clip, method="clip")
def clip(tape: Tape, value: Any, *bounds: Any, **named: Any) -> Any:
    """Between two bounds."""
    known = {"a_min": "min", "a_max": "max"}
    named = {known.get(name, name): bound for name, bound in named.items()}
    if len(bounds) > 2 or not named.keys() <= {"min", "max"} or not isinstance(value, Noted):
        tape.beyond()
    low, high = (*bounds, *(None,) * 2)[:2]
    low, high = named.get("min", low), named.get("max", high)
    raised = value if low is None else np.maximum(value, low)
    return raised if high is None else np.minimum(raised, high)


@understands(np.select)
def select(tape: Tape, conditions: Any, choices: Any, default: Any = 0) -> Any:
    """The first that holds."""
    truths = all(isinstance(one, Noted) and one.example.dtype.kind == "b" for one in conditions)
    if not truths or len(conditions) != len(choices):
        tape.beyond()
    found = default
    for condition, choice in zip(conditions[::-1], choices[::-1], strict=True):
        found = where(tape, condition, choice, found)
    return found


@understands(np.choose)
def choose(tape: Tape, places: Any, choices: Any) -> Any:
    """The choice at a place; beyond the last, where numpy raises an error, the last."""
    places = tape.per_row(places, "bi")
    if type(choices) not in (list, tuple) or not 0 < len(choices) <= MOST_LISTED:
        tape.beyond()
    return select(tape, [np.equal(places, place) for place in range(len(choices))], choices, choices[-1])


@understands(np.piecewise)
def piecewise(tape: Tape, x: Any, conditions: Any, pieces: Any, *more: Any) -> Any:
    """The last that holds, if it is a function, of x; one piece more than conditions is for where none holds."""
    x = tape.per_row(x, "f").copy()
    if type(conditions) is not list or type(pieces) is not list or len(pieces) - len(conditions) not in (0, 1):
        tape.beyond()
    values = [np.float64(1.0) * (piece(x.copy(), *more) if callable(piece) else piece) for piece in pieces]
    found = values.pop() if len(pieces) > len(conditions) else 0.0
    for condition, value in zip(conditions, values, strict=True):
        found = where(tape, tape.per_row(condition, "b"), value, found)
    return found


@understands(ufunc=("heaviside", "__call__"))
def heaviside(tape: Tape, x: Any, at_zero: Any) -> Any:
    """A step from no to one."""
    x = tape.per_row(x, "f")
    return where(tape, np.isnan(x), x, where(tape, np.equal(x, 0.0), at_zero, where(tape, np.less(x, 0.0), 0.0, 1.0)))


@understands(np.digitize)
def digitize(tape: Tape, value: Any, bins: Any, right: bool = False) -> Any:
    return edges_passed(tape, value, bins, np.less_equal if right else np.less)


def edges_passed(tape: Tape, value: Any, listed: Any, fails: np.ufunc) -> Any:
    """How many of some numbers in rising order it has passed; what is no number passes all."""
    edges, value = np.asarray(listed), tape.per_row(value, "if")
    fits = edges.ndim == 1 and 0 < len(edges) <= MOST_LISTED and edges.dtype.kind in "if"
    if not fits or not (edges[1:] > edges[:-1]).all():
        tape.beyond()
    return sum(1 - fails(value, edge) for edge in edges.tolist())


@understands(np.isin)
def isin(tape: Tape, value: Any, listed: Any) -> Noted:
    """In a short list of whole numbers."""
    numbers, value = np.asarray(listed), tape.per_row(value, "i")
    if numbers.dtype != np.int64 or numbers.ndim != 1 or not 0 < len(numbers) <= MOST_LISTED:
        tape.beyond()
    text = " or ".join(f"{value.name} == {tape.term(number)}" for number in numbers.tolist())
    return tape.number(f"({text})", [value], np.isin(value.example, numbers))


def interp(tape: Tape, value: Any, places: Any, heights: Any) -> Any:
    """In a short table, as policy/settled.py has it."""
    table, x = usable_table(places, heights), tape.per_row(value, "if")
    if table is None or len(table[0]) > LONGEST_TABLE:
        tape.beyond()
    x = astype(tape, x, float)
    at, height, steepness = (one.tolist() for one in (*table, slopes(*table)))
    found = None
    for place, start, slope in zip(at[:-1], height[:-1], steepness, strict=True):
        line = slope * (x - place) + start
        found = line if found is None else where(tape, x >= place, line, found)
    found = where(tape, x >= at[-1], height[-1], found)
    return where(tape, x < at[0], height[0], found)


@understands(np.nan_to_num)
def nan_to_num(tape: Tape, x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    x = tape.per_row(x, "if")
    if copy is not True or x.example.dtype.kind == "i":
        return x.copy() if copy is True else tape.beyond()
    most = float(np.finfo(float).max)
    found = where(tape, np.isnan(x), float(nan), x)
    found = where(tape, np.equal(x, np.inf), most if posinf is None else float(posinf), found)
    return where(tape, np.equal(x, -np.inf), -most if neginf is None else float(neginf), found)


@understands(np.round, np.around, method="round")
def round_(tape: Tape, value: Any, decimals: Any = 0) -> Any:
    value = tape.per_row(value, "if")
    if type(decimals) is not int or not 0 <= decimals <= MOST_DIGITS:
        tape.beyond()
    if value.example.dtype.kind == "i":
        return value.copy()
    scale = 10.0**decimals
    return np.rint(value * scale) / scale if decimals else np.rint(value)


@understands(method="astype")
def astype(tape: Tape, value: Any, dtype: Any, copy: bool = True) -> Any:
    """To floating-point numbers, to whole ones (as numpy has it here where they are too large), or to no and yes."""
    kind, value = np.dtype(dtype), tape.per_row(value)
    before = value.example.dtype
    if kind not in (np.float64, np.int64, np.bool_):
        tape.beyond()
    if kind == before:
        return value.copy() if copy is True else value if copy is False else tape.beyond()
    if kind == np.bool_:
        return np.not_equal(value, 0)
    name = value.name
    with np.errstate(all="ignore"):
        example = value.example.astype(kind)
        none, above, below = np.array([np.nan, np.inf, -np.inf]).astype(np.int64).tolist()
    text = f"numpy.{kind.name}({name})"
    if kind == np.int64 and before == np.float64:
        others = f"{none} if {name} != {name} else {above} if {name} > 0 else {below}"
        text = f"({text} if abs({name}) < {2.0**63!r} else {others})"
    return tape.number(text, [value], example)


@understands(float)
def to_float(tape: Tape, value: Any) -> Noted:
    """float(x) for one number."""
    if not isinstance(value, Noted) or value.per_row or np.asarray(value.example).dtype.kind not in "if":
        tape.beyond()
    found = tape.number(f"numpy.float64({value.name})", [value], float(value.example))
    if value.name in tape.lengths:
        tape.lengths.add(found.name)
    return found


def _whole(tape: Tape, value: Any, rounded: str, example: Callable[[Any], int]) -> Noted:
    """A whole number made of the length of the queue: it cannot be too large for 64 bits."""
    if not isinstance(value, Noted) or value.name not in tape.lengths:
        tape.beyond()
    found = tape.number(f"numpy.int64({rounded.format(value.name)})", [value], example(value.example))
    tape.lengths.add(found.name)
    return found


@understands(int)
def to_int(tape: Tape, value: Any) -> Noted:
    return _whole(tape, value, "{}", int)


@understands(math.floor)
def floor(tape: Tape, value: Any) -> Noted:
    return _whole(tape, value, "numpy.floor({})", math.floor)


@understands(math.ceil)
def ceil(tape: Tape, value: Any) -> Noted:
    return _whole(tape, value, "numpy.ceil({})", math.ceil)


@understands(round)
def round_number(tape: Tape, value: Any) -> Noted:
    return _whole(tape, value, "numpy.rint({})", round)


@understands(np.zeros_like, np.empty_like)
def zeros_like(tape: Tape, value: Any, **options: Any) -> Noted:
    return filled(tape, np.zeros_like(example_of(value), **options))


@understands(np.ones_like)
def ones_like(tape: Tape, value: Any, **options: Any) -> Noted:
    return filled(tape, np.ones_like(example_of(value), **options))


@understands(np.full_like)
def full_like(tape: Tape, value: Any, number: Any, **options: Any) -> Noted:
    if isinstance(number, Noted):
        tape.beyond()
    return filled(tape, np.full_like(example_of(value), number, **options))


def filled(tape: Tape, example: NDArray[Any]) -> Noted:
    """A new array of one and the same number."""
    if example.shape != (3,):
        tape.beyond()
    found = tape.note(tape.term(example[0]), [], example, per_row=True)
    return found if example.dtype in (np.bool_, np.int64, np.float64) else tape.beyond()
