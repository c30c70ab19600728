"""Train and query degradation models for a user: learners by name, hold-outs, the document, the files.

Learning is in predict/, the page in report/; this module combines them. Applications held out as blind are removed from
the data before anything is fitted, scaled or chosen.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from cohabit.app.learn.pairing_score import pairing_of
from cohabit.model.errors import InputError
from cohabit.predict import scores, training
from cohabit.predict.archive import load_training
from cohabit.predict.baselines import ADDITIVE
from cohabit.predict.estimators import FACTOR, KINDS, library_answers, need_scikit_learn
from cohabit.predict.factor import factorise, references
from cohabit.predict.families import families_of
from cohabit.predict.features import CoRuns, profiles_of
from cohabit.predict.folds import BOTH, check_applications, stream
from cohabit.predict.members import members_of
from cohabit.predict.model_file import arranged, check_fits, load_model, not_beaten_by, save_model
from cohabit.predict.pooled_training import NewPrograms, judge_new_programs, pooled
from cohabit.predict.pooling import LEVEL
from cohabit.predict.scores import Asked
from cohabit.predict.training import Evaluated, Trained
from cohabit.report.learning import render_learning
from cohabit.trace.degradation import write_degradation
from cohabit.whole_files import replacing

AUTO = "auto"
REFERENCES = 4  # applications that every other one runs beside, where co-runs must be few
Advance = Callable[[int, int], None]
Model = TypeVar("Model")


@dataclass(frozen=True)
class HeldOut:
    """The data to learn from, and the data held out for the final score."""

    learn: CoRuns
    blind: CoRuns | None = None
    unseen: str = ""


def hold_out_suites(data: CoRuns, suites: Sequence[str]) -> HeldOut:
    """Hold out all applications of these suites; their pairs with others are in neither part."""
    known = sorted(set(data.suite) - {""})
    if not known:
        raise InputError("--blind-suite needs a column suite in the data", "", "add it, or use --blind FILE")
    for suite in suites:
        if suite not in known:
            raise InputError(f"no application is of the suite {suite!r}", "", f"the data has {', '.join(known)}")
    new = {name for name, own in zip(data.app, data.suite, strict=True) if own in suites}
    return _held_out(data, data, new)


def hold_out_file(data: CoRuns, blind: CoRuns, where: str) -> HeldOut:
    """Hold out all applications that are slowed in another file; rows about them are not learned from."""
    check_fits(data.schema, blind, where)
    return _held_out(data, arranged(data.schema, blind), set(blind.app))


def _held_out(data: CoRuns, asked: CoRuns, new: set[str]) -> HeldOut:
    first, second = data.within(new)
    learn = data.only(~first & ~second)
    check_applications(learn)
    first, second = asked.within(new)
    both = first & second
    if both.sum() >= 2:
        return HeldOut(learn, asked.only(both), "both applications")
    return HeldOut(learn, asked.only(first), "the slowed application")


@dataclass(frozen=True, eq=False)
class Lesson(Generic[Model]):
    """The outcome of a training: the model, the document of `cohabit train`, and the page."""

    trained: Model
    document: dict[str, Any]
    page: str

    def write(self, path: Path, keys: Sequence[str], save: Callable[[dict[str, Any]], None]) -> None:
        """Write the model and its page; the page first, so that a model never exists without one."""
        with replacing(page_of(path)) as stream:
            stream.write(self.page.encode("utf-8"))
            save({key: self.document[key] for key in keys})


def page_of(path: Path) -> Path:
    """Return the path of a model's page."""
    return path.with_name(path.name + ".html")


def counted(advance: Advance | None, total: int) -> Callable[[], None]:
    """Return a function that reports one more step done, of so many."""
    done = itertools.count(1)

    def step() -> None:
        if advance is not None:
            advance(next(done), total)

    return step


def train_degradation(
    held: HeldOut, model: str = AUTO, seed: int = 0, quantile: float | None = None, advance: Advance | None = None
) -> Lesson[Trained]:
    """Score the learners on unseen applications, keep the best (or the one named), and describe it."""
    need_scikit_learn()
    data = held.learn
    check_applications(data)
    kinds = KINDS if model == AUTO else (model,)
    step = counted(advance, training.steps_of(data, kinds, seed))
    evaluated = [training.evaluate(data, kind, seed, step=step) for kind in kinds]
    chosen = training.best_kind(evaluated)
    fits = {one.kind: training.fit(data, one.kind, seed, one.parameters) for one in evaluated}
    blind = {
        kind: training.asked_of(fit.deployed, held.blind, float(data.truth.mean()))
        for kind, fit in fits.items()
        if held.blind is not None
    }
    best = next(one for one in evaluated if one.kind == chosen)
    trained, careful = fits[chosen], None
    trained = replace(
        trained, deployed=pooled(trained.deployed, data, best.touched, best.grouped, best.unseen == BOTH, seed)
    )
    if quantile is not None:
        margin = training.margin_for(best.grouped, quantile)
        trained = training.with_margin(trained, margin)
        careful = _careful(quantile, margin, blind.get(chosen, best.grouped), "blind" if blind else "grouped")
    new = judge_new_programs(data, best, seed)
    document = _document(data, evaluated, best, blind, held) | {
        "careful": careful,
        "importance": scores.importance(trained.deployed, data, stream(seed, "importance"))[:20],
        "few_co_runs": few_co_runs(data) if FACTOR in kinds else None,
        "deployed_difference": _difference(trained, data),
        "seed": seed,
        "training_hash": trained.digest,
        "by_split": _by_split(best, training.further(data, best, seed)),
        "not_beaten": scores.not_beaten(best.grouped),
        "new_programs": None if new is None else _new_programs(new, data, best, seed),
        "interval_level": LEVEL,
        "notes": list(data.notes),
        "families_from": families_of(data.applications, data.family)[1],
    }
    shown = best.grouped if new is None else new.before
    judged = trained.deployed.pooled
    assert judged is not None
    programs, nothing = set(data.applications), np.zeros(len(shown.truth), bool)
    fresh = replace(judged, effects={}, weight=1.0)  # which is in the answers of new programs already
    interval = fresh.judged(shown.answer, shown.app, [members_of(one, programs) for one in shown.other], nothing)
    return Lesson(trained, document, render_learning(document, shown, blind.get(chosen), interval))


def _by_split(best: Evaluated, others: dict[str, Asked]) -> dict[str, Any]:
    """Scores of the model and of the baselines, by what is new in the pairs asked about."""
    return {
        name: {"rows": len(asked.truth), "model": scores.model_score(asked), **scores.baselines(asked)}
        for name, asked in {"family": best.grouped, **others, "pair": best.paired}.items()
    }


def _new_programs(new: NewPrograms, data: CoRuns, best: Evaluated, seed: int) -> dict[str, Any]:
    """Scores on programs never seen, with no co-run known and with a few. Where a fold has too few new programs to be
    paired, pairing is judged on halves: one half is learned from, the other paired."""
    found: dict[str, Any] = {"co_runs": new.co_runs}
    pairings = _pairings(new, seed)
    if None in pairings:
        halves = judge_new_programs(data, best, seed, folds=2)
        pairings = pairings if halves is None else _pairings(halves, seed)
    for name, asked, covered in (("before", new.before, new.covered_before), ("after", new.after, new.covered_after)):
        own = scores.model_score(asked)
        plain = scores.baselines(asked)[ADDITIVE]
        found[name] = own | {"rows": len(asked.truth), "additive_error": plain["mean_error"], "covered": covered}
    found["before"]["pairing"], found["after"]["pairing"] = pairings
    return found


def _pairings(new: NewPrograms, seed: int) -> list[dict[str, Any] | None]:
    """Return what pairing is worth before and after the known co-runs."""
    asked = (new.before, new.after)
    return [pairing_of({str(at): part for at, part in enumerate(one.split())}, seed) for one in asked]


def _document(
    data: CoRuns, evaluated: Sequence[Evaluated], best: Evaluated, blind: dict[str, Asked], held: HeldOut
) -> dict[str, Any]:
    by_model: dict[str, Any] = {}
    judged = {kind: scores.summary(asked) for kind, asked in blind.items()}
    for one in evaluated:
        grouped, paired, unseen = scores.summary(one.grouped), scores.summary(one.paired), judged.get(one.kind, {})
        by_model[one.kind] = {
            "grouped_r2": grouped["r2"],
            "pair_r2": paired["r2"],
            "blind_r2": unseen.get("r2"),
            "grouped_mean_error": grouped["mean_error"],
            "blind_mean_error": unseen.get("mean_error"),
            "negatives": one.grouped.negatives + (blind[one.kind].negatives if blind else 0),
            "surprises": scores.surprises(one.grouped.truth, one.grouped.answer),
            "parameters": dict(one.parameters),
        }
    own = by_model[best.kind]
    plain, unseen = scores.summary(best.grouped), judged.get(best.kind, {})
    by_model["mean"] = {
        "grouped_r2": plain["mean_predictor_r2"],
        "grouped_mean_error": plain["mean_predictor_error"],
        "pair_r2": scores.r_squared(best.paired.truth, best.paired.mean),
        "blind_r2": unseen.get("mean_predictor_r2"),
        "blind_mean_error": unseen.get("mean_predictor_error"),
        "negatives": 0,
        "surprises": scores.surprises(best.grouped.truth, best.grouped.mean),
        "parameters": {},
    }
    return {
        "model": best.kind,
        "rows": len(data),
        "applications": len(data.applications),
        "grouped_r2": own["grouped_r2"],
        "pair_r2": own["pair_r2"],
        "blind_r2": own["blind_r2"],
        "negatives": own["negatives"],
        "by_model": by_model,
        "grouped_rows": len(best.grouped.truth),
        "grouped_unseen": best.unseen,
        "blind_rows": len(blind[best.kind].truth) if blind else 0,
        "blind_unseen": held.unseen or None,
        "measured_below_zero": int((data.truth < 0).sum()),
        "by_range": scores.by_range(best.grouped.truth, np.maximum(best.grouped.answer, 0.0)),
        "remark": data.remark,
    }


def _careful(quantile: float, margin: float, asked: Asked, where: str) -> dict[str, Any]:
    """Describe the effect of the margin on broken promises."""
    before, after = np.maximum(asked.answer, 0.0), training.raised(asked, margin)
    return {
        "quantile": quantile,
        "margin": margin,
        "measured_on": where,
        "promised_too_little_before": float((before < asked.truth).mean()),
        "promised_too_little": float((after < asked.truth).mean()),
        "surprises_before": scores.surprises(asked.truth, before),
        "surprises": scores.surprises(asked.truth, after),
    }


def few_co_runs(data: CoRuns) -> dict[str, Any] | None:
    """Score the factorisation from co-runs with a few references on all other pairs; None for small data."""
    data = data.in_pairs()
    chosen = references(data, REFERENCES)
    first, second = data.within(chosen)
    known, rest = data.only(first | second), data.only(~first & ~second)
    if len(chosen) < REFERENCES or len(rest) < len(data.applications):
        return None
    factors = factorise(known, 2, 0.1)
    place = {name: at for at, name in enumerate(factors.names)}
    measured = np.array(
        [app in known.app and other in known.other for app, other in zip(rest.app, rest.other, strict=True)]
    )
    rest, gaps = rest.only(measured), int((~measured).sum())
    if len(rest) < len(data.applications):
        return None
    answer = np.array(
        [
            float(factors.sensitivity[place[app]] @ factors.pressure[place[other]])
            for app, other in zip(rest.app, rest.other, strict=True)
        ]
    )
    return {
        "references": list(chosen),
        "co_runs": len(known),
        "of": len(data),
        "rows": len(rest),
        "without": gaps,
        "r2": scores.r_squared(rest.truth, answer),
    }


def _difference(trained: Trained, data: CoRuns) -> float:
    """Return the largest distance between the flat form and the library's own prediction, in points."""
    flat = trained.deployed.flat
    library = library_answers(trained.kind, trained.estimator, flat, data)
    return float(np.abs(flat.rows(data.primary, data.beside) - library).max())


def write_lesson(lesson: Lesson[Trained], path: Path, environment: dict[str, Any]) -> None:
    """Write the model and its page."""
    kept = ("model", "rows", "applications", "grouped_r2", "pair_r2", "blind_r2", "negatives", "seed", "remark")
    lesson.write(path, (*kept, "not_beaten"), lambda told: save_model(path, lesson.trained, told, environment))


def ask(path: Path, data: CoRuns, where: str, library: bool = False) -> dict[str, Any]:
    """Return the document of `cohabit predict`."""
    stored = load_model(path)
    model = stored.model
    check_fits(model.schema, data, where)
    fitting = arranged(model.schema, data)
    if library:
        need_scikit_learn()
        raw = library_answers(model.kind, load_training(path), model.flat, fitting)
    else:
        raw = model.raw(fitting.primary, fitting.beside, fitting.app, fitting.other)
    outside = model.outside(fitting.primary, fitting.beside)
    answer, _, low, high = model.judged(raw, fitting.app, fitting.neighbours, outside)
    ceiling = np.inf if model.pooled is None else model.pooled.ceiling
    document: dict[str, Any] = {
        "model": model.kind,
        "rows": len(data),
        "negatives": int((raw < 0.0).sum()),
        "beyond_seen": int((raw > ceiling).sum()),
        "outside_range": int(outside.sum()),
        "not_beaten": not_beaten_by(stored.manifest),
        "margin": model.margin,
        "training_hash": stored.manifest["training_hash"],
        "r2": None,
        "mean_error": None,
        "predictions": [
            [app, other, percent] for app, other, percent in zip(data.app, data.other, answer.tolist(), strict=True)
        ],
        "intervals": [list(ends) for ends in zip(low.tolist(), high.tolist(), strict=True)],
    }
    if data.target is not None:
        document["r2"] = scores.r_squared(data.target, answer)
        document["mean_error"] = scores.mean_error(data.target, answer)
    return document


def write_matrix(path: Path, data: CoRuns, out: Path, where: str) -> int:
    """Write all pairs of the data's applications as a matrix for `cohabit match`; return the number of applications."""
    model = load_model(path).model
    check_fits(model.schema, data, where)
    profiles = profiles_of(arranged(model.schema, data))
    if len(profiles.names) < 2:
        raise InputError("has no two applications with both primary.* and other.* counters", where, "add their rows")
    judged = model.judge_pairs(profiles.names, profiles.primary, profiles.beside)
    write_degradation(out, profiles.names, judged.median)
    return len(profiles.names)
