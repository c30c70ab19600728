"""Answers of a forest of trees, compiled: for all rows, or all pairs of two tables without ever writing the pairs down.

Where there are two tables, features 0.. are columns of the first, those after them columns of the second. Values are
compared as 32-bit floats, as the library that grew the trees does, so both give the same answer. Only flat models and
what grows their trees call this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import compiled_free

LEAF = -1
Integers = NDArray[np.int32]


class Trees(NamedTuple):
    """Trees one after the other: node -> feature, threshold and children; a leaf has a value, or one per class."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]
    roots: NDArray[np.int32]


def flat_nodes(trees: Sequence[Any]) -> tuple[Integers, NDArray[np.float64], Integers, Integers, Integers]:
    """The library's trees one after the other: feature (LEAF at a leaf), threshold, children, and where each begins."""
    roots = np.cumsum([0, *(tree.node_count for tree in trees[:-1])]).astype(np.int32)
    feature, left, right = [], [], []
    for tree, root in zip(trees, roots.tolist(), strict=True):
        inner = tree.children_left >= 0
        feature.append(np.where(inner, tree.feature, LEAF))
        left.append(np.where(inner, tree.children_left + root, 0))
        right.append(np.where(inner, tree.children_right + root, 0))
    nodes = (np.concatenate(part).astype(np.int32) for part in (feature, left, right))
    feature_at, left_at, right_at = nodes
    return feature_at, np.concatenate([tree.threshold for tree in trees]), left_at, right_at, roots


@compiled_free
def answers_of_rows(first, second, trees):
    """The forest's answer for row i of the first table beside row i of the second."""
    feature, threshold, left, right, value, roots = trees
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
def answers_of_pairs(first, second, trees):
    """The forest's answer for every row of the first table beside every row of the second."""
    feature, threshold, left, right, value, roots = trees
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


@compiled_free
def classes_of_rows(rows, trees, total, boosted):
    """Per row a share of every class: what the leaves of all trees say, added up; boosting ends in a soft maximum."""
    feature, threshold, left, right, value, roots = trees
    classes = value.shape[1]
    found = np.zeros((len(rows), classes))
    for i in range(len(rows)):
        for root in roots:
            node = root
            while feature[node] != LEAF:
                node = left[node] if rows[i, feature[node]] <= threshold[node] else right[node]
            for c in range(classes):
                found[i, c] += value[node, c]
        for c in range(classes):
            found[i, c] /= total
        if boosted:
            sum_of_all, largest = 0.0, found[i].max()
            for c in range(classes):
                found[i, c] = np.exp((found[i, c] - largest) / (classes - 1))
                sum_of_all += found[i, c]
            for c in range(classes):
                found[i, c] /= sum_of_all
    return found


@compiled_free
def along_curves(shares, knots, chances):
    """Per row the height of every class's curve, brought to a sum of 1; where all are zero, the shares themselves."""
    found = np.empty_like(shares)
    last = knots.shape[1] - 1
    for i in range(len(shares)):
        total = 0.0
        for c in range(shares.shape[1]):
            x = shares[i, c]
            at = np.searchsorted(knots[c], x)  # the first knot at or beyond x
            if at == 0:
                found[i, c] = chances[c, 0]
            elif at > last:
                found[i, c] = chances[c, last]
            else:
                low, high = knots[c, at - 1], knots[c, at]
                part = (x - low) / (high - low)
                found[i, c] = chances[c, at - 1] + part * (chances[c, at] - chances[c, at - 1])
            total += found[i, c]
        for c in range(shares.shape[1]):
            found[i, c] = found[i, c] / total if total > 0.0 else shares[i, c]
    return found
