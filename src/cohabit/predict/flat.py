"""Trained models as flat arrays: the same answers as the library that trained them, in numpy and one kernel.

Every model answers for aligned rows (`rows`) and for all pairs of two tables (`pairs`), the latter without writing the
pairs down: what depends on one side only is computed once per application. Pure; never imports a learning library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cohabit.model.profile import key_parts
from cohabit.predict.features import Floats, Scaling
from cohabit.predict.flat_arrays import NODES, Arrays, check_nodes, floats
from cohabit.predict.flat_law import load_law


class FlatModel(Protocol):
    """The common interface of all models; answers are percentages, not yet kept above zero."""

    def rows(self, primary: Floats, beside: Floats) -> Floats:
        """Predict row i of the first table beside row i of the second."""
        ...

    def pairs(self, primary: Floats, beside: Floats) -> Floats:
        """Predict every row of the first table beside every row of the second."""
        ...

    def arrays(self) -> Arrays:
        """All numbers, by name, for a file."""
        ...


@dataclass(frozen=True)
class Sides:
    """The scalings of the two tables."""

    primary: Scaling
    beside: Scaling

    def arrays(self) -> Arrays:
        """By name."""
        return {
            f"{side}.{part}": getattr(scaling, part)
            for side, scaling in (("primary", self.primary), ("beside", self.beside))
            for part in ("chosen", "unit", "mean", "deviation")
        }

    @staticmethod
    def load(arrays: Mapping[str, NDArray[np.generic]]) -> Sides:
        """From the arrays of a file."""
        primary, beside = (
            Scaling(
                np.asarray(arrays[f"{side}.chosen"], np.int64),
                floats(arrays, f"{side}.unit"),
                floats(arrays, f"{side}.mean"),
                floats(arrays, f"{side}.deviation"),
            )
            for side in ("primary", "beside")
        )
        return Sides(primary, beside)


@dataclass(frozen=True)
class FlatForest:
    """Trees one after the other: node -> feature, threshold, children; a leaf has a value."""

    sides: Sides  # only the choice of columns; a tree does not depend on scale
    feature: NDArray[np.int32]
    threshold: Floats
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Floats
    roots: NDArray[np.int32]

    def _tables(self, primary: Floats, beside: Floats) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        own, other = self.sides.primary.chosen, self.sides.beside.chosen
        return primary[:, own].astype(np.float32), beside[:, other].astype(np.float32)

    def rows(self, primary: Floats, beside: Floats) -> Floats:
        from cohabit.predict.trees import Trees, answers_of_rows

        return np.asarray(
            answers_of_rows(*self._tables(primary, beside), Trees(*(getattr(self, name) for name in NODES)))
        )

    def pairs(self, primary: Floats, beside: Floats) -> Floats:
        from cohabit.predict.trees import Trees, answers_of_pairs

        return np.asarray(
            answers_of_pairs(*self._tables(primary, beside), Trees(*(getattr(self, name) for name in NODES)))
        )

    def _nodes(self) -> Arrays:
        return {name: getattr(self, name) for name in NODES}

    def arrays(self) -> Arrays:
        return self.sides.arrays() | self._nodes()


@dataclass(frozen=True)
class FlatNetwork:
    """Layers of rectified sums; without hidden layers a linear model."""

    sides: Sides
    weights: tuple[Floats, ...]  # [input, output] per layer; the first layer's inputs are primary, then other
    biases: tuple[Floats, ...]
    unit: float  # percent per unit of output

    def _through(self, hidden: Floats) -> Floats:
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            hidden = np.maximum(hidden, 0.0) @ weight + bias
        return np.asarray(hidden[..., 0] * self.unit)

    def _halves(self, primary: Floats, beside: Floats) -> tuple[Floats, Floats]:
        width = len(self.sides.primary.chosen)
        first = self.sides.primary.apply(primary) @ self.weights[0][:width] + self.biases[0]
        return first, self.sides.beside.apply(beside) @ self.weights[0][width:]

    def rows(self, primary: Floats, beside: Floats) -> Floats:
        first, second = self._halves(primary, beside)
        return self._through(first + second)

    def pairs(self, primary: Floats, beside: Floats) -> Floats:
        first, second = self._halves(primary, beside)
        return self._through(first[:, None, :] + second[None, :, :])

    def arrays(self) -> Arrays:
        layers = {f"weight{at}": weight for at, weight in enumerate(self.weights)}
        layers |= {f"bias{at}": bias for at, bias in enumerate(self.biases)}
        return self.sides.arrays() | layers | {"output_unit": np.array(self.unit)}


@dataclass(frozen=True)
class FlatSupport:
    """Support vectors with a Gaussian kernel: the distance to each is the sum of both sides' distances."""

    sides: Sides
    vectors: Floats
    weights: Floats
    intercept: float
    gamma: float
    unit: float

    def _distances(self, primary: Floats, beside: Floats) -> tuple[Floats, Floats]:
        width = len(self.sides.primary.chosen)
        return (
            _squared(self.sides.primary.apply(primary), self.vectors[:, :width]),
            _squared(self.sides.beside.apply(beside), self.vectors[:, width:]),
        )

    def _answer(self, distances: Floats) -> Floats:
        return np.asarray((np.exp(-self.gamma * distances) @ self.weights + self.intercept) * self.unit)

    def rows(self, primary: Floats, beside: Floats) -> Floats:
        first, second = self._distances(primary, beside)
        return self._answer(first + second)

    def pairs(self, primary: Floats, beside: Floats) -> Floats:
        first, second = self._distances(primary, beside)
        near, far = np.exp(-self.gamma * first) * self.weights, np.exp(-self.gamma * second)
        return np.asarray((near @ far.T + self.intercept) * self.unit)

    def arrays(self) -> Arrays:
        return self.sides.arrays() | {
            "vectors": self.vectors,
            "weights": self.weights,
            "numbers": np.array([self.intercept, self.gamma, self.unit]),
        }


def _squared(rows: Floats, vectors: Floats) -> Floats:
    total = (rows**2).sum(axis=1)[:, None] + (vectors**2).sum(axis=1)[None, :] - 2.0 * rows @ vectors.T
    return np.asarray(np.maximum(total, 0.0))


@dataclass(frozen=True)
class FlatFactor:
    """Sensitivity of the first times pressure of the second; both from counters, or as measured for known names."""

    sides: Sides
    sensitive: Floats  # [column + 1, rank]: linear in the scaled counters, the last row is the constant
    pressing: Floats
    names: tuple[str, ...] = ()  # applications whose own vectors were learned from their co-runs
    sensitivity: Floats | None = None
    pressure: Floats | None = None

    def _vectors(self, primary: Floats, beside: Floats) -> tuple[Floats, Floats]:
        own, other = self.sides.primary.apply(primary), self.sides.beside.apply(beside)
        return own @ self.sensitive[:-1] + self.sensitive[-1], other @ self.pressing[:-1] + self.pressing[-1]

    def rows(self, primary: Floats, beside: Floats) -> Floats:
        first, second = self._vectors(primary, beside)
        return np.asarray((first * second).sum(axis=1))

    def pairs(self, primary: Floats, beside: Floats) -> Floats:
        first, second = self._vectors(primary, beside)
        return np.asarray(first @ second.T)

    def known(self, app: Sequence[str], other: Sequence[str], answers: Floats) -> Floats:
        """The answers for aligned names, with what was learned of known applications in place of their counters'.

        A user's program is the application of its name.
        """
        assert self.sensitivity is not None and self.pressure is not None
        place = {name: at for at, name in enumerate(self.names)}
        better = answers.copy()
        for row, pair in enumerate(zip(app, other, strict=True)):
            one, two = (place.get(name, place.get(key_parts(name)[0])) for name in pair)
            if one is not None and two is not None:
                better[row] = float(self.sensitivity[one] @ self.pressure[two])
        return better

    def arrays(self) -> Arrays:
        own = self.sides.arrays() | {"sensitive": self.sensitive, "pressing": self.pressing}
        if self.sensitivity is not None and self.pressure is not None:
            own |= {"sensitivity": self.sensitivity, "pressure": self.pressure}
        return own


def load_flat(
    form: str, arrays: Mapping[str, NDArray[np.generic]], primary: int, other: int, names: Sequence[str] = ()
) -> FlatModel:
    """Load a model from its arrays, for tables of these widths; KeyError or ValueError where they do not fit.

    All indices are checked, because a kernel follows them without checks.
    """
    if form == "law":
        return load_law(arrays, primary, other)
    sides = Sides.load(arrays)
    for scaling, width in ((sides.primary, primary), (sides.beside, other)):
        if scaling.chosen.size and not 0 <= int(scaling.chosen.min()) <= int(scaling.chosen.max()) < width:
            raise ValueError("a column it uses does not exist")
    inputs = len(sides.primary.chosen) + len(sides.beside.chosen)
    if form == "forest":
        feature, left, right, roots = (
            np.asarray(arrays[name], np.int32) for name in ("feature", "left", "right", "roots")
        )
        threshold, value = floats(arrays, "threshold"), floats(arrays, "value")
        count = check_nodes(feature, left, right, inputs)
        if (
            not len(threshold) == len(value) == count
            or (feature < -1).any()
            or not ((roots >= 0) & (roots < count)).all()
            or not len(roots)
        ):
            raise ValueError("its trees do not fit together")
        return FlatForest(sides, feature, threshold, left, right, value, roots)
    if form == "network":
        layers = sum(name.startswith("weight") for name in arrays)
        weights = tuple(floats(arrays, f"weight{at}") for at in range(layers))
        biases = tuple(floats(arrays, f"bias{at}") for at in range(layers))
        if not weights or weights[0].shape[0] != inputs:
            raise ValueError("its first layer has other columns")
        return FlatNetwork(sides, weights, biases, float(floats(arrays, "output_unit")))
    if form == "support":
        intercept, gamma, unit = floats(arrays, "numbers").tolist()
        return FlatSupport(sides, floats(arrays, "vectors"), floats(arrays, "weights"), intercept, gamma, unit)
    if form == "factor":
        own = [floats(arrays, name) if name in arrays else None for name in ("sensitivity", "pressure")]
        return FlatFactor(sides, floats(arrays, "sensitive"), floats(arrays, "pressing"), tuple(names), own[0], own[1])
    raise ValueError(f"no model has the form {form!r}")
