"""The learners by name: how each is fitted with scikit-learn (or our factorisation) and made flat.

Scaling and choice of columns are fitted on one row per training application and on nothing else, so that an application
asked about later has no influence. Nothing here scores, splits or writes files. scikit-learn is imported when needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cohabit.model.errors import InputError
from cohabit.predict.factor import fit_factor
from cohabit.predict.features import CoRuns, Floats, fit_scaling
from cohabit.predict.flat import FlatForest, FlatModel, FlatNetwork, FlatSupport, Sides, load_flat
from cohabit.predict.flat_law import FlatLaw
from cohabit.predict.folds import stream
from cohabit.predict.trees import flat_nodes

Parameters = Mapping[str, Any]
LAW, FOREST, MLP, SVR, ELASTIC_NET, FACTOR = KINDS = ("law", "forest", "mlp", "svr", "elastic-net", "factor")
TREES, TREES_IN_SEARCH = 200, 50

# What the search tries, the default first: it wins ties.
GRIDS: Mapping[str, Sequence[Parameters]] = {
    LAW: ({},),  # it chooses for itself
    FOREST: tuple({"max_features": share, "min_samples_leaf": leaf} for share in (0.33, 1.0) for leaf in (1, 3)),
    MLP: tuple({"hidden": hidden, "alpha": alpha} for alpha in (10.0, 1.0) for hidden in ((32,), (32, 16))),
    SVR: tuple({"c": c, "gamma": gamma} for c in (10.0, 1.0) for gamma in (1.0, 0.3)),
    ELASTIC_NET: tuple({"alpha": alpha, "l1_ratio": share} for alpha in (0.1, 0.01, 0.5) for share in (0.5, 0.9)),
    FACTOR: tuple({"rank": rank, "ridge": ridge} for rank in (2, 1, 3) for ridge in (0.1, 1.0)),
}
FORMS = {LAW: "law", FOREST: "forest", MLP: "network", ELASTIC_NET: "network", SVR: "support", FACTOR: "factor"}


@dataclass(frozen=True)
class Fitted:
    """A learner's result: the flat form, and the library's own object for the training file."""

    flat: FlatModel
    estimator: Any


def need_scikit_learn() -> None:
    """Raise a one-sentence error if the learning libraries are not installed."""
    try:
        import sklearn  # noqa: F401
        import skops.io  # noqa: F401
    except ImportError:
        fix = 'install them: pip install "cohabit[learn]"'
        raise InputError("training needs scikit-learn and skops, which are not installed", "", fix) from None


def fit_kind(kind: str, data: CoRuns, parameters: Parameters, seed: int, trees: int = TREES) -> Fitted:
    """Train one learner with these parameters."""
    if kind == FACTOR:
        factor = fit_factor(data, **parameters)
        return Fitted(factor, factor.arrays())
    from threadpoolctl import threadpool_limits

    if kind == LAW:
        from cohabit.predict.law import fit_law

        with threadpool_limits(1):
            return Fitted(*fit_law(data, seed, trees))
    sides = _sides(data)
    chance = int(stream(seed, f"fit {kind}").integers(2**31))
    # One thread: the matrices are small, and sums in another order would give another model on another machine.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # "did not converge" is not useful: the score shows the quality of the fit
        if kind == FOREST:
            return _forest(data, sides, parameters, chance, trees)
        unit = float(data.truth.std()) or 1.0
        x = np.hstack([sides.primary.apply(data.primary), sides.beside.apply(data.beside)])
        fit = {MLP: _mlp, SVR: _svr, ELASTIC_NET: _elastic_net}[kind]
        return fit(x, data.truth / unit, sides, parameters, unit, chance)


def _sides(data: CoRuns) -> Sides:
    """Every application counts once, however many rows it has."""
    first = [data.app.index(name) for name in dict.fromkeys(data.app)]
    second = [data.other.index(name) for name in dict.fromkeys(data.other)]
    return Sides(fit_scaling(data.primary[first]), fit_scaling(data.beside[second]))


def _forest(data: CoRuns, sides: Sides, parameters: Parameters, chance: int, trees: int) -> Fitted:
    from sklearn.ensemble import RandomForestRegressor

    x = np.hstack([data.primary[:, sides.primary.chosen], data.beside[:, sides.beside.chosen]]).astype(np.float32)
    forest = RandomForestRegressor(
        n_estimators=trees,
        max_features=parameters["max_features"],
        min_samples_leaf=parameters["min_samples_leaf"],
        random_state=chance,
    ).fit(x, data.truth)
    own = [tree.tree_ for tree in forest.estimators_]
    feature, threshold, left, right, roots = flat_nodes(own)
    value = np.concatenate([tree.value[:, 0, 0] for tree in own])
    flat = FlatForest(sides, feature, threshold, left, right, value, roots)
    return Fitted(flat, forest)


def _mlp(x: Floats, y: Floats, sides: Sides, parameters: Parameters, unit: float, chance: int) -> Fitted:
    from sklearn.neural_network import MLPRegressor

    network = MLPRegressor(
        hidden_layer_sizes=parameters["hidden"],
        alpha=parameters["alpha"],
        solver="lbfgs",
        max_iter=200,
        random_state=chance,
    ).fit(x, y)
    weights, biases = (
        [np.asarray(part, np.float64) for part in parts] for parts in (network.coefs_, network.intercepts_)
    )
    return Fitted(FlatNetwork(sides, tuple(weights), tuple(biases), unit), network)


def _elastic_net(x: Floats, y: Floats, sides: Sides, parameters: Parameters, unit: float, chance: int) -> Fitted:
    from sklearn.linear_model import ElasticNet

    line = ElasticNet(
        alpha=parameters["alpha"], l1_ratio=parameters["l1_ratio"], max_iter=5000, random_state=chance
    ).fit(x, y)
    return Fitted(FlatNetwork(sides, (line.coef_[:, None],), (np.array([line.intercept_]),), unit), line)


def _svr(x: Floats, y: Floats, sides: Sides, parameters: Parameters, unit: float, chance: int) -> Fitted:
    from sklearn.svm import SVR as SupportVectors

    gamma = parameters["gamma"] / max(x.shape[1], 1)  # columns have a deviation of 1: the library's "scale"
    machine = SupportVectors(C=parameters["c"], gamma=gamma, epsilon=0.05).fit(x, y)
    flat = FlatSupport(
        sides, np.asarray(machine.support_vectors_), machine.dual_coef_[0], float(machine.intercept_[0]), gamma, unit
    )
    return Fitted(flat, machine)


def library_answers(kind: str, estimator: Any, flat: FlatModel, data: CoRuns) -> Floats:
    """Return the training library's own answers, to compare the flat form with; not used to decide anything."""
    if isinstance(flat, FlatLaw):
        terms = flat.terms.of(data.primary, data.beside)
        return flat.mixed(terms, np.asarray(estimator.predict(flat.table(terms))))
    if isinstance(flat, FlatForest):
        sides = flat.sides
        x = np.hstack([data.primary[:, sides.primary.chosen], data.beside[:, sides.beside.chosen]]).astype(np.float32)
        return np.asarray(estimator.predict(x))
    if isinstance(flat, FlatNetwork | FlatSupport):
        x = np.hstack([flat.sides.primary.apply(data.primary), flat.sides.beside.apply(data.beside)])
        return np.asarray(estimator.predict(x) * flat.unit)
    widths = data.primary.shape[1], data.beside.shape[1]
    return load_flat(FORMS[kind], estimator, *widths).rows(data.primary, data.beside)
