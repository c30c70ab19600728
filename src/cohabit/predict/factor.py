"""Pressure and sensitivity: degradation as a product of one job's sensitivity and the other's pressure (low rank).

A few co-runs per application pin down its two vectors, so n applications need O(n) co-runs instead of n^2 (the paper's
section II-B suggests it and does not do it). A second, linear step learns the vectors from counters, for applications
that never shared a node. Alternating least squares with a ridge; deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohabit.predict.features import CoRuns, Floats, Scaling, fit_scaling, profiles_of
from cohabit.predict.flat import FlatFactor, Sides

SWEEPS = 30
RIDGES = (0.1, 1.0, 10.0, 100.0, 1000.0)  # of the step from counters to vectors
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Factors:
    """Vectors of named applications."""

    names: tuple[str, ...]
    sensitivity: Floats  # [application, rank]
    pressure: Floats


def factorise(data: CoRuns, rank: int, ridge: float) -> Factors:
    """Vectors whose products come nearest to the measured degradations."""
    names = data.applications
    place = {name: at for at, name in enumerate(names)}
    first = np.array([place[name] for name in data.app])
    second = np.array([place[name] for name in data.other])
    scale = float(np.abs(data.truth).mean()) or 1.0
    target = data.truth / scale
    left, right = _start(first, second, target, len(names), rank)
    for _ in range(SWEEPS):
        _solve_side(left, right, first, second, target, ridge)
        _solve_side(right, left, second, first, target, ridge)
    root = np.sqrt(scale)
    return Factors(names, left * root, right * root)


def _start(first: Ints, second: Ints, target: Floats, count: int, rank: int) -> tuple[Floats, Floats]:
    """Averages for the first direction; the others begin as fixed waves over the applications, small."""
    mean = float(target.mean())
    left, right = np.empty((count, rank)), np.empty((count, rank))
    size = np.sqrt(max(abs(mean), 1e-6))
    for side, index in ((left, first), (right, second)):
        total, seen = np.bincount(index, target, count), np.bincount(index, minlength=count)
        side[:, 0] = np.where(seen > 0, total / np.maximum(seen, 1), mean) / size
        for column in range(1, rank):
            side[:, column] = 0.1 * size * np.cos(np.arange(count) * column * 2.4 + len(index) % 7)
    return left, right


def _solve_side(side: Floats, fixed: Floats, mine: Ints, theirs: Ints, target: Floats, ridge: float) -> None:
    """Least squares for every application in turn, drawn towards the average vector where it has few co-runs."""
    middle = side.mean(axis=0)
    for at in range(len(side)):
        rows = mine == at
        if not rows.any():
            side[at] = middle
            continue
        known = fixed[theirs[rows]]
        normal = known.T @ known + ridge * np.eye(side.shape[1])
        side[at] = np.linalg.solve(normal, known.T @ target[rows] + ridge * middle)


def fit_factor(data: CoRuns, rank: int, ridge: float) -> FlatFactor:
    """Vectors of the known applications, and how to guess them from counters."""
    data = data.in_pairs()
    factors, profiles = factorise(data, rank, ridge), profiles_of(data)
    place = {name: at for at, name in enumerate(factors.names)}
    first = list(dict.fromkeys(data.app))
    own = data.primary[[data.app.index(name) for name in first]]
    second = list(dict.fromkeys(data.other))
    theirs = data.beside[[data.other.index(name) for name in second]]
    sides = Sides(fit_scaling(own), fit_scaling(theirs))
    sensitive = _linear(sides.primary, own, factors.sensitivity[[place[name] for name in first]])
    pressing = _linear(sides.beside, theirs, factors.pressure[[place[name] for name in second]])
    known = [place[name] for name in profiles.names]
    return FlatFactor(sides, sensitive, pressing, profiles.names, factors.sensitivity[known], factors.pressure[known])


def _linear(scaling: Scaling, rows: Floats, vectors: Floats) -> Floats:
    """Ridge regression from counters to vectors; the ridge that predicts a left-out application best."""
    x, mean = scaling.apply(rows), vectors.mean(axis=0)
    if not x.shape[1]:
        return np.vstack([np.zeros((0, vectors.shape[1])), mean])
    gram, wanted = x @ x.T, vectors - mean
    best, chosen = np.inf, RIDGES[-1]
    for ridge in RIDGES:
        hat = gram @ np.linalg.inv(gram + ridge * np.eye(len(x)))
        left_out = (wanted - hat @ wanted) / (1.0 - np.diag(hat))[:, None]  # the error had it not been learned from
        if float((left_out**2).sum()) < best:
            best, chosen = float((left_out**2).sum()), ridge
    weights = x.T @ np.linalg.solve(gram + chosen * np.eye(len(x)), wanted)
    return np.vstack([weights, mean])


def references(data: CoRuns, count: int) -> tuple[str, ...]:
    """Return the applications that differ most in their counters: all others run beside these, in both orders."""
    profiles = profiles_of(data)
    if len(profiles.names) <= count:
        return profiles.names
    rows = np.hstack(
        [fit_scaling(profiles.primary).apply(profiles.primary), fit_scaling(profiles.beside).apply(profiles.beside)]
    )
    chosen = [int(np.argmax((rows**2).sum(axis=1)))]
    while len(chosen) < count:
        distance = ((rows[:, None, :] - rows[None, chosen, :]) ** 2).sum(axis=2).min(axis=1)
        chosen.append(int(np.argmax(distance)))
    return tuple(profiles.names[at] for at in chosen)
