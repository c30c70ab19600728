"""Which divisions of an order may be done by multiplication: half of its time goes into them, and much can be saved.

Where many numbers are divided by one, core/powers.py `quotient` gives what a division gives, to the last bit, as long
as nothing in between is too small or too large. So each line of a recording is followed from the columns on: between
which powers of two a value lies, unless it is zero. What is not known to stay within LEAST and MOST is divided as ever.
"""

from __future__ import annotations

import ast
import math
from typing import NamedTuple

from cohabit.core.powers import FITTING
from cohabit.policy.stand_ins import Line

LEAST, MOST = -700, 700  # powers of two of a dividend: far from where digits or numbers end
DIGITS, LONGEST = 53, 40  # of a number; of a queue, as a power of two
DIVISIONS = ("divide", "true_divide")
ADDED = ("sum", "mean", "float_sum")


class Size(NamedTuple):
    """A value is zero, or from 2**low to 2**high, either sign."""

    low: int
    high: int
    minus_zero: bool = False  # whether it may be zero with a sign


class Quotient(NamedTuple):
    """A line that may be done by multiplication."""

    dividend: str
    divisor: str
    signed: bool  # a zero with a sign must keep it
    sure: bool  # the divisor is written there, and fits


def quotients(lines: list[Line]) -> dict[str, Quotient]:
    """By the names of lines."""
    sizes, found = dict[str, Size](), dict[str, Quotient]()
    per_row = {line.name for line in lines if line.per_row}
    for line in lines:
        size = _size(line, sizes)
        if size is not None and size.low >= LEAST and size.high <= MOST:
            sizes[line.name] = size
        terms = _terms(line, DIVISIONS)
        if terms is None or not line.per_row or not isinstance(terms[0], ast.Name):
            continue
        dividend, (left, right) = sizes.get(terms[0].id), map(ast.unparse, terms)
        literal = _number(terms[1])
        fitting = literal is None or 1.0 / FITTING < literal < FITTING
        if dividend is not None and left in per_row and right not in per_row and fitting:
            found[line.name] = Quotient(left, right, dividend.minus_zero, literal is not None)
    return found


def _terms(line: Line, names: tuple[str, ...]) -> list[ast.expr] | None:
    """What one of these functions of numpy is asked of."""
    tree = None if line.reduces else ast.parse(line.text, mode="eval").body
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Attribute) or tree.func.attr not in names:
        return None
    return tree.args


def _size(line: Line, sizes: dict[str, Size]) -> Size | None:
    if line.kind == "int64" or line.kind == "bool":
        return Size(0, 63)
    if line.reduces:
        return _of_all(line, sizes)
    tree = ast.parse(line.text, mode="eval").body
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Attribute) or tree.keywords:
        return None
    known = [_of_term(term, sizes) for term in tree.args]
    operands = [size for size in known if size is not None]
    return _of_operation(tree.func.attr, operands) if len(operands) == len(known) else None


def _of_all(line: Line, sizes: dict[str, Size]) -> Size | None:
    size = sizes.get(line.uses[0])
    if size is None or line.reduces not in (*ADDED, "max", "min"):
        return None
    if line.reduces in ADDED:
        return Size(size.low - DIGITS - LONGEST, size.high + LONGEST, size.minus_zero)
    return size


def _of_term(term: ast.expr, sizes: dict[str, Size]) -> Size | None:
    if isinstance(term, ast.Name):
        return sizes.get(term.id)
    number = _number(term)
    if number is None or number == 0.0 or not math.isfinite(number):
        return Size(0, 0, True) if number == 0.0 else None
    power = math.frexp(number)[1]
    return Size(power - 1, power, number < 0.0)


def _number(term: ast.expr) -> float | None:
    """If it is written there."""
    try:
        return float(ast.literal_eval(term))
    except ValueError:
        return None


def _of_operation(name: str, operands: list[Size]) -> Size | None:
    low, high = min(one.low for one in operands), max(one.high for one in operands)
    signed = any(one.minus_zero for one in operands)
    if name in ("add", "subtract"):  # what is left of two numbers is as fine as their last digits
        return Size(low - DIGITS, high + 1, signed)
    if name == "multiply":
        return Size(sum(one.low for one in operands) - 1, sum(one.high for one in operands) + 1, True)
    if name in ("square", "absolute", "fabs"):
        times = 2 if name == "square" else 1
        return Size(times * low - 1, times * high + 1)
    if name in ("float64", "positive", "maximum", "minimum"):
        return Size(low, high, signed)
    if name == "negative":
        return Size(low, high, True)
    if name == "sqrt":
        return Size(min(low, 0), max(high, 0), True)
    if name in DIVISIONS and operands[1].low == operands[1].high - 1:  # by a number that is written there
        return Size(operands[0].low - operands[1].high - 1, operands[0].high - operands[1].low + 1, signed)
    return None


def fits(divisor: str) -> str:
    """The question whether a number that is known in the pass only is neither too small nor too large."""
    return f"{1.0 / FITTING!r} < {divisor} < {FITTING!r}"
