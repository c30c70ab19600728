"""Split data into training and test parts: folds by application, and folds by pair to show what those leak.

In a fold by application, the pairs asked about consist of applications the model has never seen, neither as the first
nor as the second; pairs of one seen and one unseen application are in neither part. Applications of one family (one
program at several sizes) are dealt together. A fold by pair asks about new pairs of applications that were all seen
before: the score it gives does not carry over to new programs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cohabit.model.errors import InputError
from cohabit.predict.families import families_of
from cohabit.predict.features import CoRuns, Flags

FOLDS = 5
FEWEST_APPLICATIONS = 4
ENOUGH_ROWS = 100  # asked about, over all folds; with fewer, the applications are split again, up to REPEATS times
REPEATS = 3
Step = Callable[[], None]  # called after each fold, for a progress bar
BOTH, FIRST = "both applications", "the slowed application"


def no_step() -> None:
    """Report no progress."""


def stream(seed: int, name: str) -> np.random.Generator:
    """Return a named random stream."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


@dataclass(frozen=True)
class Fold:
    """Rows to learn from and rows to ask about."""

    learn: Flags
    ask: Flags


@dataclass(frozen=True)
class Folds:
    """A whole division; `unseen` says what is new in the rows asked about."""

    folds: tuple[Fold, ...]
    unseen: str

    def __iter__(self) -> Iterator[Fold]:
        return iter(self.folds)


def by_application(data: CoRuns, seed: int, count: int = FOLDS, repeats: int = REPEATS) -> Folds:
    """Both applications of a pair unseen; where the data hardly has such pairs (one neighbour for all), the first."""
    check_applications(data)
    names, of = data.applications, families_of(data.applications, data.family)[0]
    families = tuple(dict.fromkeys(of.values()))
    found: list[Fold] = []
    for repeat in range(repeats):
        rng = stream(seed, f"folds by application {repeat}")
        for dealt in _dealt(families, min(count, max(len(families) // 2, 2)), rng):
            first, second = data.within({name for name in names if of[name] in dealt})
            found.append(Fold(~first & ~second, first & second))
        if sum(int(fold.ask.sum()) for fold in found) >= ENOUGH_ROWS:
            break
    useful = tuple(fold for fold in found if fold.ask.any() and fold.learn.any())
    if sum(int(fold.ask.sum()) for fold in useful) >= len(names):
        return Folds(useful, BOTH)
    return _by_first(data, seed, count)


def _by_first(data: CoRuns, seed: int, count: int) -> Folds:
    """New as the slowed application; with few of them one at a time."""
    of = families_of(data.applications, data.family)[0]
    families = tuple(dict.fromkeys(of[name] for name in data.app))
    groups = len(families) if len(families) <= 2 * count else count
    found = []
    for dealt in _dealt(families, groups, stream(seed, "folds by first application")):
        first, _ = data.within({name for name in data.app if of[name] in dealt})
        found.append(Fold(~first, first))
    return Folds(tuple(found), FIRST)


def by_program(data: CoRuns, seed: int) -> Folds:
    """Both applications of a pair unseen, though others of their family may be known: it flatters."""
    return by_application(replace(data, family={name: name for name in data.applications}), seed, repeats=1)


def by_neighbour(data: CoRuns, seed: int) -> Folds:
    """The neighbour unseen, the slowed application known; no fold where the data has one neighbour only."""
    of = families_of(data.applications, data.family)[0]
    families = tuple(dict.fromkeys(of.values()))
    found = []
    for dealt in _dealt(families, min(FOLDS, max(len(families) // 2, 2)), stream(seed, "folds by neighbour")):
        first, second = data.within({name for name in data.applications if of[name] in dealt})
        fold = Fold(~first & ~second, ~first & second)
        if fold.ask.any() and fold.learn.any():
            found.append(fold)
    return Folds(tuple(found), "the neighbour")


def by_pair(data: CoRuns, seed: int) -> Folds:
    """Split rows at random, as in the paper."""
    order = stream(seed, "folds by pair").permutation(len(data))
    found = []
    for part in np.array_split(order, min(FOLDS, len(data))):
        ask = np.zeros(len(data), bool)
        ask[part] = True
        found.append(Fold(~ask, ask))
    return Folds(tuple(found), "the pair")


def leave_one_out(app: Sequence[str]) -> Folds:
    """Leave out one application at a time, with all of its rows."""
    names = np.array(app)
    return Folds(tuple(Fold(names != name, names == name) for name in dict.fromkeys(app)), FIRST)


def some_left_out(app: Sequence[str], seed: int, count: int) -> Folds:
    """Leave out several applications at a time: fewer folds if there are many."""
    names = tuple(dict.fromkeys(app))
    groups = _dealt(names, min(count, len(names)), stream(seed, "folds of several applications"))
    asked = [np.array([name in group for name in app]) for group in groups]
    return Folds(tuple(Fold(~ask, ask) for ask in asked), FIRST)


def stratified(labels: NDArray[np.int64], seed: int) -> Folds:
    """Split rows at random, every label in the same proportion everywhere; applications are seen on both sides."""
    rng, turn = stream(seed, "stratified folds"), np.zeros(len(labels), np.int64)
    dealt = 0
    for label in np.unique(labels).tolist():  # the next label goes on where the last one stopped: folds of one size
        rows = rng.permutation(np.flatnonzero(labels == label))
        turn[rows] = (dealt + np.arange(len(rows))) % FOLDS
        dealt += len(rows)
    parts = [turn == part for part in range(min(FOLDS, len(labels)))]
    return Folds(tuple(Fold(~ask, ask) for ask in parts), "the run")


def _dealt(names: tuple[str, ...], groups: int, rng: np.random.Generator) -> list[tuple[str, ...]]:
    shuffled = [names[at] for at in rng.permutation(len(names))]
    return [tuple(shuffled[group::groups]) for group in range(groups)]


def check_applications(data: CoRuns) -> None:
    """Check that there are enough applications to leave some out."""
    count = len(dict.fromkeys(data.app))
    if count < FEWEST_APPLICATIONS:
        what = f"has {count} applications to learn from, too few to leave some out and ask about them"
        raise InputError(what, data.origin, f"measure at least {FEWEST_APPLICATIONS}, better 20")
    of = families_of(data.applications, data.family)[0]
    families = len({of[name] for name in data.app})
    if families < 2:
        what = "has applications of one family only, so none of them is new to a model that knows the others"
        raise InputError(what, data.origin, "measure other programs as well, or mend its column family")
