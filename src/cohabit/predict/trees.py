"""Walking the trees of a forest, compiled: all rows, or all pairs of two tables without ever writing the pairs down.

Features 0.. are columns of the first table, those after them columns of the second. Values are compared as 32-bit
floats, as the library that grew the trees does, so both give the same answer. Only `flat` calls this module.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_free

LEAF = -1


@compiled_free
def walk_rows(first, second, feature, threshold, left, right, value, roots):
    """The forest's answer for row i of the first table beside row i of the second."""
    width, found = first.shape[1], np.zeros(len(first))
    for i in range(len(first)):
        for root in roots:
            node = root
            while feature[node] != LEAF:
                f = feature[node]
                x = first[i, f] if f < width else second[i, f - width]
                node = left[node] if x <= threshold[node] else right[node]
            found[i] += value[node]
        found[i] /= len(roots)
    return found


@compiled_free
def walk_pairs(first, second, feature, threshold, left, right, value, roots):
    """The forest's answer for every row of the first table beside every row of the second."""
    width, found = first.shape[1], np.zeros((len(first), len(second)))
    for root in roots:  # one tree at a time stays in the cache
        for i in range(len(first)):
            for j in range(len(second)):
                node = root
                while feature[node] != LEAF:
                    f = feature[node]
                    x = first[i, f] if f < width else second[j, f - width]
                    node = left[node] if x <= threshold[node] else right[node]
                found[i, j] += value[node]
    return found / len(roots)
