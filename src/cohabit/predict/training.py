"""Training a degradation model: parameters by search, scores on applications never seen, the deployed form.

Parameters are searched with folds by application inside the rows that may be learned from, anew for every outer fold:
no tested application influences them. Nothing here writes files or prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cohabit.predict import folds as folding
from cohabit.predict.baselines import all_of as plain_answers
from cohabit.predict.degradation import MARGIN_FLOOR_PCT, DegradationModel
from cohabit.predict.estimators import GRIDS, KINDS, TREES, TREES_IN_SEARCH, Parameters, fit_kind
from cohabit.predict.features import CoRuns, Floats
from cohabit.predict.folds import Folds, Step, no_step
from cohabit.predict.scores import Asked, r_squared

INNER_FOLDS = 3
ENOUGH_LEFT_OUT = 20  # pairs, to learn from: with fewer, families are dealt again


@dataclass(frozen=True)
class Trained:
    """A model, and its scores on unseen data."""

    kind: str
    parameters: Parameters
    deployed: DegradationModel
    estimator: Any  # the library's object, for the training file
    digest: str  # of the data


@dataclass(frozen=True)
class Evaluated:
    """Answers of one learner about rows it had not learned from."""

    kind: str
    parameters: Parameters  # found by the search over all rows
    grouped: Asked  # families of applications never seen
    unseen: str  # what exactly was new in `grouped`
    touched: Asked  # at least one application never seen, the same models: rows of `grouped` among them
    paired: Asked  # pairs never seen


def fit(data: CoRuns, kind: str, seed: int = 0, parameters: Parameters | None = None, margin: float = 0.0) -> Trained:
    """Train on all rows; without parameters they are searched for."""
    chosen = parameters if parameters is not None else search(data, kind, seed)
    fitted = fit_kind(kind, data, chosen, seed)
    return Trained(
        kind, chosen, DegradationModel(kind, data.schema, fitted.flat, margin), fitted.estimator, data.digest()
    )


def search(data: CoRuns, kind: str, seed: int) -> Parameters:
    """The parameters that do best on applications left out; the usual ones where there are too few to leave out."""
    grid = GRIDS[kind]
    if len(grid) == 1 or len(dict.fromkeys(data.app)) < folding.FEWEST_APPLICATIONS:
        return grid[0]
    inner = folding.by_application(data, seed + 1, INNER_FOLDS, repeats=1)
    best, chosen = -np.inf, grid[0]
    for parameters in grid:
        asked = _asked(data, kind, inner, seed, parameters, TREES_IN_SEARCH)
        score = r_squared(asked.truth, asked.answer)
        if score is not None and score > best + 1e-9:
            best, chosen = score, parameters
    return chosen


def _asked(
    data: CoRuns,
    kind: str,
    folds: Folds,
    seed: int,
    parameters: Parameters | None,
    trees: int,
    step: Step = no_step,
) -> Asked:
    """Answers for all rows asked about, each from a model that has not seen the fold."""
    return _asked_widely(data, kind, folds, seed, parameters, trees, step)[0]


def _asked_widely(
    data: CoRuns, kind: str, folds: Folds, seed: int, parameters: Parameters | None, trees: int, step: Step = no_step
) -> tuple[Asked, Asked]:
    """The same, and the answers of the same models for all rows they had not learned from."""
    parts, more = list[Asked](), list[Asked]()
    for fold in folds:
        known, new, rest = data.only(fold.learn), data.only(fold.ask), data.only(~fold.learn)
        chosen = parameters if parameters is not None else search(known, kind, seed)
        model = DegradationModel(kind, known.schema, fit_kind(kind, known, chosen, seed, trees).flat)
        parts.append(replace(asked_of(model, new, float(known.truth.mean())), plain=plain_answers(known, new)))
        more.append(asked_of(model, rest, float(known.truth.mean())))
        step()
    return Asked.joined(parts), Asked.joined(more)


def asked_of(model: DegradationModel, new: CoRuns, known_mean: float) -> Asked:
    """Return a model's own predictions for rows with a known target."""
    raw = model.raw(new.primary, new.beside, new.app, new.other)
    return Asked(new.app, new.other, new.truth, raw, np.full(len(new), known_mean))


def evaluate(data: CoRuns, kind: str, seed: int = 0, searching: bool = True, step: Step = no_step) -> Evaluated:
    """Scores of one learner by application and by pair; without a search the usual parameters are used."""
    chosen = search(data, kind, seed) if searching else GRIDS[kind][0]
    outer = folding.by_application(data, seed)
    grouped, touched = _asked_widely(data, kind, outer, seed, None if searching else chosen, TREES, step)
    paired = _asked(data, kind, folding.by_pair(data, seed), seed, chosen, TREES, step)
    return Evaluated(kind, chosen, grouped, outer.unseen, touched, paired)


def left_out(data: CoRuns, kind: str, seed: int, usual: Parameters) -> tuple[Asked, Asked] | None:
    """Return answers about rows of which at least one family was left out, and about those of which both were, by
    learners of the rest; None: there are too few pairs of new families. Parameters are searched in this data alone."""
    if len(data.applications) < folding.FEWEST_APPLICATIONS:
        return None
    folds = folding.by_application(data, seed, repeats=1)
    if sum(int(fold.ask.sum()) for fold in folds) < ENOUGH_LEFT_OUT:
        folds = folding.by_application(data, seed)
    if folds.unseen != folding.BOTH:
        return None
    chosen = search(data, kind, seed) if len(GRIDS[kind]) > 1 else usual
    grouped, touched = _asked_widely(data, kind, folds, seed, chosen, TREES_IN_SEARCH)
    return touched, grouped


def further(data: CoRuns, one: Evaluated, seed: int) -> dict[str, Asked]:
    """Return answers where less is new: the programs but not their families, the neighbour only."""
    ways = {"program": folding.by_program(data, seed), "neighbour": folding.by_neighbour(data, seed)}
    asked = {name: way for name, way in ways.items() if way.folds}
    return {name: _asked(data, one.kind, way, seed, one.parameters, TREES_IN_SEARCH) for name, way in asked.items()}


def steps_of(data: CoRuns, kinds: Sequence[str], seed: int) -> int:
    """Return how many times `evaluate` of these kinds reports progress."""
    each = len(folding.by_application(data, seed).folds) + len(folding.by_pair(data, seed).folds)
    return each * len(kinds)


def best_kind(evaluated: Sequence[Evaluated]) -> str:
    """The learner that does best on applications never seen; the order of KINDS breaks ties."""

    def standing(one: Evaluated) -> tuple[float, int]:
        score = r_squared(one.grouped.truth, one.grouped.answer)
        return (-np.inf if score is None else score, -KINDS.index(one.kind))

    return max(evaluated, key=standing).kind


def margin_for(asked: Asked, quantile: float) -> float:
    """Return the margin with which this share of unseen applications' pairs is not slower than promised."""
    answer = np.maximum(asked.answer, 0.0)
    missing = (asked.truth - answer) / (answer + MARGIN_FLOOR_PCT)
    return max(0.0, float(np.quantile(missing, quantile, method="higher")))


def with_margin(trained: Trained, margin: float) -> Trained:
    """Return the model with this safety margin."""
    return replace(trained, deployed=replace(trained.deployed, margin=margin))


def raised(asked: Asked, margin: float) -> Floats:
    """Answers as a model with this margin would have given them."""
    answer = np.maximum(asked.answer, 0.0)
    return np.asarray(answer + margin * (answer + MARGIN_FLOOR_PCT))
