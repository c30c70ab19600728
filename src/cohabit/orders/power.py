"""Powers of single numbers, as compiled orders take them: like numpy's powers of arrays."""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_lean


@compiled_lean
def power(value, exponent):
    """Return value ** exponent; like numpy, compute some exponents without `pow`."""
    if exponent == 2.0:
        return np.float64(value) * np.float64(value)
    if exponent == 0.5:
        return np.sqrt(np.float64(value))
    if exponent == -1.0:
        return np.divide(1.0, np.float64(value))
    return np.power(np.float64(value), np.float64(exponent))
