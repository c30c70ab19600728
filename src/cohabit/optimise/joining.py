"""What nodes gain from one more job, or lose with one fewer, for many nodes in one call. Compiled.

A node is a row of kinds, EMPTY where nobody is. Values are those of the best division of its cache (`division`),
remembered by the set of kinds, so that a node nobody touched since the last question costs one look-up.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled
from cohabit.optimise.arrivals import EMPTY, listed, set_value


@compiled
def gains(mixes, newcomer, tables, objective, work, memo, out):
    """out[i] = value of node i with the newcomer less its value without."""
    kinds = np.empty(mixes.shape[1] + 1, np.int64)
    found = np.empty(3)
    for i in range(mixes.shape[0]):
        count = listed(mixes[i], -1, EMPTY, kinds)
        set_value(kinds, count, tables, objective, work, memo, found)
        before = found[0]
        count = listed(mixes[i], -1, newcomer, kinds)
        set_value(kinds, count, tables, objective, work, memo, found)
        out[i] = found[0] - before


@compiled
def losses(mix, tables, objective, work, memo, out):
    """out[seat] = value of the node less its value without the job in that seat."""
    kinds = np.empty(mix.shape[0] + 1, np.int64)
    found = np.empty(3)
    count = listed(mix, -1, EMPTY, kinds)
    set_value(kinds, count, tables, objective, work, memo, found)
    whole = found[0]
    for seat in range(mix.shape[0]):
        out[seat] = 0.0
        if mix[seat] != EMPTY:
            count = listed(mix, seat, EMPTY, kinds)
            set_value(kinds, count, tables, objective, work, memo, found)
            out[seat] = whole - found[0]
