"""The classifiers by name: how each is fitted with scikit-learn, made flat, and which columns it finds important.

Variation is rare, so for trees all runs that varied weigh as much together as all that did not: without that, forests
answer "no" always and are right in nine of ten cases. Nothing here scores, splits or writes files. scikit-learn is
imported when needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cohabit.predict.features import Floats
from cohabit.predict.folds import stream
from cohabit.predict.trees import flat_nodes
from cohabit.predict.variability_data import Labels
from cohabit.predict.variability_flat import FlatClassifier, FlatConstant, FlatNeighbours, FlatTrees

ADABOOST, EXTRA_TREES, FOREST, KNN = KINDS = ("adaboost", "extra-trees", "forest", "knn")
NEIGHBOURS_ASKED = 5
PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    ADABOOST: {"rounds": 50, "depth": 6, "learning_rate": 0.5, "fewest_in_leaf": 2},
    EXTRA_TREES: {"trees": 100, "fewest_in_leaf": 2},
    FOREST: {"trees": 100, "fewest_in_leaf": 2},
    KNN: {"neighbours": NEIGHBOURS_ASKED},
}


@dataclass(frozen=True, eq=False)
class FittedClassifier:
    """A learner's result: the flat form, the library's own object, and a number per column, the larger the better."""

    flat: FlatClassifier
    estimator: Any
    importance: Floats


def fit_classifier(
    kind: str, x: Floats, classes: Labels, rare: Labels, seed: int, effort: float = 1.0
) -> FittedClassifier:
    """Train on rows x; `rare` marks those that weigh more; with less effort, fewer trees."""
    present = np.unique(classes)
    if len(present) == 1:
        return FittedClassifier(FlatConstant(present), {"always": int(present[0])}, np.zeros(x.shape[1]))
    from threadpoolctl import threadpool_limits

    chance = int(stream(seed, f"fit {kind}").integers(2**31))
    weight = balanced(rare)
    # One thread: sums in another order would give another model on another machine.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        if kind == KNN:
            return _neighbours(x, classes, present, rare)
        return _trees(kind, x.astype(np.float32), classes, weight, chance, effort)


def balanced(rare: Labels) -> Floats:
    """A weight per row: both sides of the label weigh the same together."""
    share = float(rare.mean())
    if share in (0.0, 1.0):
        return np.ones(len(rare))
    return np.where(rare == 1, 0.5 / share, 0.5 / (1.0 - share))


def _trees(kind: str, x: Any, classes: Labels, weight: Floats, chance: int, effort: float) -> FittedClassifier:
    from sklearn.ensemble import AdaBoostClassifier, ExtraTreesClassifier, RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    own = PARAMETERS[kind]
    if kind == ADABOOST:
        # Every split sees a few columns only, as in a forest: else rounds go to uninformative columns.
        tree = DecisionTreeClassifier(
            max_depth=own["depth"], min_samples_leaf=own["fewest_in_leaf"], max_features="sqrt"
        )
        estimator = AdaBoostClassifier(
            tree,
            n_estimators=max(10, round(own["rounds"] * effort)),
            learning_rate=own["learning_rate"],
            random_state=chance,
        ).fit(x, classes, sample_weight=weight)
    else:
        forest = ExtraTreesClassifier if kind == EXTRA_TREES else RandomForestClassifier
        estimator = forest(
            n_estimators=max(10, round(own["trees"] * effort)),
            min_samples_leaf=own["fewest_in_leaf"],
            random_state=chance,
        ).fit(x, classes, sample_weight=weight)
    return FittedClassifier(flatten(estimator), estimator, np.asarray(estimator.feature_importances_, np.float64))


def flatten(estimator: Any) -> FlatTrees:
    """A fitted forest or boosted trees as arrays."""
    classes = np.asarray(estimator.classes_, np.int64)
    trees = [one.tree_ for one in estimator.estimators_]
    leaves = [np.asarray(tree.value[:, 0, : len(classes)], np.float64) for tree in trees]
    boosted = hasattr(estimator, "estimator_weights_")
    total = float(len(trees))
    if boosted:  # every tree has one vote, worth its weight; a vote for one class is one against the others
        weights = np.asarray(estimator.estimator_weights_[: len(trees)], np.float64)
        total = float(estimator.estimator_weights_.sum())
        own = [np.asarray(one.classes_, np.int64) for one in estimator.estimators_]
        leaves = [
            _votes(leaf, seen, classes, float(weight)) for leaf, seen, weight in zip(leaves, own, weights, strict=True)
        ]
    feature, threshold, left, right, roots = flat_nodes(trees)
    return FlatTrees(classes, feature, threshold, left, right, np.concatenate(leaves), roots, total, boosted)


def _votes(leaf: Floats, seen: Labels, classes: Labels, weight: float) -> Floats:
    said = seen[leaf.argmax(axis=1)]
    return np.where(said[:, None] == classes[None, :], weight, -1.0 / (len(classes) - 1) * weight)


def _neighbours(x: Floats, classes: Labels, present: Labels, rare: Labels) -> FittedClassifier:
    from sklearn.feature_selection import f_classif
    from sklearn.neighbors import KNeighborsClassifier

    mean, deviation = x.mean(axis=0), x.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    points = (x - mean) / deviation
    count = min(NEIGHBOURS_ASKED, len(points))
    estimator = KNeighborsClassifier(count, algorithm="brute").fit(points, classes)
    votes = (classes[:, None] == present[None, :]).astype(np.float64)
    if rare.min() == rare.max():
        apart = np.zeros(x.shape[1])
    else:  # it has no importance of its own: use how far the two sides are apart in each column
        apart = np.nan_to_num(np.asarray(f_classif(x, rare)[0], np.float64), posinf=np.finfo(float).max)
    return FittedClassifier(FlatNeighbours(present, mean, deviation, points, votes, count), estimator, apart)


def library_shares(flat: FlatClassifier, estimator: Any, rows: Floats) -> Floats:
    """Return the training library's own answers, to compare the flat form with; not used to decide anything."""
    if isinstance(flat, FlatConstant):
        return np.ones((len(rows), 1))
    if isinstance(flat, FlatNeighbours):
        return np.asarray(estimator.predict_proba((rows - flat.mean) / flat.deviation))
    return np.asarray(estimator.predict_proba(rows.astype(np.float32)))
