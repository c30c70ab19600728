"""Training on measurements: the data set of ordered pairs, one model, and its answers about unseen programs.

Learned from: all ordered pairs of the programs that are not of the blind suite (27 x 27 = 729). Asked about: all
ordered pairs whose first program is unseen (5 x 32; the paper does not say which pairs it asked about). Nothing here
judges.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cohabit.model.features import TIME
from cohabit.predict import folds, training
from cohabit.predict.degradation import DegradationModel
from cohabit.predict.estimators import GRIDS, fit_kind
from cohabit.predict.features import CoRuns, Floats, Schema
from cohabit.predict.folds import Folds
from cohabit.predict.scores import Asked, r_squared
from cohabit.reproduce.colocation.counters import COLUMNS
from cohabit.reproduce.colocation.lab import Bench, Measured

SCHEMA = Schema((TIME, *COLUMNS), COLUMNS)


def features(known: Measured) -> tuple[Floats, Floats]:
    """Every program as the one that is slowed and as the one beside."""
    counters = np.array([[one[column] for column in COLUMNS] for one in known.counters])
    return np.hstack([known.times_s[:, None], counters]), counters


def data_of(bench: Bench, known: Measured) -> tuple[CoRuns, CoRuns]:
    """Return the training data, and the data for the final test."""
    primary, beside = features(known)
    first, second = (places.ravel() for places in np.indices(known.degradations.shape))
    names = np.array(bench.names)
    suites = np.array([vector.suite for vector in bench.vectors])
    data = CoRuns(
        tuple(names[first].tolist()),
        tuple(names[second].tolist()),
        primary[first],
        beside[second],
        SCHEMA,
        known.degradations.ravel(),
        tuple(suites[first].tolist()),
    )
    unseen = bench.blind
    return data.only(~unseen[first] & ~unseen[second]), data.only(unseen[first])


def trained(learn: CoRuns, kind: str, seed: int, trees: int, searching: bool) -> DegradationModel:
    """A model as it is used; with a search for parameters, or with the usual ones."""
    parameters = training.search(learn, kind, seed) if searching else GRIDS[kind][0]
    return DegradationModel(kind, learn.schema, fit_kind(kind, learn, parameters, seed, trees).flat)


def blind_answers(model: DegradationModel, learn: CoRuns, blind: CoRuns) -> Asked:
    """Return the answers about unseen programs."""
    return training.asked_of(model, blind, float(learn.truth.mean()))


def score_of(asked: Asked) -> dict[str, Any]:
    """Answers in figures, and the answers themselves for the picture."""
    return {
        "r2": r_squared(asked.truth, asked.answer),
        "negatives": asked.negatives,
        "truth": asked.truth,
        "answer": asked.answer,
        "mean_r2": r_squared(asked.truth, asked.mean),
    }


def worst_program_pct(asked: Asked, blind: CoRuns) -> float:
    """Return the share of the squared error of the program with the largest error."""
    squared, names = (asked.truth - np.maximum(asked.answer, 0.0)) ** 2, np.array(blind.app)
    by_program = [float(squared[names == name].sum()) for name in dict.fromkeys(blind.app)]
    return 100.0 * max(by_program) / max(sum(by_program), 1e-12)


def folded(learn: CoRuns, kind: str, seed: int, trees: int) -> tuple[Asked, Asked]:
    """Answers with folds by application, and with folds by pair as in the paper; with the usual parameters."""
    return (
        _over(learn, kind, seed, trees, folds.by_application(learn, seed)),
        _over(learn, kind, seed, trees, folds.by_pair(learn, seed)),
    )


def _over(learn: CoRuns, kind: str, seed: int, trees: int, division: Folds) -> Asked:
    parts = []
    for fold in division:
        known, new = learn.only(fold.learn), learn.only(fold.ask)
        parts.append(blind_answers(trained(known, kind, seed, trees, False), known, new))
    return Asked.joined(parts)
