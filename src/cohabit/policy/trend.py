"""Whether an order's scores can be shown never to rise while a job waits: then few of them are needed in a pass.

Goes through what policy/recording.py has noted of the function, value by value: between which numbers it lies, and
whether it rises, falls or stays as time goes by. Only what holds for every job is concluded; a function that asks
questions, looks at several jobs at once or at usage, or does anything not listed here is simply not shown to fall.
Rounding keeps the order of what is rounded; powers and logarithms err by less than a microsecond of waiting changes.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

from cohabit.policy.recording import record
from cohabit.policy.stand_ins import Line, Tape

STAYS, RISES, FALLS = 0, 1, -1


class Course(NamedTuple):
    """What is known of a value: its bounds (both may be infinite), and where it goes as time goes by.

    A bound that is infinite is not reached, unless the value is `endless`: the logarithm of a wait of zero is.
    """

    low: float
    high: float
    trend: int
    endless: bool = False

    def is_never_zero(self) -> bool:
        return self.low > 0 or self.high < 0


NOTHING = Course(math.nan, math.nan, STAYS)  # is known of it
PRODUCTS = ("multiply", "power", "square")
SMALL = 1000
LARGE_EXPONENT, LARGE_POWER = 700, 20  # beyond them a result may be too large for a number


class _Unknown(Exception):
    """Nothing can be concluded."""


COLUMNS = {
    "nodes": Course(1, math.inf, STAYS), "cores": Course(1, math.inf, STAYS), "limit_us": Course(0, math.inf, STAYS),
    "submit_us": Course(-math.inf, math.inf, STAYS), "eligible_us": Course(-math.inf, math.inf, STAYS),
    "seq": Course(0, math.inf, STAYS), "qos": Course(-math.inf, math.inf, STAYS), "user": Course(-1, math.inf, STAYS),
    "partition": Course(-1, math.inf, STAYS),
}  # fmt: skip


def never_rises(function: Callable[..., Any], parameters: tuple[float, ...]) -> bool:
    """Whether no score of this order can rise while its job waits, whatever else happens."""
    if not isinstance(function, FunctionType):
        return False
    try:
        tape, result = record(function, parameters, ())
        if tape.branches:
            return False
        found = _course_of(tape, result, parameters)
        return found is not NOTHING and found.trend in (STAYS, FALLS)
    except Exception:  # the function's own, too
        return False


def _course_of(tape: Tape, result: str, parameters: tuple[float, ...]) -> Course:
    known = {f"p{index}": Course(value, value, STAYS) for index, value in enumerate(parameters)}
    known["now_us"] = Course(-math.inf, math.inf, RISES)
    waits = {"now_us"}, set[str]()  # names of the time, and of submit times
    for line in tape.lines:
        if line.text == "jobs.submit_us[row]":
            waits[1].add(line.name)
        if not line.reduces or line.reduces == "cubes":
            known[line.name] = _course(line, known, waits)
    return known[result]


def _course(line: Line, known: dict[str, Course], waits: tuple[set[str], set[str]]) -> Course:
    """Of one value; what is not understood is given no course and fails whoever needs it."""
    try:
        if line.reduces == "cubes":
            return _power(known[line.uses[0]], Course(3, 3, STAYS))
        tree = ast.parse(line.text, mode="eval").body
        if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Attribute):
            return COLUMNS[tree.value.attr]
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute):
            names = [term.id if isinstance(term, ast.Name) else "" for term in tree.args]
            if tree.func.attr == "subtract" and names[0] in waits[0] and names[1] in waits[1]:
                return Course(0, math.inf, RISES)  # a job is in the queue from its submission on
            terms = [_term(term, known) for term in tree.args]
            if line.kind == "int64" and tree.func.attr in PRODUCTS and not any(map(_is_small, terms)):
                raise _Unknown  # whole numbers have an end, and begin again below zero
            return RULES[tree.func.attr](*terms)
        if isinstance(tree, ast.IfExp):
            return _chosen(*(_term(term, known) for term in (tree.test, tree.body, tree.orelse)))
        return _term(tree, known)
    except (KeyError, ValueError, TypeError, _Unknown):
        return NOTHING


def _term(tree: ast.expr, known: dict[str, Course]) -> Course:
    if isinstance(tree, ast.Name):
        found = known[tree.id]
        if found is NOTHING:
            raise _Unknown
        return found
    value = ast.literal_eval(tree)
    if not isinstance(value, int | float) or math.isnan(value):
        raise _Unknown
    return Course(value, value, STAYS)


def _is_small(one: Course) -> bool:
    return one.low == one.high and abs(one.low) <= SMALL


def _together(one: int, other: int) -> int:
    """Where the sum of two goes."""
    if one and other and one != other:
        raise _Unknown
    return one or other


def _bounded(values: list[float], trend: int, endless: bool) -> Course:
    if any(math.isnan(value) for value in values):
        raise _Unknown
    return Course(min(values), max(values), trend, endless)


def _add(one: Course, other: Course) -> Course:
    if one.endless and other.endless:
        raise _Unknown  # they may cancel each other to no number
    ends = [one.low + other.low, one.high + other.high]
    return _bounded(ends, _together(one.trend, other.trend), one.endless or other.endless)


def _negative(one: Course) -> Course:
    return Course(-one.high, -one.low, -one.trend, one.endless)


def _multiply(one: Course, other: Course) -> Course:
    """By something of one sign; infinite bounds are never reached, but zero times what has no bound is left alone."""
    if (one.endless and not other.is_never_zero()) or (other.endless and not one.is_never_zero()):
        raise _Unknown
    trend = _together(_scaled(one, other), _scaled(other, one))
    corners = [0.0 if 0 in (a, b) else a * b for a in (one.low, one.high) for b in (other.low, other.high)]
    return _bounded(corners, trend, one.endless or other.endless)


def _scaled(changing: Course, factor: Course) -> int:
    if not changing.trend or factor.low == factor.high == 0:
        return STAYS
    if factor.low >= 0:
        return changing.trend
    if factor.high <= 0:
        return -changing.trend
    raise _Unknown


def _divide(one: Course, other: Course) -> Course:
    return _multiply(one, _inverse(other))


def _inverse(one: Course) -> Course:
    if one.low <= 0 <= one.high:
        raise _Unknown
    return Course(1 / one.high, 1 / one.low, -one.trend)  # of what is endless: zero


def _square_root(one: Course) -> Course:
    if one.low < 0:
        raise _Unknown
    return Course(math.sqrt(one.low), math.sqrt(one.high), one.trend, one.endless)


def _power(one: Course, exponent: Course) -> Course:
    power = exponent.low
    odd = power > 0 and power % 2 == 1
    if exponent.low != exponent.high or exponent.trend or not (one.low >= 0 or odd):
        raise _Unknown
    if power < 0 and one.low <= 0:
        raise _Unknown
    ends = [_raised_by(lambda value: float(value**power), end) for end in (one.low, one.high)]
    endless = power > 0 and (one.endless or power > LARGE_POWER)
    return _bounded(ends, one.trend if power > 0 else -one.trend if power < 0 else STAYS, endless)


def _square(one: Course) -> Course:
    if one.low >= 0:
        return _power(one, Course(2, 2, STAYS))
    if one.high <= 0:
        return _square(_negative(one))
    raise _Unknown


def _maximum(one: Course, other: Course) -> Course:
    trend, endless = _together(one.trend, other.trend), one.endless or other.endless
    return Course(max(one.low, other.low), max(one.high, other.high), trend, endless)


def _minimum(one: Course, other: Course) -> Course:
    trend, endless = _together(one.trend, other.trend), one.endless or other.endless
    return Course(min(one.low, other.low), min(one.high, other.high), trend, endless)


def _absolute(one: Course) -> Course:
    if one.low < 0 < one.high:
        raise _Unknown
    return one if one.low >= 0 else _negative(one)


def _alongside(function: Callable[[float], float], explodes: bool = False) -> Callable[[Course], Course]:
    """A function that rises wherever it is defined, and is defined everywhere."""

    def rule(one: Course) -> Course:
        ends = [_raised_by(function, one.low), _raised_by(function, one.high)]
        return _bounded(ends, one.trend, one.endless or (explodes and one.high > LARGE_EXPONENT))

    return rule


def _raised_by(function: Callable[[float], float], value: float) -> float:
    try:
        return function(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _floor_divide(one: Course, other: Course) -> Course:
    """By a number: a step that may come a little early or late by rounding, but never back."""
    if other.low != other.high or other.trend:
        raise _Unknown
    found = _divide(one, other)
    return found._replace(low=found.low - 1)


def _greater(one: Course, other: Course) -> Course:
    """No or yes, as 0 and 1: as time goes by it can become so, or cease to be so, but not both."""
    return Course(0, 1, _together(one.trend, -other.trend))


def _chosen(condition: Course, one: Course, other: Course) -> Course:
    """One where the condition holds, else the other; where that changes, the value jumps from the one to the other."""
    trend = _together(one.trend, other.trend)
    if condition.trend:
        first, then = (other, one) if condition.trend == RISES else (one, other)
        jumps = RISES if then.low >= first.high else FALLS if then.high <= first.low else None
        if jumps is None:
            raise _Unknown
        trend = _together(trend, jumps)
    return Course(min(one.low, other.low), max(one.high, other.high), trend, one.endless or other.endless)


def _logarithm(function: Callable[[float], float], shift: float = 0.0) -> Callable[[Course], Course]:
    """Of what is never below zero (with log1p, -1): at zero itself it is endless, as on the instant of submission."""

    def rule(one: Course) -> Course:
        if one.low + shift < 0:
            raise _Unknown
        at_zero = one.low + shift == 0
        return Course(
            -math.inf if at_zero else function(one.low), function(one.high), one.trend, at_zero or one.endless
        )

    return rule


RULES: dict[str, Callable[..., Course]] = {
    "add": _add, "subtract": lambda one, other: _add(one, _negative(other)), "negative": _negative,
    "positive": lambda one: one, "multiply": _multiply, "divide": _divide, "true_divide": _divide, "power": _power,
    "square": _square, "absolute": _absolute, "maximum": _maximum, "minimum": _minimum,
    "greater": _greater, "greater_equal": _greater, "less": lambda one, other: _greater(other, one),
    "less_equal": lambda one, other: _greater(other, one), "fmax": _maximum, "fmin": _minimum, "fabs": _absolute,
    "reciprocal": _inverse, "floor_divide": _floor_divide,
    "float64": lambda one: one, "floor": lambda one: one._replace(low=one.low - 1),
    "ceil": lambda one: one._replace(high=one.high + 1), "sqrt": _square_root,
    "log1p": _logarithm(math.log1p, 1.0), "log": _logarithm(math.log), "log2": _logarithm(math.log2),
    "log10": _logarithm(math.log10), "exp": _alongside(math.exp, True), "exp2": _alongside(math.exp2, True),
    "expm1": _alongside(math.expm1, True), "tanh": _alongside(math.tanh), "arctan": _alongside(math.atan),
    "arcsinh": _alongside(math.asinh), "cbrt": _alongside(math.cbrt),
}  # fmt: skip
