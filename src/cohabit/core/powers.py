"""Third powers, remainders and quotients to the last bit as others give them, in a fraction of their time; for orders.

numpy asks `pow` for x ** 3, and waits to the third power are what some orders are made of. Here x * x * x is computed
with twice the digits and rounded once. `pow` of glibc and musl is off by at most 0.513 units in the last place for such
numbers (its source states 0.511, and 1.5 / 2**68 of the logarithm); so where the exact value lies further than that
from the middle between two numbers, both round alike. Else, and outside LEAST and MOST, `pow` itself is asked.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled, compiled_lean, fused

LEAST, MOST = 1e-6, 1e6
MARGIN = 1.03  # what rounding left over must stay below 1 / (2 * MARGIN) = 0.485 units in the last place
MOST_EXACT = 2.0**52  # a quotient below has its digits before the point
FITTING = 2.0**200  # divisors of `quotient` lie between this and its inverse


@compiled_lean
def _cube(x):
    """The third power rounded once, and whether `pow` gives the same for sure."""
    square = x * x
    rough = square * x
    rest = fused(square, x, -rough) + fused(x, x, -square) * x
    found = rough + rest
    left = rest - (found - rough)
    return found, (found + MARGIN * left == found) & (abs(x) > LEAST) & (abs(x) < MOST)


@compiled
def cubes(values):
    """All of them to the third power."""
    out, sure = np.empty(len(values)), np.empty(len(values), np.uint8)
    for index in range(len(values)):
        out[index], sure[index] = _cube(values[index])
    for index in range(len(values)):
        if not sure[index]:
            out[index] = values[index] ** 3.0
    return out


@compiled_lean
def cube(value):
    """One of them."""
    found, sure = _cube(value)
    return found if sure else value**3.0


@compiled_lean
def power(value, exponent):
    """value ** exponent for one exponent of many: numpy takes some of them in another way than by `pow`."""
    if exponent == 2.0:
        return np.float64(value) * np.float64(value)
    if exponent == 0.5:
        return np.sqrt(np.float64(value))
    if exponent == -1.0:
        return np.divide(1.0, np.float64(value))
    return np.power(np.float64(value), np.float64(exponent))


@compiled_lean
def remainder(value, divisor):
    """a % b: what is left of a quotient is a number itself, so value - quotient * divisor rounded once is exact."""
    a, b = np.float64(value), np.float64(divisor)
    if a >= 0.0 and 0.0 < b < np.inf:
        quotient = np.floor(a / b)
        if quotient < MOST_EXACT:
            left = fused(-quotient, b, a)
            return left if left >= 0.0 else fused(1.0 - quotient, b, a)  # the quotient had been rounded up
    return np.remainder(a, b)


@compiled_lean
def quotient(value, divisor, part):
    """value / divisor, given part = 1 / divisor, a positive number; policy/quotients.py tells which values it is for.

    What is missing is added twice: the first time less than a unit in the last place is missing afterwards, and then
    what is still missing is exact and the result is rounded as a division rounds (Markstein 1990).
    """
    rough = value * part
    near = fused(fused(-divisor, rough, value), part, rough)
    return fused(fused(-divisor, near, value), part, near)


@compiled_lean
def signed_quotient(value, divisor, part):
    """The same for values that may be zero with a sign."""
    return np.copysign(quotient(value, divisor, part), value)
