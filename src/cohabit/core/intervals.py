"""Between which numbers a value lies while an operand goes from one number to another: the arithmetic of bounds.

Every function takes (low, high) of its operands and gives (low, high) of what numpy's function of that name makes of
any numbers between them; policy/bounds.py writes orders in it. Nothing known, or perhaps no number at all: both are
NaN, and stay so. Rounding keeps the order of what is rounded, so sums, products and quotients need no more than their
corners; what a mathematical library computes is given a little room.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_lean

ROOM = 2.0**-46  # more than any library errs by, as a part of the result
LARGEST_WHOLE = 2.0**53  # whole numbers are exact up to here
LARGEST = np.finfo(np.float64).max
MOST_TURNED = 1e8  # a larger angle does not tell where in its turn it is
WAVE_ROOM = 1e-12


@compiled_lean
def _corners(a, b, c, d):
    """From the least to the largest of four; unknown if one of them is no number."""
    if a != a or b != b or c != c or d != d:
        return np.nan, np.nan
    return min(min(a, b), min(c, d)), max(max(a, b), max(c, d))


@compiled_lean
def _room(low, high):
    low, high = min(low, LARGEST), max(high, -LARGEST)  # what is endless at both ends is not known to be
    return low - abs(low) * ROOM, high + abs(high) * ROOM


@compiled_lean
def whole(bounds):
    """Of a whole number."""
    low, high = bounds
    if not (low > -LARGEST_WHOLE and high < LARGEST_WHOLE):
        return np.nan, np.nan
    return low, high


@compiled_lean
def share(least, users):
    """Of usage: it is at most as large as there are users, if nobody else has used anything."""
    return least, max(least, np.float64(users))


@compiled_lean
def _is_endless(low, high):
    return low == -np.inf or high == np.inf


@compiled_lean
def _has_zero(low, high):
    return not (low > 0.0 or high < 0.0)


@compiled_lean
def add(a, b, c, d):
    if (a == -np.inf and d == np.inf) or (b == np.inf and c == -np.inf):
        return np.nan, np.nan  # they may cancel to no number
    return a + c, b + d


@compiled_lean
def subtract(a, b, c, d):
    return add(a, b, -d, -c)


@compiled_lean
def negative(a, b):
    return -b, -a


@compiled_lean
def positive(a, b):
    return a, b


@compiled_lean
def float64(a, b):
    return a, b


@compiled_lean
def multiply(a, b, c, d):
    if a >= 0.0 and c >= 0.0 and b < np.inf and d < np.inf:  # mostly
        return a * c, b * d
    if (_is_endless(a, b) and _has_zero(c, d)) or (_is_endless(c, d) and _has_zero(a, b)):
        return np.nan, np.nan
    return _corners(a * c, a * d, b * c, b * d)


@compiled_lean
def divide(a, b, c, d):
    if a >= 0.0 and c > 0.0 and b < np.inf:  # mostly
        return a / d, b / c
    if _has_zero(c, d) or (_is_endless(a, b) and _is_endless(c, d)):
        return np.nan, np.nan
    return _corners(a / c, a / d, b / c, b / d)


@compiled_lean
def true_divide(a, b, c, d):
    return divide(a, b, c, d)


@compiled_lean
def reciprocal(a, b):
    return divide(1.0, 1.0, a, b)


@compiled_lean
def floor_divide(a, b, c, d):
    """By one number: the steps of the quotient, which numpy takes exactly."""
    if c != d or _has_zero(c, d) or _is_endless(a, b) or _is_endless(c, d):
        return np.nan, np.nan
    one, other = np.floor_divide(a, c), np.floor_divide(b, c)
    return _corners(one, other, one, other)


@compiled_lean
def remainder(a, b, c, d):
    """By one number above zero: it rises until the next multiple."""
    if c != d or not c > 0.0 or _is_endless(a, b) or c == np.inf:
        return np.nan, np.nan
    one, other = np.remainder(a, c), np.remainder(b, c)
    if b - a < 0.5 * c and one <= other:
        return one, other
    return (0.0, c) if a == a and b == b else (np.nan, np.nan)


@compiled_lean
def mod(a, b, c, d):
    return remainder(a, b, c, d)


@compiled_lean
def square(a, b):
    low, high = absolute(a, b)
    return low * low, high * high


@compiled_lean
def power(a, b, c, d):
    """Of what is not below zero, or to one whole exponent."""
    if c == d and c == np.floor(c) and abs(c) < 64.0 and c > 0.0:
        if c % 2.0 == 0.0:
            a, b = absolute(a, b)
        low, high = np.power(a, c), np.power(b, c)
        return _room(low, high)
    if not (a > 0.0 or (a >= 0.0 and c > 0.0)) or _is_endless(a, b) or _is_endless(c, d):
        return np.nan, np.nan
    low, high = _corners(np.power(a, c), np.power(a, d), np.power(b, c), np.power(b, d))
    return _room(low, high)


@compiled_lean
def cubes(a, b):
    return _room(a * a * a, b * b * b)


@compiled_lean
def sqrt(a, b):
    return (np.sqrt(a), np.sqrt(b)) if a >= 0.0 else (np.nan, np.nan)


@compiled_lean
def absolute(a, b):
    if a >= 0.0:
        return a, b
    if b <= 0.0:
        return -b, -a
    if a != a or b != b:
        return np.nan, np.nan
    return 0.0, max(-a, b)


@compiled_lean
def fabs(a, b):
    return absolute(a, b)


@compiled_lean
def maximum(a, b, c, d):
    if a != a or c != c or b != b or d != d:
        return np.nan, np.nan
    return max(a, c), max(b, d)


@compiled_lean
def minimum(a, b, c, d):
    if a != a or c != c or b != b or d != d:
        return np.nan, np.nan
    return min(a, c), min(b, d)


@compiled_lean
def fmax(a, b, c, d):
    return maximum(a, b, c, d)


@compiled_lean
def fmin(a, b, c, d):
    return minimum(a, b, c, d)


@compiled_lean
def _risen(a, b, low, high):
    """A function that rises wherever it is defined, at both ends."""
    if a != a or b != b or low != low or high != high:
        return np.nan, np.nan
    return _room(low, high)


@compiled_lean
def exp(a, b):
    return _risen(a, b, np.exp(a), np.exp(b))


@compiled_lean
def exp2(a, b):
    return _risen(a, b, np.exp2(a), np.exp2(b))


@compiled_lean
def expm1(a, b):
    return _risen(a, b, np.expm1(a), np.expm1(b))


@compiled_lean
def log(a, b):
    return _risen(a, b, np.log(a), np.log(b)) if a >= 0.0 else (np.nan, np.nan)


@compiled_lean
def log2(a, b):
    return _risen(a, b, np.log2(a), np.log2(b)) if a >= 0.0 else (np.nan, np.nan)


@compiled_lean
def log10(a, b):
    return _risen(a, b, np.log10(a), np.log10(b)) if a >= 0.0 else (np.nan, np.nan)


@compiled_lean
def log1p(a, b):
    return _risen(a, b, np.log1p(a), np.log1p(b)) if a >= -1.0 else (np.nan, np.nan)


@compiled_lean
def tanh(a, b):
    return _risen(a, b, np.tanh(a), np.tanh(b))


@compiled_lean
def arctan(a, b):
    return _risen(a, b, np.arctan(a), np.arctan(b))


@compiled_lean
def arcsinh(a, b):
    return _risen(a, b, np.arcsinh(a), np.arcsinh(b))


@compiled_lean
def cbrt(a, b):
    return _risen(a, b, np.cbrt(a), np.cbrt(b))


@compiled_lean
def floor(a, b):
    return np.floor(a), np.floor(b)


@compiled_lean
def ceil(a, b):
    return np.ceil(a), np.ceil(b)


@compiled_lean
def trunc(a, b):
    return np.trunc(a), np.trunc(b)


@compiled_lean
def rint(a, b):
    return np.rint(a), np.rint(b)


@compiled_lean
def sign(a, b):
    return np.sign(a), np.sign(b)


@compiled_lean
def _wave(a, b, first_turn, low, high):
    """Between two neighbouring turning points it only rises, or only falls."""
    if a != a or b != b or _is_endless(a, b):
        return np.nan, np.nan
    turns = np.floor((a - first_turn) / np.pi) != np.floor((b - first_turn) / np.pi)
    if turns or not (a > -MOST_TURNED and b < MOST_TURNED):
        return -1.0, 1.0
    return min(low, high) - WAVE_ROOM, max(low, high) + WAVE_ROOM


@compiled_lean
def cos(a, b):
    return _wave(a, b, 0.0, np.cos(a), np.cos(b))


@compiled_lean
def sin(a, b):
    return _wave(a, b, 0.5 * np.pi, np.sin(a), np.sin(b))


# ---- yes and no, as 1 and 0 -----------------------------------------------------------------------------------------


@compiled_lean
def greater(a, b, c, d):
    """Of what is no number nothing is greater: it stays open."""
    return 1.0 * (a > d), 1.0 - 1.0 * (b <= c)


@compiled_lean
def greater_equal(a, b, c, d):
    return 1.0 * (a >= d), 1.0 - 1.0 * (b < c)


@compiled_lean
def less(a, b, c, d):
    return greater(c, d, a, b)


@compiled_lean
def less_equal(a, b, c, d):
    return greater_equal(c, d, a, b)


@compiled_lean
def equal(a, b, c, d):
    return 1.0 * (a == b and b == c and c == d), 1.0 - 1.0 * (a > d or b < c)


@compiled_lean
def not_equal(a, b, c, d):
    low, high = equal(a, b, c, d)
    return 1.0 - high, 1.0 - low


@compiled_lean
def isfinite(a, b):
    """What is known is a number, so only an endless one is open; and so are these:"""
    return 1.0 - 1.0 * (a != a or b != b or _is_endless(a, b)), 1.0 - 1.0 * (a == b and abs(a) == np.inf)


@compiled_lean
def isinf(a, b):
    return 1.0 * (a == b and abs(a) == np.inf), 1.0 * (a != a or b != b or _is_endless(a, b))


@compiled_lean
def isnan(a, b):
    return 0.0, 1.0 * (a != a or b != b)


@compiled_lean
def surely(a, b):
    """Whether it is true, as 1 and 0, of any number between them."""
    return not_equal(a, b, 0.0, 0.0)


@compiled_lean
def logical_and(a, b, c, d):
    (one, perhaps), (other, perhaps_too) = surely(a, b), surely(c, d)
    return one * other, perhaps * perhaps_too


@compiled_lean
def logical_or(a, b, c, d):
    (one, perhaps), (other, perhaps_too) = surely(a, b), surely(c, d)
    return max(one, other), max(perhaps, perhaps_too)


@compiled_lean
def logical_not(a, b):
    low, high = surely(a, b)
    return 1.0 - high, 1.0 - low


@compiled_lean
def chosen(a, b, one, one_high, other, other_high):
    """The one where the condition is true, else the other; where that is open, all that both can be."""
    low, high = surely(a, b)
    if low > 0.0:
        return one, one_high
    if high == 0.0:
        return other, other_high
    return _corners(one, one_high, other, other_high)
