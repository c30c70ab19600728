"""Intervals and partial pooling of a trained model, and how it does once some co-runs of new programs are known."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cohabit.predict import folds as folding
from cohabit.predict.baselines import ADDITIVE, additive
from cohabit.predict.degradation import DegradationModel
from cohabit.predict.estimators import TREES_IN_SEARCH, fit_kind
from cohabit.predict.features import CoRuns, Flags, Floats
from cohabit.predict.folds import Fold, stream
from cohabit.predict.members import JOINT, members_of
from cohabit.predict.pooling import KNOWN_CO_RUNS, Held, Judged, Left, fit_pooled
from cohabit.predict.scores import Asked
from cohabit.predict.training import Evaluated, left_out

FEWEST_TO_CALIBRATE = 10  # pairs
FEWEST_HELD = 3  # folds: with fewer, the weight of the counters is not looked for


def pooled(
    model: DegradationModel, data: CoRuns, touched: Asked, grouped: Asked, both: bool = False, seed: int = 0
) -> DegradationModel:
    """Return the model with intervals, calibrated on families it had not seen, and with what its co-runs taught.

    `both`: the answers are joined from folds in which both programs of `grouped` were unseen; then families are also
    told of one by one, to find how much the counters are worth beside co-runs.
    """
    programs = set(data.applications)
    layer = fit_pooled(
        _left(touched, programs), _left(grouped, programs), _held(touched, grouped, programs, both, seed)
    )
    layer = replace(layer, ceiling=float(max(data.truth.max(), 1.0)))
    tables = data.primary, data.beside
    lowest, highest = (np.concatenate([end(table, axis=0) for table in tables]) for end in (np.min, np.max))
    return replace(model, pooled=layer, lowest=lowest, highest=highest).taught(data)


def _left(asked: Asked, programs: set[str]) -> Left:
    return Left(asked.answer, asked.truth, asked.app, [members_of(other, programs) for other in asked.other])


def _held(touched: Asked, grouped: Asked, programs: set[str], both: bool, seed: int) -> list[Held]:
    """Return the programs of every fold with a few of their co-runs, drawn, and the others."""
    found, rng = list[Held](), stream(seed, "co-runs told to find weights")
    if not both or len(touched.sizes) != len(grouped.sizes) or len(grouped.sizes) < FEWEST_HELD:
        return []
    for around, inside in zip(touched.split(), grouped.split(), strict=True):
        pairs, within = _left(around, programs), _left(inside, programs)
        new = frozenset({*within.app, *(one for group in within.other for one in group)})
        told = _told_rows(pairs.app, pairs.other, sorted(new), programs - new, KNOWN_CO_RUNS, rng)
        rest = np.flatnonzero(~told).tolist()
        if told.any() and rest:
            found.append(Held(new, pairs.of(np.flatnonzero(told).tolist()), pairs.of(rest), within))
    return found


@dataclass(frozen=True)
class NewPrograms:
    """Answers about programs of families never seen, before and after some of their co-runs with known ones."""

    co_runs: int  # of every new program
    before: Asked
    after: Asked  # about all pairs with a new program but those co-runs; its additive baseline knows them, too
    covered_before: float  # share of the pairs within their interval
    covered_after: float


def judge_new_programs(
    data: CoRuns, one: Evaluated, seed: int, count: int = KNOWN_CO_RUNS, folds: int = folding.FOLDS
) -> NewPrograms | None:
    """Judge a learner on programs that are new but for a few co-runs; None: the data has too few pairs for that.

    In every fold the model is made of the other families alone, as `train` makes it of all: its intervals, the scale of
    its effects and the weight of its counters come from folds among them.
    """
    rng, divided = stream(seed, "co-runs of new programs"), folding.by_application(data, seed, folds)
    before, after = list[Asked](), list[Asked]()
    within, later = list[Flags](), list[Flags]()
    for fold in divided if divided.unseen == folding.BOTH else ():
        known, new = data.only(fold.learn), data.only(fold.ask)
        names = {*known.applications, *new.applications}
        touched, others, both = _calibration(known, new, one, seed)
        told = _told(data, fold, count, rng)
        rows = ~fold.learn & ~told & _among(data, names)
        if touched is None or others is None or not told.any() or not rows.any():
            continue
        flat = fit_kind(one.kind, known, one.parameters, seed, TREES_IN_SEARCH).flat
        first = pooled(DegradationModel(one.kind, data.schema, flat), known, touched, others, both, seed)
        lessons, rest = data.only(told), data.only(rows)
        for model, asked, parts, inside in ((first, new, before, within), (first.taught(lessons), rest, after, later)):
            found = model.judge(asked.primary, asked.beside, asked.app, asked.among(names))
            plain = {ADDITIVE: additive(known if model is first else data.only(fold.learn | told), asked)}
            mean = np.full(len(asked), float(known.truth.mean()))
            parts.append(Asked(asked.app, asked.other, asked.truth, found.median, mean, plain))
            inside.append(_inside(asked.truth, found))
    if not after:
        return None
    shares = (float(np.concatenate(each).mean()) for each in (within, later))
    return NewPrograms(count, Asked.joined(before), Asked.joined(after), *shares)


def _calibration(known: CoRuns, new: CoRuns, one: Evaluated, seed: int) -> tuple[Asked | None, Asked | None, bool]:
    """Return answers about known families left out, by models that have not seen the new ones, either; where they are
    too few to divide again, by models of the whole data."""
    inner = left_out(known, one.kind, seed, one.parameters)
    if inner is not None and min(len(asked.truth) for asked in inner) >= FEWEST_TO_CALIBRATE:
        return *inner, True
    return _without(one.touched, new.applications), _without(one.grouped, new.applications), False


def _inside(truth: Floats, found: Judged) -> Flags:
    """Return which pairs are within their interval; what ran faster than alone counts as not slowed."""
    seen = np.maximum(truth, 0.0)
    return np.asarray((seen >= found.low - 1e-9) & (seen <= found.high + 1e-9))


def _told(data: CoRuns, fold: Fold, count: int, rng: np.random.Generator) -> Flags:
    """Return the rows of so many co-runs of every new program with known ones, in both orders where measured."""
    known = set(data.only(fold.learn).applications)
    new = [name for name in data.only(fold.ask).applications if name not in known]
    return _told_rows(data.app, data.neighbours, new, known, count, rng)


def _told_rows(
    apps: Sequence[str],
    groups: Sequence[Sequence[str]],
    new: Sequence[str],
    known: Collection[str],
    count: int,
    rng: np.random.Generator,
) -> Flags:
    pairs = enumerate(zip(apps, groups, strict=True))
    rows = [(row, app, group[0]) for row, (app, group) in pairs if len(group) == 1]
    found = np.zeros(len(apps), bool)
    for name in new:
        partners = sorted({other for _, app, other in rows if app == name and other in known})
        for partner in rng.permutation(partners)[:count].tolist():
            for row, app, other in rows:
                found[row] |= (app, other) in ((name, partner), (partner, name))
    return found


def _among(data: CoRuns, names: Collection[str]) -> Flags:
    """Return the rows of these programs only."""
    return np.array([{app, *group} <= set(names) for app, group in zip(data.app, data.neighbours, strict=True)], bool)


def _without(grouped: Asked, new: Collection[str]) -> Asked | None:
    """Return the answers about pairs without any of these programs; None: too few to calibrate by."""
    pairs = zip(grouped.app, grouped.other, strict=True)
    rows = np.flatnonzero([not {app, other, *other.split(JOINT)} & set(new) for app, other in pairs])
    if len(rows) < FEWEST_TO_CALIBRATE:
        return None
    app, other = (tuple(side[row] for row in rows) for side in (grouped.app, grouped.other))
    return Asked(app, other, grouped.truth[rows], grouped.answer[rows], grouped.mean[rows])
