"""Co-run data: one row per ordered pair of applications, with the counters both had when they ran alone.

The target is the percentage by which the first slows beside the second (Intelligent Colocation, equation 1). Features
are the first's time alone and the counters of both (the paper's Table I, each as mean, minimum, maximum and deviation
over the run); any other numeric columns work as well. Pure: no files, no randomness.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.model.counters import PAPER
from cohabit.model.features import SOLO_TIME, TIME
from cohabit.predict.members import members_of

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

UNKNOWN_SOURCE = "unknown"
FAMILY = {counter.name: counter.group for counter in PAPER}


def family_of(counter: str) -> str:
    """The paper's family of a counter; counters of others are in none of them."""
    return "time" if counter in (TIME, SOLO_TIME) else FAMILY.get(counter, "further")


def digest_of(names: object, *columns: Floats) -> str:
    """Return a digest of names and numbers, the same on every machine."""
    total = hashlib.sha256(repr(names).encode())
    for column in columns:
        total.update(np.ascontiguousarray(column, dtype="<f8").tobytes())
    return total.hexdigest()


@dataclass(frozen=True)
class Schema:
    """The columns in their order, and the source of each."""

    primary: tuple[str, ...]  # of the application that is slowed; TIME first
    other: tuple[str, ...]  # of the one beside it
    sources: Mapping[str, str] = field(default_factory=dict)  # by full column name

    @property
    def columns(self) -> tuple[str, ...]:
        """All of them as they are called in a file."""
        own = tuple(name if name == TIME else f"primary.{name}" for name in self.primary)
        return own + tuple(f"other.{name}" for name in self.other)

    def source(self, column: str) -> str:
        """Return the source of a column."""
        return self.sources.get(column, UNKNOWN_SOURCE)


@dataclass(frozen=True)
class CoRuns:
    """Measured pairs, by columns."""

    app: tuple[str, ...]
    other: tuple[str, ...]
    primary: Floats  # [row, column of schema.primary]
    beside: Floats  # [row, column of schema.other]
    schema: Schema
    target: Floats | None = None  # percent; measured speed-ups stay below zero
    suite: tuple[str, ...] = ()  # of the first application; empty where it is not known
    family: Mapping[str, str] = field(default_factory=dict)  # by application; empty: by name (families.py)
    environment: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""  # the file it came from
    remark: str = ""  # what a reader should know about the data, in a sentence
    notes: tuple[str, ...] = ()  # what was found wrong with it, and what was done about it, a sentence each

    def __len__(self) -> int:
        return len(self.app)

    @property
    def applications(self) -> tuple[str, ...]:
        """All names, in order of appearance; of a group of neighbours its members."""
        return tuple(dict.fromkeys([*self.app, *(name for group in self.neighbours for name in group)]))

    @property
    def neighbours(self) -> tuple[tuple[str, ...], ...]:
        """The programs beside the first, of every row; mostly one."""
        return self.among({*self.app, *self.other})

    def among(self, programs: Collection[str]) -> tuple[tuple[str, ...], ...]:
        """Return the neighbours of every row, where these programs are known."""
        return tuple(members_of(other, programs) for other in self.other)

    def in_pairs(self) -> CoRuns:
        """Return the rows with one neighbour."""
        single = np.array([len(group) == 1 for group in self.neighbours], bool)
        return self if single.all() else self.only(single)

    @property
    def truth(self) -> Floats:
        """The target, of data that has one."""
        assert self.target is not None
        return self.target

    def only(self, rows: Flags) -> CoRuns:
        """Return some of the rows."""
        chosen = np.flatnonzero(rows)
        return replace(
            self,
            app=tuple(self.app[row] for row in chosen),
            other=tuple(self.other[row] for row in chosen),
            primary=self.primary[chosen],
            beside=self.beside[chosen],
            target=None if self.target is None else self.target[chosen],
            suite=tuple(self.suite[row] for row in chosen) if self.suite else (),
        )

    def within(self, names: Sequence[str] | set[str] | frozenset[str]) -> tuple[Flags, Flags]:
        """Return for each row whether its first application, and whether one beside it, is among these."""
        wanted = set(names)
        second = [any(name in wanted for name in group) for group in self.neighbours]
        return np.array([name in wanted for name in self.app], bool), np.array(second, bool)

    def digest(self) -> str:
        """Return a digest of all training data."""
        return digest_of((self.app, self.other, self.schema.columns), self.primary, self.beside, self.truth)


@dataclass(frozen=True)
class Profiles:
    """One row per application: what it is as the slowed one, and as the one beside."""

    names: tuple[str, ...]
    primary: Floats
    beside: Floats


def profiles_of(data: CoRuns) -> Profiles:
    """The applications of which both sides are known, from the first row that has each."""
    first = {name: row for row, name in reversed(list(enumerate(data.app)))}
    second = {name: row for row, name in reversed(list(enumerate(data.other)))}
    names = tuple(name for name in data.applications if name in first and name in second)
    return Profiles(names, data.primary[[first[name] for name in names]], data.beside[[second[name] for name in names]])


@dataclass(frozen=True)
class Scaling:
    """Columns made comparable: some chosen, heavy tails bent (asinh of multiples of the median), then standardised."""

    chosen: NDArray[np.int64]
    unit: Floats
    mean: Floats
    deviation: Floats

    def apply(self, rows: Floats) -> Floats:
        """The chosen columns, scaled."""
        return np.asarray((np.arcsinh(rows[:, self.chosen] / self.unit) - self.mean) / self.deviation)


SAME = 0.999  # correlation from which the later of two columns adds nothing


def fit_scaling(rows: Floats) -> Scaling:
    """From one row per training application: constant columns and near copies of an earlier one are left out."""
    magnitude = np.median(np.abs(rows), axis=0)
    unit = np.where(magnitude > 0, magnitude, 1.0)
    bent = np.arcsinh(rows / unit)
    mean, deviation = bent.mean(axis=0), bent.std(axis=0)
    chosen: list[int] = []
    alive = deviation > 1e-9 * np.maximum(1.0, np.abs(mean))
    standard = (bent - mean) / np.where(alive, deviation, 1.0)
    for column in np.flatnonzero(alive).tolist():
        alike = np.abs(standard[:, chosen].T @ standard[:, column]) / len(rows) if chosen else np.zeros(0)
        if not (alike > SAME).any():
            chosen.append(column)
    picked = np.array(chosen, np.int64)
    return Scaling(picked, unit[picked], mean[picked], deviation[picked])
