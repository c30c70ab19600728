"""Functions of the system's mathematical library, as compiled orders call them.

On some processors numpy has its own, which differ in the last bit; policy/settled.py then takes these instead.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled


@compiled
def exp(values):
    return np.exp(values)


@compiled
def exp2(values):
    return np.exp2(values)


@compiled
def expm1(values):
    return np.expm1(values)


@compiled
def log(values):
    return np.log(values)


@compiled
def log2(values):
    return np.log2(values)


@compiled
def log10(values):
    return np.log10(values)


@compiled
def log1p(values):
    return np.log1p(values)


@compiled
def sin(values):
    return np.sin(values)


@compiled
def cos(values):
    return np.cos(values)


@compiled
def tan(values):
    return np.tan(values)


@compiled
def arctan(values):
    return np.arctan(values)


@compiled
def arcsinh(values):
    return np.arcsinh(values)


@compiled
def sinh(values):
    return np.sinh(values)


@compiled
def cosh(values):
    return np.cosh(values)


@compiled
def tanh(values):
    return np.tanh(values)


@compiled
def cbrt(values):
    return np.cbrt(values)


@compiled
def arcsin(values):
    return np.arcsin(values)


@compiled
def arccos(values):
    return np.arccos(values)


@compiled
def arctanh(values):
    return np.arctanh(values)


@compiled
def arccosh(values):
    return np.arccosh(values)


@compiled
def power(values, exponents):
    return np.power(values, exponents)
