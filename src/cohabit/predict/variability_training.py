"""Training a variability model: learners compared on applications never seen, columns chosen, the deployed form.

No run of a left-out application influences the model that is tested on it: not labels of others, not scaling,
not the choice of columns (RUSH R60). Learners are compared with all columns; for the chosen one columns are
eliminated recursively inside every fold, and the score reported is that of the whole procedure. Nothing here writes
files or prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.model.errors import InputError
from cohabit.predict import folds as folding
from cohabit.predict.features import Flags, Floats
from cohabit.predict.folds import Fold, Folds, Step, no_step
from cohabit.predict.variability import VariabilityModel
from cohabit.predict.variability_calibration import Calibration, brier, fit_calibration, identity
from cohabit.predict.variability_data import CLASSES, Labels, Norms, Runs, freeze
from cohabit.predict.variability_learners import KINDS, fit_classifier
from cohabit.predict.variability_scores import Judged, mean_f1

FEWEST_APPLICATIONS = 2
FEWEST_RUNS = 5  # of an application, for a usable mean and deviation
FEWEST_COLUMNS = 4
KEPT_EACH_TIME = 0.5
EFFORT_IN_SEARCH = 0.25
INNER_FOLDS = 3
Columns = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TrainedVariability:
    """A model, and what the training library made of it."""

    deployed: VariabilityModel
    estimator: Any  # the library's object, for the training file
    digest: str  # of the data


@dataclass(frozen=True, eq=False)
class Compared:
    """One learner with all columns, tested on unseen runs: does it vary?"""

    kind: str
    grouped: tuple[Judged, ...]  # one application each, never seen
    stratified: tuple[Judged, ...]


@dataclass(frozen=True, eq=False)
class Chosen:
    """The learner that was chosen, with columns eliminated inside the folds."""

    kind: str
    grouped: tuple[Judged, ...]
    stratified: tuple[Judged, ...]
    classes: tuple[Judged, ...]  # the exported question, three classes, applications never seen
    columns: Columns  # chosen from all rows
    by_size: dict[int, float | None]  # mean F1 by number of columns


def check_runs(data: Runs) -> None:
    """Check that there are enough runs to learn from and to leave an application out."""
    names = data.applications
    if len(names) < FEWEST_APPLICATIONS:
        what = f"has runs of {len(names)} application, too few to leave one out and ask about it"
        raise InputError(what, data.origin, f"measure at least {FEWEST_APPLICATIONS}, better 7")
    for name in names:
        count = data.app.count(name)
        if count < FEWEST_RUNS:
            what = f"has {count} runs of {name}, too few for a mean and a deviation"
            raise InputError(what, data.origin, f"measure at least {FEWEST_RUNS} of each, better 100, or leave it out")


def _alive(x: Floats) -> Columns:
    """Return the columns that are not constant; all columns if there are none."""
    found = np.flatnonzero(np.ptp(x, axis=0) > 0)
    return found if len(found) else np.arange(x.shape[1])


def _norms(data: Runs, fold: Fold) -> Norms:
    """Norms from the rows learned from; an application that is left out whole has its own."""
    if data.norms is not None:
        return data.norms
    learned, asked = data.only(fold.learn), data.only(fold.ask)
    known, own = freeze(learned.app, learned.times_s), freeze(asked.app, asked.times_s)
    return Norms({**own.mean_s, **known.mean_s}, {**own.deviation_s, **known.deviation_s})


def _fold_answers(
    data: Runs, kind: str, fold: Fold, columns: Columns, seed: int, effort: float, three: bool = False
) -> Judged:
    """Return the predictions of this fold's model for its unseen rows."""
    norms = _norms(data, fold)
    rare = norms.varies(data.app, data.times_s)
    labels = norms.classes(data.app, data.times_s) if three else rare
    x = data.inputs
    fitted = fit_classifier(kind, x[np.ix_(fold.learn, columns)], labels[fold.learn], rare[fold.learn], seed, effort)
    own = fitted.flat.shares(x[np.ix_(fold.ask, columns)])
    shares = np.zeros((len(own), len(CLASSES)))
    shares[:, fitted.flat.classes] = own
    names = tuple(data.app[row] for row in np.flatnonzero(fold.ask))
    return Judged(names, labels[fold.ask], np.asarray(shares.argmax(axis=1), np.int64), shares)


def compare(data: Runs, kind: str, seed: int, step: Step = no_step) -> Compared:
    """One learner with all columns, by application and stratified."""
    found = []
    for folds in (folding.leave_one_out(data.app), _stratified(data, seed)):
        judged = []
        for fold in folds:
            columns = _alive(data.inputs[fold.learn])
            judged.append(_fold_answers(data, kind, fold, columns, seed, 1.0))
            step()
        found.append(tuple(judged))
    return Compared(kind, found[0], found[1])


def about_unseen(data: Runs, kind: str, seed: int, three: bool = False) -> tuple[Judged, ...]:
    """One learner with all columns about each application in turn, never seen; two classes, or the exported three."""
    return tuple(
        _fold_answers(data, kind, fold, _alive(data.inputs[fold.learn]), seed, 1.0, three)
        for fold in folding.leave_one_out(data.app)
    )


def _stratified(data: Runs, seed: int) -> Folds:
    labels = data.frozen.varies(data.app, data.times_s)
    return folding.stratified(labels, seed)


def best_kind(compared: Sequence[Compared]) -> str:
    """The learner that does best on applications never seen; the order of KINDS breaks ties."""

    def standing(one: Compared) -> tuple[float, int]:
        score = mean_f1(one.grouped)
        return (-1.0 if score is None else score, -KINDS.index(one.kind))

    return max(compared, key=standing).kind


def sizes(count: int) -> list[int]:
    """Return the numbers of columns tried: all, then repeatedly half of them."""
    found = [count]
    while found[-1] > FEWEST_COLUMNS:
        found.append(max(FEWEST_COLUMNS, int(np.ceil(found[-1] * KEPT_EACH_TIME))))
    return found


def eliminated(data: Runs, kind: str, rows: Flags, seed: int) -> list[Columns]:
    """The columns left at every size when the least important go first, by these rows alone."""
    learned = data.only(rows)
    rare = learned.frozen.varies(learned.app, learned.times_s)
    columns = _alive(learned.inputs)
    path = [columns]
    for size in sizes(len(columns))[1:]:
        fitted = fit_classifier(kind, learned.inputs[:, columns], rare, rare, seed, EFFORT_IN_SEARCH)
        order = np.argsort(-fitted.importance, kind="stable")
        columns = np.sort(columns[order[:size]])
        path.append(columns)
    return path


def choose_columns(
    data: Runs, kind: str, rows: Flags, seed: int, most_folds: int = INNER_FOLDS
) -> tuple[Columns, dict[int, float | None]]:
    """The size that does best on applications left out, with elimination inside those folds; then these columns."""
    learned = data.only(rows)
    whole = np.ones(len(learned), bool)
    names = learned.applications
    path = eliminated(learned, kind, whole, seed)
    if len(names) < FEWEST_APPLICATIONS:
        return path[0], {}
    inner = (
        folding.leave_one_out(learned.app)
        if len(names) <= most_folds
        else folding.some_left_out(learned.app, seed + 1, most_folds)
    )
    judged: list[list[Judged]] = [[] for _ in path]
    for fold in inner:
        steps = eliminated(learned, kind, fold.learn, seed)
        for at, own in enumerate(judged):
            columns = steps[min(at, len(steps) - 1)]
            own.append(_fold_answers(learned, kind, fold, columns, seed, EFFORT_IN_SEARCH))
    scored = [mean_f1(own) for own in judged]
    best = max(range(len(path)), key=lambda at: (-1.0 if scored[at] is None else round(scored[at] or 0.0, 9), at))
    return path[best], {len(columns): score for columns, score in zip(path, scored, strict=True)}


def choose(data: Runs, kind: str, seed: int, step: Step = no_step) -> Chosen:
    """Eliminate columns for this learner, anew in every fold, and once with all rows for the model itself."""
    found: list[tuple[Judged, ...]] = []
    three: list[Judged] = []
    for number, folds in enumerate((folding.leave_one_out(data.app), _stratified(data, seed))):
        judged = []
        for fold in folds:
            columns, _ = choose_columns(data, kind, fold.learn, seed)
            judged.append(_fold_answers(data, kind, fold, columns, seed, 1.0))
            if number == 0:
                three.append(_fold_answers(data, kind, fold, columns, seed, 1.0, three=True))
            step()
        found.append(tuple(judged))
    columns, by_size = choose_columns(data, kind, np.ones(len(data), bool), seed, len(data.applications))
    step()
    return Chosen(kind, found[0], found[1], tuple(three), columns, by_size)


def steps_of(data: Runs, kinds: Sequence[str], seed: int) -> int:
    """Return how many times `compare` of these kinds and one `choose` report progress."""
    each = len(data.applications) + len(_stratified(data, seed).folds)
    return each * (len(kinds) + 1) + 1


def fit(
    data: Runs,
    kind: str,
    seed: int = 0,
    columns: Columns | None = None,
    unseen: Sequence[Judged] = (),
) -> TrainedVariability:
    """Train the exported model, three classes, on all rows; calibrated with answers about unseen applications."""
    norms = data.frozen
    classes, rare = norms.classes(data.app, data.times_s), norms.varies(data.app, data.times_s)
    kept = _alive(data.inputs) if columns is None else columns
    fitted = fit_classifier(kind, data.inputs[:, kept], classes, rare, seed)
    calibration = _calibration(unseen)
    model = VariabilityModel(
        kind, data.input_names, kept, fitted.flat, calibration, norms, slowdowns(norms, data, classes)
    )
    return TrainedVariability(model, fitted.estimator, data.digest())


def _calibration(unseen: Sequence[Judged]) -> Calibration:
    if not unseen:
        return identity()
    return fit_calibration(
        np.concatenate([one.shares for one in unseen]), np.concatenate([one.truth for one in unseen])
    )


def calibration_gain(unseen: Sequence[Judged]) -> dict[str, float] | None:
    """Brier score before and after, each application with curves fitted on the others; None where there is no other."""
    if len(unseen) < FEWEST_APPLICATIONS:
        return None
    after = []
    for at, one in enumerate(unseen):
        curves = _calibration([other for number, other in enumerate(unseen) if number != at])
        after.append(curves.apply(one.shares))
    truth = np.concatenate([one.truth for one in unseen])
    return {
        "brier_before": brier(np.concatenate([one.shares for one in unseen]), truth),
        "brier_after": brier(np.concatenate(after), truth),
    }


def slowdowns(norms: Norms, data: Runs, classes: Labels) -> Floats:
    """The mean of run time / mean of the application in every class; an empty class is at its border."""
    relative = norms.relative(data.app, data.times_s)
    spread = float(np.mean([norms.deviation_s[name] / norms.mean_s[name] for name in norms.mean_s]))
    border = (1.0, 1.0 + 1.35 * spread, 1.0 + 1.5 * spread)
    return np.array(
        [float(relative[classes == at].mean()) if (classes == at).any() else border[at] for at in range(len(CLASSES))]
    )
