"""Partial pooling: what is every program's own beyond what its counters say, and how sure that is.

A co-run on the model's scale is the prediction from counters, plus the *sensitivity* of the slowed program, plus the
*intensity* of each neighbour, plus noise. Both are zero before any co-run is known (the counters' prediction stands)
and move from there with every co-run, the less the noisier the data: the posterior of a normal prior. Works with one
co-run or many, with gaps, and with groups of neighbours. The scale is log((percent + shift) / shift); intervals hold
LEVEL of the pairs of families left out of training. Where counters say little of families left out, the prior is drawn
towards the mean of all pairs: by how much is found by telling a few co-runs of each of those families, one after the
other, and asking for the rest. Pure linear algebra, over any model's answers from counters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.predict.features import Flags, Floats
from cohabit.predict.flat_arrays import Arrays, floats

LEVEL = 0.8  # of intervals
WIDER = 1.5  # times, outside the range that was learned from
SHIFTS = (100.0, 25.0, 8.0)  # percent: from slowdowns that multiply to degradations that do
POOLING_SHIFTS = (1000.0, *SHIFTS)  # the first: percentages that add up
SWEEPS = 30
MOST_GROWING, GROWN_ENOUGH = 10, 0.01  # sweeps, and the change of a variance below which they end
WEIGHTS = (1.0, 0.75, 0.5, 0.25, 0.0)  # of the counters' answer; what is left goes to the mean
MOST_HELD = 5  # families, or groups of them, by which the weight is found
KNOWN_CO_RUNS = 2  # of every new program, where a model is judged after some
EFFECTS = 6  # numbers of an effect
LEAST = 1e-6  # variance
MANY = 10**9  # programs: spreads that do not move


class Effect(NamedTuple):
    """One program's own, on the model's scale: mean and variance of both sides, and the co-runs behind each."""

    sensitivity: float
    sensitivity_variance: float
    intensity: float
    intensity_variance: float
    slowed: int = 0
    beside: int = 0


class CoRun(NamedTuple):
    """What a co-run showed beyond the prediction from counters, on the model's scale."""

    app: str
    beside: tuple[str, ...]
    excess: float


class Spreads(NamedTuple):
    """Variances: of sensitivities and intensities between programs, and of a co-run around its programs'."""

    sensitivity: float
    intensity: float
    noise: float

    def prior(self) -> Effect:
        """Return what is known of a program without co-runs."""
        return Effect(0.0, self.sensitivity, 0.0, self.intensity)


def posterior(spreads: Spreads, known: Mapping[str, Effect], runs: Sequence[CoRun]) -> dict[str, Effect]:
    """Return every program that is known or has run, after these co-runs."""
    found = dict(known)
    names = tuple(dict.fromkeys(name for run in runs for name in (run.app, *run.beside)))
    if not names:
        return found
    before = [known.get(name, spreads.prior()) for name in names]
    design = _design(names, runs)
    mean = np.array([one.sensitivity for one in before] + [one.intensity for one in before])
    variance = np.array([one.sensitivity_variance for one in before] + [one.intensity_variance for one in before])
    excess = np.array([run.excess for run in runs]) - design @ mean
    covariance = np.linalg.inv(design.T @ design / spreads.noise + np.diag(1.0 / np.maximum(variance, LEAST)))
    after, certainty = mean + covariance @ (design.T @ excess) / spreads.noise, np.diag(covariance)
    count, runs_of = len(names), design.astype(bool).sum(axis=0)
    for at, name in enumerate(names):
        found[name] = Effect(
            float(after[at]),
            float(certainty[at]),
            float(after[count + at]),
            float(certainty[count + at]),
            before[at].slowed + int(runs_of[at]),
            before[at].beside + int(runs_of[count + at]),
        )
    return found


def grown(spreads: Spreads, programs: int, known: Mapping[str, Effect], runs: Sequence[CoRun]) -> Spreads:
    """Return the variances between programs once new ones are counted, too: where their co-runs show that they differ
    by more than the `programs` that the variances come from, each is believed the more (EM, their part alone)."""
    slowed = {run.app for run in runs} - known.keys()
    beside = {name for run in runs for name in run.beside} - known.keys()
    found = spreads
    for _ in range(MOST_GROWING if slowed or beside else 0):
        effects, before = posterior(found, known, runs), found
        own = sum(effects[name].sensitivity ** 2 + effects[name].sensitivity_variance for name in slowed)
        theirs = sum(effects[name].intensity ** 2 + effects[name].intensity_variance for name in beside)
        first = (programs * spreads.sensitivity + own) / (programs + len(slowed))
        second = (programs * spreads.intensity + theirs) / (programs + len(beside))
        found = Spreads(max(first, LEAST), max(second, LEAST), spreads.noise)
        if np.allclose(found[:2], before[:2], rtol=GROWN_ENOUGH):
            break
    return found


def fit_spreads(runs: Sequence[CoRun]) -> Spreads:
    """Variances that explain best what co-runs showed beyond predictions made without them (EM)."""
    names = tuple(dict.fromkeys(name for run in runs for name in (run.app, *run.beside)))
    design, excess = _design(names, runs), np.array([run.excess for run in runs])
    total = max(float(np.mean(excess**2)), LEAST)
    first = second = noise = total / 3.0
    count, gram, pull = len(names), design.T @ design, design.T @ excess
    seen = gram.diagonal() > 0
    own, other = seen[:count], seen[count:]
    for _ in range(SWEEPS):
        prior = np.concatenate([np.full(count, 1.0 / first), np.full(count, 1.0 / second)])
        covariance = np.linalg.inv(gram / noise + np.diag(prior))
        effect = covariance @ pull / noise
        squares = effect**2 + covariance.diagonal()
        first = max(float(squares[:count][own].mean()), LEAST)
        second = max(float(squares[count:][other].mean()), LEAST)
        left = float(((excess - design @ effect) ** 2).sum()) + float((gram * covariance).sum())
        noise = max(left / len(runs), LEAST)
    return Spreads(first, second, noise)


def _design(names: Sequence[str], runs: Sequence[CoRun]) -> Floats:
    """Return a row per co-run: one at the slowed program, one at each neighbour."""
    place = {name: at for at, name in enumerate(names)}
    found = np.zeros((len(runs), 2 * len(names)))
    for row, run in enumerate(runs):
        found[row, place[run.app]] = 1.0
        for name in run.beside:
            found[row, len(names) + place[name]] += 1.0
    return found


class Judged(NamedTuple):
    """Answers in percent: the median, the mean under what is not known of the programs, the ends of the interval."""

    median: Floats
    expected: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Pooled:
    """What is added to the answers from counters, and how sure the sum is."""

    shift: float  # percent
    ceiling: float  # percent: the most that was ever seen, also in co-runs since
    spreads: Spreads
    reach: float  # deviations to each side that hold LEVEL of the pairs of families left out
    effects: Mapping[str, Effect]
    weight: float = 1.0  # of the counters in the prior
    mean: float = 0.0  # percent: of all pairs, per neighbour
    programs: int = MANY  # that the spreads come from

    def prior(self, by_counters: Floats, neighbours: Floats | float = 1.0) -> Floats:
        """Return what is expected before any co-run is known, from what the counters say."""
        return np.asarray(self.weight * by_counters + (1.0 - self.weight) * self.mean * neighbours)

    def judged(self, by_counters: Floats, app: Sequence[str], other: Sequence[Sequence[str]], outside: Flags) -> Judged:
        """Answers from what the counters say (percent) and who it is; a name that is not known adds only doubt."""
        nothing = self.spreads.prior()
        own = [self.effects.get(name, nothing) for name in app]
        theirs = [[self.effects.get(name, nothing) for name in group] for group in other]
        both = list(zip(own, theirs, strict=True))
        added = np.array([one.sensitivity + sum(each.intensity for each in group) for one, group in both])
        doubt = [one.sensitivity_variance + sum(each.intensity_variance for each in group) for one, group in both]
        middle = scaled(self.prior(by_counters, _sizes(other)), self.shift) + added
        wider, unknown = np.where(outside, WIDER, 1.0), np.array(doubt)
        reach = self.reach * wider * np.sqrt(self.spreads.noise + unknown)
        median, low, high = (self._percent(middle + step) for step in (0.0, -reach, reach))
        return Judged(median, np.maximum(self._percent(middle + wider**2 * unknown / 2.0), median), low, high)

    def _percent(self, middle: Floats) -> Floats:
        return np.asarray(np.clip(percent(middle, self.shift), 0.0, self.ceiling))

    def excess(self, seen: float, by_counters: float, neighbours: int = 1) -> float:
        """Return what a co-run showed beyond the prior, on the scale of effects."""
        more = scaled(np.array([seen, float(self.prior(np.array(by_counters), float(neighbours)))]), self.shift)
        return float(more[0] - more[1])

    def taught(self, by_counters: Floats, app: Sequence[str], other: Sequence[Sequence[str]], seen: Floats) -> Pooled:
        """Return the same after more co-runs."""
        excess = scaled(seen, self.shift) - scaled(self.prior(by_counters, _sizes(other)), self.shift)
        members = zip(app, other, excess.tolist(), strict=True)
        runs = [CoRun(one, tuple(group), more) for one, group, more in members]
        return self.after(runs, float(seen.max(initial=0.0)))

    def after(self, runs: Sequence[CoRun], most_seen: float) -> Pooled:
        """Return the same after co-runs on the scale of effects, the worst of which was slowed by so many percent."""
        spreads, ceiling = grown(self.spreads, self.programs, self.effects, runs), max(self.ceiling, most_seen)
        return replace(self, ceiling=ceiling, spreads=spreads, effects=posterior(spreads, self.effects, runs))

    def arrays(self) -> Arrays:
        """All numbers, by name, for a file; the names of effects go beside them."""
        spreads = (self.spreads.sensitivity, self.spreads.intensity, self.spreads.noise)
        effects = np.array([tuple(one) for one in self.effects.values()], np.float64).reshape(-1, EFFECTS)
        numbers = self.shift, self.ceiling, self.reach, *spreads, self.weight, self.mean, float(self.programs)
        return {"pooled": np.array(numbers), "effects": effects}


def load_pooled(arrays: Mapping[str, NDArray[np.generic]], names: Sequence[str]) -> Pooled:
    """From the arrays of a file; KeyError or ValueError where they do not fit."""
    shift, ceiling, reach, *more = floats(arrays, "pooled").tolist()
    spreads, (weight, mean, programs) = more[:3], more[3:] or (1.0, 0.0, MANY)  # an earlier file has the spreads only
    effects = floats(arrays, "effects")
    if (
        not 0.0 <= weight <= 1.0
        or programs < 1
        or effects.shape != (len(names), EFFECTS)
        or shift <= 0
        or reach < 0
        or min(spreads) <= 0
    ):
        raise ValueError("its spreads do not fit together")
    known = {name: Effect(*row[:4], *map(int, row[4:])) for name, row in zip(names, effects.tolist(), strict=True)}
    return Pooled(shift, ceiling, Spreads(*spreads), reach, known, weight, mean, int(programs))


def _sizes(groups: Sequence[Sequence[str]]) -> Floats:
    return np.array([float(len(group)) for group in groups])


def scaled(seen: Floats, shift: float) -> Floats:
    """To the scale of effects; a speed-up beyond half the shift is noise."""
    return np.asarray(np.log1p(np.maximum(seen, -0.5 * shift) / shift))


def percent(middle: Floats, shift: float) -> Floats:
    """From the scale of effects."""
    return np.asarray(shift * np.expm1(np.minimum(middle, 50.0)))


@dataclass(frozen=True)
class Left:
    """Answers about pairs of which a program had been left out of training, and the truth, in percent."""

    answer: Floats
    truth: Floats
    app: Sequence[str]
    other: Sequence[Sequence[str]]

    def merged(self) -> Left:
        """Return every pair once, with the mean of its answers."""
        rows_of: dict[tuple[str, tuple[str, ...]], list[int]] = {}
        for row, pair in enumerate(zip(self.app, map(tuple, self.other), strict=True)):
            rows_of.setdefault(pair, []).append(row)
        first = [rows[0] for rows in rows_of.values()]
        answer = np.array([float(self.answer[rows].mean()) for rows in rows_of.values()])
        return Left(answer, self.truth[first], [pair[0] for pair in rows_of], [pair[1] for pair in rows_of])

    def drawn(self, weight: float, mean: float) -> Left:
        """Return the same with answers drawn towards a mean."""
        return replace(self, answer=weight * self.answer + (1.0 - weight) * mean * _sizes(self.other))

    def of(self, rows: Sequence[int]) -> Left:
        """Return some of the pairs."""
        app, other = [self.app[row] for row in rows], [self.other[row] for row in rows]
        return Left(self.answer[rows], self.truth[rows], app, other)

    def excess(self, shift: float) -> list[CoRun]:
        """Return what the answers lack."""
        more = (scaled(self.truth, shift) - scaled(self.answer, shift)).tolist()
        return [CoRun(one, tuple(group), by) for one, group, by in zip(self.app, self.other, more, strict=True)]


class Held(NamedTuple):
    """Programs left out together, and the pairs with at least one of them: those told of them first, and the rest."""

    new: frozenset[str]
    told: Left
    asked: Left
    both: Left  # of these only, asked before anything is told


def fit_pooled(one_new: Left, all_new: Left, held: Sequence[Held] = ()) -> Pooled:
    """From pairs with a program left out, the scale on which effects tell most of a pair from the others, the weight of
    the counters in the prior, and spreads; the reach from pairs of which all programs were left out.

    With `held`, scale and weight are those with which few co-runs of these programs tell most of the others.
    """
    each = one_new.merged()
    mean = float((each.truth / _sizes(each.other)).mean())
    if held:
        ways = [(shift, weight) for weight in WEIGHTS for shift in POOLING_SHIFTS]
        shift, weight = min(ways, key=lambda way: _error_of_held(each, held[:MOST_HELD], mean, *way))
    else:
        shift, weight = min(POOLING_SHIFTS, key=lambda one: _error_left_out(each, one)), 1.0
    each, all_new = each.drawn(weight, mean), all_new.drawn(weight, mean)
    spreads, runs = fit_spreads(each.excess(shift)), all_new.excess(shift)
    excess = np.array([run.excess for run in runs])
    groups = np.array([len(run.beside) for run in runs])
    deviation = np.sqrt(spreads.noise + spreads.sensitivity + spreads.intensity * groups)
    level = min(1.0, LEVEL * (1.0 + 1.0 / len(runs)))
    reach = float(np.quantile(np.abs(excess) / deviation, level, method="higher"))
    programs = len({name for run in each.excess(shift) for name in (run.app, *run.beside)})
    return Pooled(shift, float(max(one_new.truth.max(), 1.0)), spreads, reach, {}, weight, mean, programs)


def _error_of_held(each: Left, held: Sequence[Held], mean: float, shift: float, weight: float) -> float:
    """Return the mean error in points about programs left out, before any co-run of theirs and after a few, together:
    both happen to every new program."""
    first, later = list[Floats](), list[Floats]()
    for one in held:
        sides = enumerate(zip(each.app, each.other, strict=True))
        others = each.of([row for row, (app, group) in sides if one.new.isdisjoint((app, *group))])
        if not others.app:
            continue
        runs = others.drawn(weight, mean).excess(shift)
        spreads = fit_spreads(runs)
        told, known = one.told.drawn(weight, mean).excess(shift), posterior(spreads, {}, runs)
        after = grown(spreads, len(known), known, told)
        first.append(_errors(one.both.drawn(weight, mean), spreads, known, shift))
        later.append(_errors(one.asked.drawn(weight, mean), after, posterior(after, known, told), shift))
    return sum(float(np.concatenate(found).mean()) for found in (first, later) if found)


def _errors(asked: Left, spreads: Spreads, known: Mapping[str, Effect], shift: float) -> Floats:
    nothing = spreads.prior()
    added = [
        known.get(app, nothing).sensitivity + sum(known.get(one, nothing).intensity for one in group)
        for app, group in zip(asked.app, asked.other, strict=True)
    ]
    found = percent(scaled(asked.answer, shift) + np.array(added), shift)
    return np.asarray(np.abs(np.maximum(found, 0.0) - asked.truth))


def _error_left_out(each: Left, shift: float) -> float:
    """Return the mean error in points where every pair is predicted from the counters and all other pairs."""
    runs = each.excess(shift)
    spreads = fit_spreads(runs)
    names = tuple(dict.fromkeys(name for run in runs for name in (run.app, *run.beside)))
    design, excess = _design(names, runs), np.array([run.excess for run in runs])
    prior = np.repeat([1.0 / spreads.sensitivity, 1.0 / spreads.intensity], len(names))
    half = design @ np.linalg.inv(design.T @ design / spreads.noise + np.diag(prior)) / spreads.noise
    own = np.minimum((half * design).sum(axis=1), 1.0 - LEAST)
    fitted = half @ (design.T @ excess)
    others = (fitted - own * excess) / (1.0 - own)
    return float(np.abs(percent(scaled(each.answer, shift) + others, shift) - each.truth).mean())
