"""The deployed predictor of degradations: from the counters of two applications to percent of slow-down.

Pure functions of arrays, for use inside a decision: no clock, no files, no learning library. Answers below zero count
as zero. With a margin (`--quantile`) the answer is raised so that it is exceeded as rarely as asked: a pair that turns
out worse than promised costs more than one that was not made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cohabit.predict.features import Floats, Schema
from cohabit.predict.flat import FlatFactor, FlatModel

MARGIN_FLOOR_PCT = 10.0  # a margin grows with the answer; this much of it is there even for an answer of zero


class Predictor(Protocol):
    """The interface that policies use."""

    @property
    def schema(self) -> Schema:
        """The counters it uses."""
        ...

    def estimate(self, primary_rows: Floats, other_rows: Floats) -> Floats:
        """Percent by which row i of the first slows beside row i of the second."""
        ...

    def estimate_pairs(self, primary_rows: Floats, other_rows: Floats) -> Floats:
        """Percent by which every row of the first slows beside every row of the second."""
        ...


@dataclass(frozen=True)
class DegradationModel:
    """A trained model as it is used."""

    kind: str  # forest, mlp, svr, elastic-net, factor
    schema: Schema
    flat: FlatModel
    margin: float = 0.0  # raised by this times (answer + floor)

    def raw(
        self,
        primary_rows: Floats,
        other_rows: Floats,
        app: Sequence[str] | None = None,
        other: Sequence[str] | None = None,
    ) -> Floats:
        """The model's own answer, which may be below zero; names help where it knows the applications."""
        answers = self.flat.rows(primary_rows, other_rows)
        if app is not None and other is not None and isinstance(self.flat, FlatFactor) and self.flat.names:
            answers = self.flat.known(app, other, answers)
        return answers

    def finished(self, raw: Floats) -> Floats:
        """Return answers kept above zero and with the margin."""
        answer = np.maximum(raw, 0.0)
        return np.asarray(answer + self.margin * (answer + MARGIN_FLOOR_PCT))

    def estimate(self, primary_rows: Floats, other_rows: Floats) -> Floats:
        """Percent by which row i of the first slows beside row i of the second."""
        return self.finished(self.raw(primary_rows, other_rows))

    def estimate_pairs(self, primary_rows: Floats, other_rows: Floats) -> Floats:
        """Percent by which every row of the first slows beside every row of the second."""
        return self.finished(self.flat.pairs(primary_rows, other_rows))

    def estimate_matrix(self, names: Sequence[str], primary_rows: Floats, other_rows: Floats) -> Floats:
        """All pairs of named applications; what is known of them by name is used."""
        raw = self.flat.pairs(primary_rows, other_rows)
        if isinstance(self.flat, FlatFactor) and self.flat.names:
            count = len(names)
            app = [name for name in names for _ in range(count)]
            raw = self.flat.known(app, list(names) * count, raw.ravel()).reshape(count, count)
        return self.finished(raw)
