"""Fitting `law`: lines and a forest over the terms of shared resources, and how much to trust each.

The scale and the weights are decided by predictions about families that took no part in them. A forest or a line that
is worse there than the mean has the weight zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls  # type: ignore[import-untyped]

from cohabit.model.errors import InputError
from cohabit.predict import folds as folding
from cohabit.predict.baselines import single_line
from cohabit.predict.features import CoRuns, Floats
from cohabit.predict.flat_law import FlatLaw
from cohabit.predict.folds import Folds, stream
from cohabit.predict.physics import Terms, fit_terms
from cohabit.predict.pooling import SHIFTS
from cohabit.predict.pooling import scaled as to_scale
from cohabit.predict.trees import flat_nodes

RIDGES = (0.3, 10.0)  # of the two lines, times the root of the number of rows
REPEATS = 2  # of the division, while few rows are asked about
INNER = 4
LEAF_ROWS, INNER_TREES = 3, 10
SHARE_OF_COLUMNS = 0.33


@dataclass(frozen=True)
class _Parts:
    """Predictions of each part on the model's scale: the line, the best single term, the forest."""

    lines: tuple[Floats, ...]  # weights of the terms, then the constant; the last has one term only
    forest: Any

    @property
    def lead(self) -> Floats:
        """The line that the forest has as a column."""
        return self.lines[1][:-1]


def fit_law(data: CoRuns, seed: int, trees: int) -> tuple[FlatLaw, Any]:
    """Return the deployed model, and the library's forest inside it."""
    inner = _inner(data, seed)
    terms = [_terms_of(data, fold.learn) for fold in inner]
    shift = _best_shift(data, inner, terms)
    scaled = to_scale(data.truth, shift)
    asked = np.concatenate([np.flatnonzero(fold.ask) for fold in inner]) if inner.folds else np.arange(len(data))
    left_out: list[NDArray[np.float64]] = []
    for number, (fold, own) in enumerate(zip(inner, terms, strict=True)):
        parts = _fit(data.only(fold.learn), own, scaled[fold.learn], seed + number, INNER_TREES)
        left_out.append(_answers(parts, own, data.only(fold.ask)))
    weights = _weights(left_out, scaled[asked], [float(scaled[fold.learn].mean()) for fold in inner])
    ceiling = float(max(data.truth.max(), 1.0))
    whole = fit_terms(data)
    parts = _fit(data, whole, scaled, seed, max(trees // 4, INNER_TREES))
    own_mean = float(scaled.mean())
    mixed = sum((weight * one for weight, one in zip(weights[:-1], parts.lines, strict=True)), np.zeros(1))
    line, constant = mixed[:-1], float(mixed[-1]) + own_mean * (1.0 - float(weights.sum()))
    feature, threshold, left, right, roots = flat_nodes([tree.tree_ for tree in parts.forest.estimators_])
    value = np.concatenate([tree.tree_.value[:, 0, 0] for tree in parts.forest.estimators_])
    nodes = (feature, threshold, left, right, value, roots)
    return FlatLaw(whole, shift, constant, line, parts.lead, float(weights[-1]), nodes, ceiling), parts.forest


def _inner(data: CoRuns, seed: int) -> Folds:
    """Families left out; without enough of them everything is judged by rows, which is said by nothing but width."""
    try:
        return folding.by_application(data, seed + 1, INNER, repeats=REPEATS)
    except InputError:
        return folding.by_pair(data, seed + 1)


def _terms_of(data: CoRuns, rows: NDArray[np.bool_]) -> Terms:
    return fit_terms(data.only(rows))


def _best_shift(data: CoRuns, inner: Folds, terms: list[Terms]) -> float:
    """Return the scale on which families left out are most likely under the line."""
    best, chosen = -np.inf, SHIFTS[0]
    for shift in SHIFTS:
        scaled, missed, jacobian = to_scale(data.truth, shift), [], []
        for fold, own in zip(inner, terms, strict=True):
            known, new = data.only(fold.learn), data.only(fold.ask)
            line = _line(own, own.of(known.primary, known.beside), scaled[fold.learn], RIDGES[1])
            missed.append(scaled[fold.ask] - own.of(new.primary, new.beside) @ line[:-1] - line[-1])
            jacobian.append(np.log(np.maximum(new.truth, -0.5 * shift) + shift))
        errors = np.concatenate(missed)
        likely = -0.5 * len(errors) * np.log(float(np.mean(errors**2)) + 1e-12) - float(np.concatenate(jacobian).sum())
        if likely > best:
            best, chosen = likely, shift
    return chosen


def _line(terms: Terms, table: Floats, scaled: Floats, strength: float) -> Floats:
    """Least squares with a ridge, rising terms never falling; the last number is the constant."""
    if not table.shape[1]:
        return np.array([scaled.mean()])
    rising = np.flatnonzero(terms.rising_terms())
    free = np.flatnonzero(~terms.rising_terms())
    middle, unit = table.mean(axis=0), table.std(axis=0)
    alive = unit > 1e-9
    standard = np.where(alive, (table - middle) / np.where(alive, unit, 1.0), 0.0)
    columns = np.hstack([standard[:, rising], standard[:, free], -standard[:, free]])
    ridge = strength * float(np.sqrt(len(table)))
    root = np.linalg.cholesky(columns.T @ columns + ridge * np.eye(columns.shape[1]))
    wanted = np.linalg.solve(root, columns.T @ (scaled - scaled.mean()))
    found = nnls(root.T, wanted, maxiter=50 * columns.shape[1])[0]  # the same least squares, as many rows as columns
    weight = np.zeros(table.shape[1])
    weight[rising] = found[: len(rising)]
    weight[free] = found[len(rising) : len(rising) + len(free)] - found[len(rising) + len(free) :]
    weight = np.where(alive, weight / np.where(alive, unit, 1.0), 0.0)
    return np.append(weight, scaled.mean() - middle @ weight)


def _fit(data: CoRuns, terms: Terms, scaled: Floats, seed: int, trees: int) -> _Parts:
    from sklearn.ensemble import RandomForestRegressor

    table = terms.of(data.primary, data.beside)
    lines = (*(_line(terms, table, scaled, one) for one in RIDGES), single_line(terms, table, scaled))
    columns = np.hstack([table, (table @ lines[1][:-1])[:, None]]).astype(np.float32)
    forest = RandomForestRegressor(
        n_estimators=trees,
        max_features=SHARE_OF_COLUMNS,
        min_samples_leaf=max(LEAF_ROWS, len(data) // 300),
        monotonic_cst=np.append(terms.rising_terms(), True).astype(np.int8),
        random_state=int(stream(seed, "fit law").integers(2**31)),
    ).fit(columns, scaled)
    return _Parts(lines, forest)


def _answers(parts: _Parts, terms: Terms, new: CoRuns) -> Floats:
    """Return the answers of every line and of the forest: [row, part]."""
    table = terms.of(new.primary, new.beside)
    columns = np.hstack([table, (table @ parts.lead)[:, None]]).astype(np.float32)
    found = [table @ one[:-1] + one[-1] for one in parts.lines]
    return np.stack([*found, parts.forest.predict(columns)], axis=1)


def _weights(left_out: list[Floats], scaled: Floats, means: list[float]) -> Floats:
    """Weights of the parts, none below zero and one in sum at most: the rest is the mean."""
    if not left_out:
        return np.zeros(len(RIDGES) + 2)
    base = np.concatenate([np.full(len(part), mean) for part, mean in zip(left_out, means, strict=True)])
    columns = np.concatenate(left_out) - base[:, None]
    found = nnls(columns, scaled - base)[0]
    return np.asarray(found / max(1.0, float(found.sum())))
