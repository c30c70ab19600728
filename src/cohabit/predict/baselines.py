"""What a model must beat: the mean, every program's own average, and a line in one counter. Pure arithmetic."""

from __future__ import annotations

import numpy as np

from cohabit.predict.features import CoRuns, Floats
from cohabit.predict.physics import OVER, TERMS, Terms, fit_terms
from cohabit.predict.pooling import CoRun, fit_spreads, posterior

MEAN, ADDITIVE, SINGLE = BASELINES = ("mean", "additive", "one-feature")
TITLES = {
    MEAN: "the mean",
    ADDITIVE: "sensitivity plus intensity of each program",
    SINGLE: "a line in one counter: how far both together exceed the machine",
}


def additive(known: CoRuns, new: CoRuns) -> Floats:
    """The mean, plus what is known of the slowed program and of its neighbours from their other co-runs."""
    mean = float(known.truth.mean())
    runs = [CoRun(*one) for one in zip(known.app, known.neighbours, (known.truth - mean).tolist(), strict=True)]
    spreads = fit_spreads(runs)
    effects, nothing = posterior(spreads, {}, runs), spreads.prior()
    programs = {*known.applications, *new.applications}
    found = []
    for app, group in zip(new.app, new.among(programs), strict=True):
        own = effects.get(app, nothing).sensitivity
        found.append(mean + own + sum(effects.get(one, nothing).intensity for one in group))
    return np.array(found)


def single(known: CoRuns, new: CoRuns) -> Floats:
    """A line in the one counter whose excess over the machine's capacity explains most of what is known."""
    terms = fit_terms(known)
    line = single_line(terms, terms.of(known.primary, known.beside), known.truth)
    return np.asarray(terms.of(new.primary, new.beside) @ line[:-1] + line[-1])


def single_line(terms: Terms, table: Floats, wanted: Floats) -> Floats:
    """The weights of the terms, all but one zero, then the constant; without a term that explains any, the mean."""
    found = np.zeros(table.shape[1] + 1)
    found[-1] = wanted.mean()
    best = 0.0
    for column in range(OVER, TERMS * len(terms.own), TERMS):
        x = table[:, column]
        if x.std() < 1e-9:
            continue
        slope = float(((x - x.mean()) * (wanted - wanted.mean())).mean() / x.var())
        if slope > 0 and (won := float(slope**2 * x.var())) > best:
            best, found[:-1] = won, 0.0
            found[column], found[-1] = slope, wanted.mean() - slope * x.mean()
    return found


def all_of(known: CoRuns, new: CoRuns) -> dict[str, Floats]:
    """Return the answers of every baseline but the mean."""
    return {ADDITIVE: additive(known, new), SINGLE: single(known, new)}
