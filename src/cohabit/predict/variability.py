"""The deployed predictor of variability: from the present counters, whether a job started now would vary.

Pure functions of arrays, for use inside a decision: no clock, no files, no learning library. Names are looked up once
(`bind`); a decision takes the ready vector of a telemetry window. A counter that is missing is named, never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from cohabit.model.telemetry import WORKLOAD_TYPES
from cohabit.predict.features import Floats
from cohabit.predict.variability_calibration import Calibration
from cohabit.predict.variability_data import CLASSES, NONE, TYPE_COLUMNS, Labels, Norms
from cohabit.predict.variability_flat import FlatClassifier


@dataclass(frozen=True)
class Verdict:
    """The expectation for a run that starts now; none if an input is missing."""

    label: int  # of CLASSES
    probability: tuple[float, float, float]  # calibrated, of none, little, variation
    slowdown: float  # expected run time, as a multiple of the application's mean
    missing: tuple[str, ...] = ()  # what the model needs and was not there

    @property
    def known(self) -> bool:
        """Return whether there is an answer."""
        return not self.missing


@dataclass(frozen=True, eq=False)
class VariabilityModel:
    """A trained model as it is used."""

    kind: str  # adaboost, extra-trees, forest, knn
    columns: tuple[str, ...]  # everything it was trained on, types of work last
    chosen: NDArray[np.int64]  # the columns it uses
    flat: FlatClassifier
    calibration: Calibration
    norms: Norms  # frozen: later runs are judged with these
    slowdown: Floats  # run time / mean of the application, expected in each class

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of the columns it uses."""
        return tuple(self.columns[at] for at in self.chosen.tolist())

    def shares(self, chosen_rows: Floats) -> Floats:
        """Row by row the model's own share of every class, from the chosen columns alone."""
        own = self.flat.shares(chosen_rows)
        if len(self.flat.classes) == len(CLASSES):
            return own
        found = np.zeros((len(chosen_rows), len(CLASSES)))
        found[:, self.flat.classes] = own
        return found

    def probabilities(self, features: Floats) -> Floats:
        """Calibrated probability of every class, of a vector (or row by row of a table) in the order of `columns`."""
        found = self.calibration.apply(self.shares(np.atleast_2d(features)[:, self.chosen]))
        return cast(Floats, found[0] if features.ndim == 1 else found)

    def classify(self, features: Floats) -> Labels:
        """The class with the largest share for every row of a table: what the library's own `predict` says."""
        return np.asarray(self.shares(features[:, self.chosen]).argmax(axis=1), np.int64)

    def bind(self, feature_names: Sequence[str]) -> Binding:
        """Return the model for vectors of these names (see `model.telemetry.feature_names`); each is looked up once."""
        place = {name: at for at, name in enumerate(feature_names)}
        kept = self.kept
        found = [(at, place[name]) for at, name in enumerate(kept) if name in place]
        target, source = np.array(found, np.int64).reshape(-1, 2).T
        blanks = {}
        for kind, column in zip(WORKLOAD_TYPES, TYPE_COLUMNS, strict=True):
            blank = np.zeros((1, len(kept)))
            if column in kept:
                blank[0, kept.index(column)] = 1.0
            blanks[kind] = blank
        absent = tuple(name for name in kept if name not in place and name not in TYPE_COLUMNS)
        return Binding(self, source.copy(), target.copy(), blanks, absent)


@dataclass(frozen=True, eq=False)
class Binding:
    """A model that knows where its features stand in a vector."""

    model: VariabilityModel
    source: NDArray[np.int64]  # places in the vector
    target: NDArray[np.int64]  # where they go among the chosen columns
    blanks: dict[str, Floats]  # by type of work: the chosen columns with the type filled in
    absent: tuple[str, ...]  # chosen columns no such vector has

    def judge(self, vector: Floats, workload_type: str) -> Verdict:
        """Return the verdict for a run of this type of work and this vector."""
        blank = self.blanks.get(workload_type)
        if self.absent or blank is None:
            return self._unknown(self.absent or ("workload_type",))
        row = blank.copy()
        row[0, self.target] = vector[self.source]
        if not np.isfinite(row.sum()):
            empty = np.flatnonzero(~np.isfinite(row[0])).tolist()
            if empty:
                return self._unknown(tuple(self.model.kept[at] for at in empty))
        shares = self.model.shares(row)
        chances = self.model.calibration.apply(shares)[0]
        none, little, variation = chances.tolist()
        return Verdict(int(shares[0].argmax()), (none, little, variation), float(chances @ self.model.slowdown))

    def _unknown(self, missing: tuple[str, ...]) -> Verdict:
        return Verdict(NONE, (0.0, 0.0, 0.0), 1.0, missing)
