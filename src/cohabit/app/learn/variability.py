"""Train and query variability models for a user: learners by name, the document, the files.

Learning is in predict/, the page in variability_page; this module combines them. Runs after `until_s` are removed
before anything is fitted, scaled or chosen, and judged at the end with the means and deviations frozen until then.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cohabit.app.learn.learning import AUTO, Advance, Lesson, counted
from cohabit.app.learn.variability_page import render_variability
from cohabit.model.errors import InputError
from cohabit.predict import variability_training as training
from cohabit.predict.archive import load_training
from cohabit.predict.estimators import need_scikit_learn
from cohabit.predict.features import Floats
from cohabit.predict.variability_data import CLASSES, VARIATION, Labels, Norms, Runs, freeze
from cohabit.predict.variability_file import load_variability, save_variability
from cohabit.predict.variability_learners import KINDS, library_shares
from cohabit.predict.variability_scores import Judged, confusion, f1, mean_f1, pooled
from cohabit.predict.variability_training import Chosen, Compared, TrainedVariability


def train_variability(
    data: Runs, model: str = AUTO, seed: int = 0, until_s: float | None = None, advance: Advance | None = None
) -> Lesson[TrainedVariability]:
    """Compare learners on unseen applications, keep the best (or the one named), choose columns, and describe it."""
    need_scikit_learn()
    window, later = split_at(data, until_s)
    training.check_runs(window)
    kinds = KINDS if model == AUTO else (model,)
    step = counted(advance, training.steps_of(window, kinds, seed))
    compared = [training.compare(window, kind, seed, step) for kind in kinds]
    chosen = training.choose(window, training.best_kind(compared), seed, step)
    trained = training.fit(window, chosen.kind, seed, chosen.columns, chosen.classes)
    document = _document(window, compared, chosen, trained) | {
        "blind": None if later is None else _blind(trained, later),
        "seed": seed,
        "training_hash": trained.digest,
    }
    return Lesson(trained, document, render_variability(document, chosen.classes, trained.deployed))


def split_at(data: Runs, until_s: float | None) -> tuple[Runs, Runs | None]:
    """Return the runs of the training window, and those that began later."""
    if until_s is None:
        return data, None
    before = data.start_s < until_s
    if not before.any() or before.all():
        what = f"has all {len(data)} runs on one side of --until {until_s:g}"
        inside = f"choose a time between {data.start_s.min():g} and {data.start_s.max():g}"
        raise InputError(what, data.origin, inside)
    return data.only(before), data.only(~before)


def _document(data: Runs, compared: Sequence[Compared], chosen: Chosen, trained: TrainedVariability) -> dict[str, Any]:
    model, three = trained.deployed, pooled(chosen.classes)
    norms = freeze(data.app, data.times_s)
    return {
        "model": chosen.kind,
        "rows": len(data),
        "applications": len(data.applications),
        "varying": int(norms.varies(data.app, data.times_s).sum()),
        "columns": len(model.columns),
        "f1_grouped": mean_f1(chosen.grouped),
        "f1_stratified": mean_f1(chosen.stratified),
        "features_kept": list(model.kept),
        "by_model": {
            one.kind: {
                "f1_grouped": mean_f1(one.grouped),
                "f1_stratified": mean_f1(one.stratified),
                "confusion": confusion(*pooled(one.grouped), 2),
            }
            for one in compared
        },
        "confusion": confusion(*pooled(chosen.grouped), 2),
        "confusion_classes": confusion(*three),
        "classes": list(CLASSES),
        "by_application": _by_application(chosen.grouped, norms),
        "by_size": {str(size): score for size, score in chosen.by_size.items()},
        "calibration": training.calibration_gain(chosen.classes),
        "slowdown": dict(zip(CLASSES, model.slowdown.tolist(), strict=True)),
        "deployed_difference": _difference(trained, data),
    }


def _by_application(grouped: Sequence[Judged], norms: Norms) -> dict[str, dict[str, Any]]:
    return {
        one.name: {
            "runs": len(one.truth),
            "varying": int(one.truth.sum()),
            "f1": f1(one.truth, one.answer),
            "mean_s": norms.mean_s[one.name],
            "deviation_s": norms.deviation_s[one.name],
        }
        for one in grouped
    }


def _blind(trained: TrainedVariability, later: Runs) -> dict[str, Any]:
    """Judge runs after the training window with its norms."""
    model = trained.deployed
    known = int(model.norms.knows(later.app).sum())
    return {"rows": known, **_judged(model.norms, later.app, later.times_s, model.classify(later.inputs))}


def _judged(norms: Norms, app: Sequence[str], times_s: Floats, answer: Labels) -> dict[str, Any]:
    """Compare answers with what happened; runs of unknown applications cannot be judged."""
    known = norms.knows(app)
    names = tuple(itertools.compress(app, known.tolist()))
    truth, said = norms.classes(names, times_s[known]), answer[known]
    return {
        "unknown_applications": sorted(set(app) - set(names)),
        "f1": f1((truth == VARIATION).astype(np.int64), (said == VARIATION).astype(np.int64)),
        "confusion_classes": confusion(truth, said),
    }


def _difference(trained: TrainedVariability, data: Runs) -> float:
    """Return the largest distance between the flat form and the library's own prediction."""
    model = trained.deployed
    rows = data.inputs[:, model.chosen]
    return float(np.abs(model.flat.shares(rows) - library_shares(model.flat, trained.estimator, rows)).max())


def write_variability(lesson: Lesson[TrainedVariability], path: Path) -> None:
    """Write the model and its page."""
    kept = ("model", "rows", "applications", "f1_grouped", "f1_stratified", "confusion", "seed")
    lesson.write(path, kept, lambda told: save_variability(path, lesson.trained, told))


def arranged(columns: Sequence[str], data: Runs) -> Runs:
    """Return the data with the model's counters in its order; a missing counter is an error."""
    own = columns[: -len(data.input_names) + len(data.columns)]
    place = {name: at for at, name in enumerate(data.columns)}
    for name in own:
        if name not in place:
            raise InputError(f"has no column {name}, which the model was trained on", data.origin, "measure it as well")
    table = data.table[:, [place[name] for name in own]]
    return Runs(data.app, data.start_s, data.run_s, data.workload_type, table, tuple(own), data.origin)


def ask_variability(path: Path, data: Runs, library: bool = False) -> dict[str, Any]:
    """Return the document of `cohabit predict` for a variability model."""
    stored = load_variability(path)
    model = stored.model
    fitting = arranged(model.columns, data)
    rows = fitting.inputs[:, model.chosen]
    if library:
        need_scikit_learn()
        shares = np.zeros((len(data), len(CLASSES)))
        shares[:, model.flat.classes] = library_shares(model.flat, load_training(path), rows)
    else:
        shares = model.shares(rows)
    answer, chances = shares.argmax(axis=1), model.calibration.apply(shares)
    expected = chances @ model.slowdown
    document: dict[str, Any] = {
        "model": model.kind,
        "rows": len(data),
        "training_hash": stored.manifest["training_hash"],
        "classes": list(CLASSES),
        "f1": None,
        "confusion_classes": None,
        "unknown_applications": [],
        "predictions": [
            {"app": app, "start_s": start, "class": CLASSES[label], "probabilities": chance, "slowdown": slow}
            for app, start, label, chance, slow in zip(
                data.app, data.start_s.tolist(), answer.tolist(), chances.tolist(), expected.tolist(), strict=True
            )
        ],
    }
    if data.run_s is not None:
        document |= _judged(model.norms, data.app, data.run_s, answer)
    return document
