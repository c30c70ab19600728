"""The deployed form of `law`: terms of shared resources (physics.py), a line and a forest over them.

On the scale log((percent + shift) / shift): a constant, a line in the terms, and a forest over them that never falls
where a neighbour wants more. Never more than was seen. Pure; never imports a learning library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohabit.predict.features import Floats
from cohabit.predict.flat_arrays import NODES, Arrays, check_nodes, floats
from cohabit.predict.physics import Terms
from cohabit.predict.pooling import percent

CHUNK = 20_000  # rows at once: terms of all pairs are never kept together


@dataclass(frozen=True)
class FlatLaw:
    """The numbers of a trained law."""

    terms: Terms
    shift: float  # percent
    constant: float
    line: Floats  # weight of every term
    lead: Floats  # the line that is the forest's last column
    weight: float  # of the forest
    nodes: tuple[NDArray[np.generic], ...]  # as NODES
    ceiling: float  # percent: the most that was ever seen

    def table(self, terms: Floats) -> NDArray[np.float32]:
        """Return the forest's columns."""
        return np.hstack([terms, (terms @ self.lead)[:, None]]).astype(np.float32)

    def mixed(self, terms: Floats, forest: Floats | float) -> Floats:
        """Return percent from the terms and the forest's answers."""
        middle = self.constant + terms @ self.line + self.weight * forest
        return np.minimum(percent(np.asarray(middle), self.shift), self.ceiling)

    def rows(self, primary: Floats, beside: Floats) -> Floats:
        from cohabit.predict.trees import Trees, answers_of_rows

        parts = [np.zeros(0)]
        for at in range(0, len(primary), CHUNK):
            terms = self.terms.of(primary[at : at + CHUNK], beside[at : at + CHUNK])
            forest: Floats | float = 0.0
            if self.weight:
                table = self.table(terms)
                forest = np.asarray(answers_of_rows(table, table[:, :0], Trees(*self.nodes)))  # type: ignore[arg-type]
            parts.append(self.mixed(terms, forest))
        return np.concatenate(parts)

    def pairs(self, primary: Floats, beside: Floats) -> Floats:
        first, second = (part.ravel() for part in np.indices((len(primary), len(beside))))
        return self.rows(primary[first], beside[second]).reshape(len(primary), len(beside))

    def arrays(self) -> Arrays:
        numbers = np.array([self.shift, self.constant, self.weight, self.ceiling])
        own: Arrays = {"line": self.line, "lead": self.lead, "numbers": numbers}
        return self.terms.arrays() | own | dict(zip(NODES, self.nodes, strict=True))


def load_law(arrays: Mapping[str, NDArray[np.generic]], primary: int, other: int) -> FlatLaw:
    """From the arrays of a file, for tables of these widths; KeyError or ValueError where they do not fit."""
    terms = Terms.load(arrays, primary, other)
    line, lead = floats(arrays, "line"), floats(arrays, "lead")
    shift, constant, weight, ceiling = floats(arrays, "numbers").tolist()
    if not len(line) == len(lead) == len(terms.rising_terms()) or shift <= 0:
        raise ValueError("its line does not fit its terms")
    feature, left, right, roots = (np.asarray(arrays[name], np.int32) for name in ("feature", "left", "right", "roots"))
    threshold, value = floats(arrays, "threshold"), floats(arrays, "value")
    count = check_nodes(feature, left, right, len(line) + 1)
    if not len(threshold) == len(value) == count or not len(roots) or not ((roots >= 0) & (roots < count)).all():
        raise ValueError("its trees do not fit together")
    return FlatLaw(terms, shift, constant, line, lead, weight, (feature, threshold, left, right, value, roots), ceiling)
