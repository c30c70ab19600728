"""Runs of applications with the counters before each began; frozen means and deviations; labels.

A run varies if it took longer than the mean of its application by more than 1.5 deviations (RUSH R10). Means and
deviations are taken once, from the runs that are learned from, and every later run is judged with them (R60): a norm
that followed the judged runs would hide a slow week. Pure: no files, no randomness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cohabit.model.telemetry import WORKLOAD_TYPES
from cohabit.predict.features import Flags, Floats, digest_of

Labels = NDArray[np.int64]

NONE, LITTLE, VARIATION = 0, 1, 2
CLASSES = ("none", "little", "variation")
LITTLE_SIGMA, VARIATION_SIGMA = 1.2, 1.5
TYPE_COLUMNS = tuple(f"workload.{name}" for name in WORKLOAD_TYPES)


@dataclass(frozen=True)
class Runs:
    """Runs by columns. `run_s` is None where it is not known yet."""

    app: tuple[str, ...]
    start_s: Floats
    run_s: Floats | None
    workload_type: tuple[str, ...]
    table: Floats  # [run, column]
    columns: tuple[str, ...]  # COUNTER.STAT
    origin: str = ""  # the file it came from
    norms: Norms | None = None  # by which these runs are judged; None: their own

    def __len__(self) -> int:
        return len(self.app)

    @property
    def applications(self) -> tuple[str, ...]:
        """All names, in order of appearance."""
        return tuple(dict.fromkeys(self.app))

    @property
    def times_s(self) -> Floats:
        """The run times, of runs that have ended."""
        assert self.run_s is not None
        return self.run_s

    @property
    def input_names(self) -> tuple[str, ...]:
        """The inputs of a model: the counters, then the type of work as one column each."""
        return self.columns + TYPE_COLUMNS

    @property
    def frozen(self) -> Norms:
        """The norms by which these runs vary or not."""
        return freeze(self.app, self.times_s) if self.norms is None else self.norms

    @cached_property
    def inputs(self) -> Floats:
        """The numbers of `input_names`."""
        types = np.array([[kind == own for own in WORKLOAD_TYPES] for kind in self.workload_type], np.float64)
        return np.hstack([self.table, types.reshape(len(self), len(WORKLOAD_TYPES))])

    def only(self, rows: Flags) -> Runs:
        """Return some of the runs."""
        chosen = np.flatnonzero(rows)
        return replace(
            self,
            app=tuple(self.app[row] for row in chosen),
            start_s=self.start_s[chosen],
            run_s=None if self.run_s is None else self.run_s[chosen],
            workload_type=tuple(self.workload_type[row] for row in chosen),
            table=self.table[chosen],
        )

    def digest(self) -> str:
        """Return a digest of all training data."""
        names = (self.app, self.workload_type, self.columns)
        return digest_of(names, self.start_s, self.times_s, self.table)


@dataclass(frozen=True)
class Norms:
    """Mean and deviation of every application's run time, frozen."""

    mean_s: Mapping[str, float]
    deviation_s: Mapping[str, float]

    def knows(self, app: Sequence[str]) -> Flags:
        """Return for each name whether it has a norm."""
        return np.array([name in self.mean_s for name in app], bool)

    def sigmas(self, app: Sequence[str], run_s: Floats) -> Floats:
        """Deviations of each run above its application's mean; 0 where an application never varied."""
        mean = np.array([self.mean_s[name] for name in app])
        deviation = np.array([self.deviation_s[name] for name in app])
        return np.asarray(np.divide(run_s - mean, deviation, out=np.zeros(len(mean)), where=deviation > 0))

    def classes(self, app: Sequence[str], run_s: Floats) -> Labels:
        """none below 1.2 deviations, little up to 1.5, variation beyond (R11)."""
        sigmas = self.sigmas(app, run_s)
        return np.where(sigmas > VARIATION_SIGMA, VARIATION, np.where(sigmas < LITTLE_SIGMA, NONE, LITTLE))

    def varies(self, app: Sequence[str], run_s: Floats) -> Labels:
        """1 beyond 1.5 deviations, else 0 (R10)."""
        return (self.sigmas(app, run_s) > VARIATION_SIGMA).astype(np.int64)

    def relative(self, app: Sequence[str], run_s: Floats) -> Floats:
        """Run times as multiples of their application's mean."""
        return np.asarray(run_s / np.array([self.mean_s[name] for name in app]))


def freeze(app: Sequence[str], run_s: Floats) -> Norms:
    """Norms of these runs."""
    names = np.array(app)
    times = {name: run_s[names == name] for name in dict.fromkeys(app)}
    return Norms(
        {name: float(own.mean()) for name, own in times.items()},
        {name: float(own.std()) if np.ptp(own) > 0 else 0.0 for name, own in times.items()},
    )
