"""Trained classifiers as flat arrays: the same answers as the library that trained them, in numpy and one kernel.

Boosted trees and forests are one form: every leaf has a number per class, the numbers of all trees are added up and
divided, boosting ends in a soft maximum. Pure, for use inside a decision; never imports a learning library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cohabit.predict.features import Floats
from cohabit.predict.flat_arrays import NODES, Arrays, check_nodes, floats
from cohabit.predict.variability_data import CLASSES, Labels

ASKED_TOGETHER = 256  # rows whose distances to all runs are held at once
TREES, NEIGHBOURS, CONSTANT = FORMS = ("trees", "neighbours", "constant")


class FlatClassifier(Protocol):
    """The common interface of all classifiers."""

    @property
    def form(self) -> str:
        """The form, one of FORMS."""
        ...

    @property
    def classes(self) -> Labels:
        """Those of CLASSES it can answer."""
        ...

    def shares(self, rows: Floats) -> Floats:
        """Row by row a share per class of `classes`, as the library's predict_proba."""
        ...

    def arrays(self) -> Arrays:
        """All numbers, by name, for a file."""
        ...


@dataclass(frozen=True, eq=False)
class FlatTrees:
    """Trees one after the other: node -> feature, threshold, children; a leaf has a number per class."""

    classes: Labels
    feature: NDArray[np.int32]
    threshold: Floats
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Floats  # [node, class]
    roots: NDArray[np.int32]
    total: float  # what the sum over trees is divided by
    boosted: bool
    form: str = TREES

    def shares(self, rows: Floats) -> Floats:
        from cohabit.predict.trees import Trees, classes_of_rows

        trees = Trees(*(getattr(self, name) for name in NODES))
        return np.asarray(classes_of_rows(rows.astype(np.float32), trees, self.total, self.boosted))

    def arrays(self) -> Arrays:
        numbers = np.array([self.total, float(self.boosted)])
        return {name: getattr(self, name) for name in ("classes", *NODES)} | {"numbers": numbers}


@dataclass(frozen=True, eq=False)
class FlatNeighbours:
    """The runs themselves, scaled; the nearest `count` of them vote."""

    classes: Labels
    mean: Floats
    deviation: Floats
    points: Floats  # [run, column], scaled
    votes: Floats  # [run, class]: 1 for its own
    count: int
    form: str = NEIGHBOURS

    @cached_property
    def squares(self) -> Floats:
        """The squared length of every run's row."""
        return np.asarray((self.points**2).sum(axis=1))

    def shares(self, rows: Floats) -> Floats:
        scaled = (rows - self.mean) / self.deviation
        found = np.empty((len(rows), len(self.classes)))
        for first in range(0, len(rows), ASKED_TOGETHER):
            part = scaled[first : first + ASKED_TOGETHER]
            far = self.squares - 2.0 * (part @ self.points.T)  # without a row's own square, the same for all
            nearest = np.argpartition(far, self.count - 1, axis=1)[:, : self.count]
            found[first : first + ASKED_TOGETHER] = self.votes[nearest].sum(axis=1) / self.count
        return found

    def arrays(self) -> Arrays:
        names = ("classes", "mean", "deviation", "points", "votes")
        return {name: getattr(self, name) for name in names} | {"count": np.array(self.count)}


@dataclass(frozen=True, eq=False)
class FlatConstant:
    """A classifier that learned from runs of one class only."""

    classes: Labels
    form: str = CONSTANT

    def shares(self, rows: Floats) -> Floats:
        return np.ones((len(rows), 1))

    def arrays(self) -> Arrays:
        return {"classes": self.classes}


def load_classifier(form: str, arrays: Mapping[str, NDArray[np.generic]], inputs: int) -> FlatClassifier:
    """Load a classifier from its arrays, for rows of this width; KeyError or ValueError where they do not fit.

    All indices are checked, because a kernel follows them without checks.
    """

    classes = np.asarray(arrays["classes"], np.int64)
    if not 1 <= len(classes) <= len(CLASSES) or (np.diff(classes) <= 0).any():
        raise ValueError("its classes are not in order")
    if not 0 <= int(classes[0]) <= int(classes[-1]) < len(CLASSES):
        raise ValueError("it answers with a class that does not exist")
    if form == CONSTANT and len(classes) == 1:
        return FlatConstant(classes)
    if form == NEIGHBOURS:
        found = FlatNeighbours(
            classes,
            floats(arrays, "mean"),
            floats(arrays, "deviation"),
            floats(arrays, "points"),
            floats(arrays, "votes"),
            int(arrays["count"]),
        )
        runs = len(found.points)
        shapes = (found.mean.shape, found.deviation.shape, found.points.shape, found.votes.shape)
        if shapes != ((inputs,), (inputs,), (runs, inputs), (runs, len(classes))) or not 1 <= found.count <= runs:
            raise ValueError("its runs do not fit together")
        if not (found.deviation > 0).all():
            raise ValueError("a column has no deviation")
        return found
    if form != TREES:
        raise ValueError(f"no classifier has the form {form!r}")
    feature, left, right, roots = (np.asarray(arrays[name], np.int32) for name in ("feature", "left", "right", "roots"))
    threshold, value, (total, boosted) = (
        floats(arrays, "threshold"),
        floats(arrays, "value"),
        floats(arrays, "numbers").tolist(),
    )
    count = check_nodes(feature, left, right, inputs)
    if (
        threshold.shape != (count,)
        or value.shape != (count, len(classes))
        or (feature < -1).any()
        or not len(roots)
        or not ((roots >= 0) & (roots < count)).all()
        or not total > 0
        or (boosted and len(classes) < 2)
    ):
        raise ValueError("its trees do not fit together")
    return FlatTrees(classes, feature, threshold, left, right, value, roots, total, bool(boosted))
