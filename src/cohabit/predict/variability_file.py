"""A variability model as one file: columns, frozen means and deviations, calibration, flat arrays, training object.

How the file is made, checked and sealed is in `archive`. Nothing here learns or judges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.predict.archive import WRONG_FORM, read_archive, write_archive, wrong_form
from cohabit.predict.features import Floats
from cohabit.predict.flat_arrays import Arrays, floats
from cohabit.predict.variability import VariabilityModel
from cohabit.predict.variability_calibration import Calibration
from cohabit.predict.variability_data import CLASSES, TYPE_COLUMNS, Norms
from cohabit.predict.variability_flat import load_classifier
from cohabit.predict.variability_learners import KINDS
from cohabit.predict.variability_training import TrainedVariability
from cohabit.version import __version__

FORMAT = "cohabit variability model"
FORMAT_VERSION = 1


@dataclass(frozen=True, eq=False)
class StoredVariability:
    """The content of a file."""

    model: VariabilityModel
    manifest: Mapping[str, Any]


def save_variability(path: Path, trained: TrainedVariability, scores: Mapping[str, Any]) -> None:
    """Write the file, whole or not at all."""
    model = trained.deployed
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "version": __version__,
        "kind": model.kind,
        "form": model.flat.form,
        "columns": list(model.columns),
        "kept": list(model.kept),
        "classes": list(CLASSES),
        "training_hash": trained.digest,
        "scores": dict(scores),
        "applications": list(model.norms.mean_s),
    }
    arrays: Arrays = {f"flat.{name}": array for name, array in model.flat.arrays().items()}
    arrays |= {
        "chosen": model.chosen,
        "slowdown": model.slowdown,
        "calibration.knots": model.calibration.knots,
        "calibration.chances": model.calibration.chances,
        "norm.mean_s": np.array(list(model.norms.mean_s.values())),
        "norm.deviation_s": np.array([model.norms.deviation_s[name] for name in model.norms.mean_s]),
    }
    write_archive(path, manifest, arrays, trained.estimator)


def load_variability(path: Path) -> StoredVariability:
    """The deployed form; no learning library is needed."""
    found = read_archive(path, FORMAT, FORMAT_VERSION)
    try:
        return StoredVariability(_model(found.manifest, found.arrays), found.manifest)
    except WRONG_FORM:
        raise wrong_form(path) from None


def _model(manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> VariabilityModel:
    columns, names = tuple(map(str, manifest["columns"])), [str(name) for name in manifest["applications"]]
    chosen = np.asarray(arrays["chosen"], np.int64)
    if manifest["kind"] not in KINDS or tuple(manifest["classes"]) != CLASSES:
        raise ValueError("its kind or its classes are none of ours")
    if columns[-len(TYPE_COLUMNS) :] != TYPE_COLUMNS or len(set(columns)) != len(columns):
        raise ValueError("its columns do not end in the types of work, or repeat")
    if chosen.ndim != 1 or not len(chosen) or not 0 <= int(chosen.min()) <= int(chosen.max()) < len(columns):
        raise ValueError("a column it uses does not exist")
    flat = load_classifier(
        manifest["form"],
        {name.removeprefix("flat."): array for name, array in arrays.items() if name.startswith("flat.")},
        len(chosen),
    )
    mean, deviation, slowdown = (floats(arrays, name) for name in ("norm.mean_s", "norm.deviation_s", "slowdown"))
    if len(set(names)) != len(names) or not mean.shape == deviation.shape == (len(names),) or slowdown.shape != (3,):
        raise ValueError("its norms do not fit together")
    if not (mean > 0).all() or not (deviation >= 0).all():
        raise ValueError("a norm is none")
    norms = Norms(dict(zip(names, mean.tolist(), strict=True)), dict(zip(names, deviation.tolist(), strict=True)))
    calibration = _curves(floats(arrays, "calibration.knots"), floats(arrays, "calibration.chances"))
    return VariabilityModel(manifest["kind"], columns, chosen, flat, calibration, norms, slowdown)


def _curves(knots: Floats, chances: Floats) -> Calibration:
    if knots.ndim != 2 or len(knots) != len(CLASSES) or knots.shape != chances.shape or not knots.shape[1]:
        raise ValueError("its calibration has another shape")
    if (np.diff(knots, axis=1) < 0).any() or not ((chances >= 0) & (chances <= 1)).all():
        raise ValueError("a curve of its calibration is none")
    return Calibration(knots, chances)
