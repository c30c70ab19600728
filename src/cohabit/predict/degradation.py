"""The deployed predictor of degradations: from the counters of two applications to percent of slow-down.

Pure functions of arrays, for use inside a decision: no clock, no files, no learning library. Answers below zero count
as zero, and none is beyond what was seen. An answer has an interval, and it moves with the co-runs that are known of
a program (pooling.py). With a margin (`--quantile`) the answer is raised so that it is exceeded as rarely as asked: a
pair that turns out worse than promised costs more than one that was not made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from cohabit.predict.features import CoRuns, Flags, Floats, Schema
from cohabit.predict.flat import FlatFactor, FlatModel
from cohabit.predict.pooling import Judged, Pooled

MARGIN_FLOOR_PCT = 10.0  # a margin grows with the answer; this much of it is there even for an answer of zero
STRANGE_COLUMNS = 0.05  # share of the columns that may lie beyond what was learned from
SLACK = 0.1  # of a column's range


class Predictor(Protocol):
    """The interface that policies use."""

    @property
    def schema(self) -> Schema:
        """The counters it uses."""
        ...

    def judge_pairs(self, names: Sequence[str], primary_rows: Floats, other_rows: Floats) -> Judged:
        """Percent by which every named program of the first slows beside every one of the second, with intervals."""
        ...


@dataclass(frozen=True)
class DegradationModel:
    """A trained model as it is used."""

    kind: str  # law, forest, mlp, svr, elastic-net, factor
    schema: Schema
    flat: FlatModel
    margin: float = 0.0  # raised by this times (answer + floor)
    pooled: Pooled | None = None  # None: no intervals, and nothing is learned from co-runs
    lowest: Floats | None = None  # of every column learned from, the slowed program's first
    highest: Floats | None = None

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
        """Return answers kept above zero, at most what was seen, and with the margin."""
        ceiling = np.inf if self.pooled is None else self.pooled.ceiling
        return self.raised(np.clip(raw, 0.0, ceiling))

    def raised(self, answer: Floats) -> Floats:
        """Return answers with the margin."""
        return np.asarray(answer + self.margin * (answer + MARGIN_FLOOR_PCT))

    def estimate(self, primary_rows: Floats, other_rows: Floats) -> Floats:
        """Percent by which row i of the first slows beside row i of the second, as far as counters tell."""
        return self.finished(self.raw(primary_rows, other_rows))

    def estimate_pairs(self, primary_rows: Floats, other_rows: Floats) -> Floats:
        """Percent by which every row of the first slows beside every row of the second, as far as counters tell."""
        return self.finished(self.flat.pairs(primary_rows, other_rows))

    def judge(
        self, primary_rows: Floats, other_rows: Floats, app: Sequence[str], other: Sequence[Sequence[str]]
    ) -> Judged:
        """Answers about aligned rows of named programs, with intervals; of a program without co-runs the counters'."""
        raw = self.raw(primary_rows, other_rows, app, ["+".join(group) for group in other])
        return self.judged(raw, app, other, self.outside(primary_rows, other_rows))

    def judge_pairs(self, names: Sequence[str], primary_rows: Floats, other_rows: Floats) -> Judged:
        """Percent by which every named program of the first slows beside every one of the second, with intervals."""
        count = len(names)
        app = [name for name in names for _ in range(count)]
        raw = self.flat.pairs(primary_rows, other_rows).ravel()
        if isinstance(self.flat, FlatFactor) and self.flat.names:
            raw = self.flat.known(app, list(names) * count, raw)
        first, second = (part.ravel() for part in np.indices((count, count)))
        own, theirs = self.outside(primary_rows, other_rows[:, :0]), self.outside(primary_rows[:, :0], other_rows)
        outside = own[first] | theirs[second]
        found = self.judged(raw, app, [(name,) for name in names] * count, outside)
        return Judged(*(part.reshape(count, count) for part in found))

    def judged(self, raw: Floats, app: Sequence[str], other: Sequence[Sequence[str]], outside: Flags) -> Judged:
        """Answers of these programs from what the counters say (`raw`)."""
        if self.pooled is None:
            return Judged(*[self.finished(raw)] * 4)
        median, expected, low, high = self.pooled.judged(raw, app, other, outside)
        median, expected = self.raised(median), self.raised(expected)
        return Judged(median, np.maximum(expected, median), low, np.maximum(high, median))

    def outside(self, primary_rows: Floats, other_rows: Floats) -> Flags:
        """Return for each row whether its counters lie beyond those learned from; a side without columns does not."""
        found = np.zeros(max(len(primary_rows), len(other_rows)), bool)
        if self.lowest is None or self.highest is None:
            return found
        slack, width = SLACK * (self.highest - self.lowest), len(self.schema.primary)
        low, high = self.lowest - slack, self.highest + slack
        for rows, place in ((primary_rows, slice(0, width)), (other_rows, slice(width, None))):
            if rows.shape[1]:
                strange = ((rows < low[place]) | (rows > high[place])).mean(axis=1)
                found |= strange > STRANGE_COLUMNS
        return found

    def taught(self, data: CoRuns) -> DegradationModel:
        """Return the model after these co-runs; its answers from counters stay, what it knows of programs moves."""
        if self.pooled is None or not len(data):
            return self
        raw = self.raw(data.primary, data.beside, data.app, data.other)
        return replace(self, pooled=self.pooled.taught(raw, data.app, data.neighbours, data.truth))
