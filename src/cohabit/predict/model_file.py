"""A degradation model as one file: what it was trained on, its flat arrays, and the training library's own object.

The manifest has version, kind, columns and their sources, digest of the training data, and scores. How the file is
made, checked and sealed is in `archive`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cohabit.model.errors import InputError
from cohabit.predict.archive import AGAIN, WRONG_FORM, read_archive, write_archive, wrong_form
from cohabit.predict.degradation import DegradationModel
from cohabit.predict.estimators import FORMS
from cohabit.predict.features import CoRuns, Schema
from cohabit.predict.flat import FlatFactor, load_flat
from cohabit.predict.flat_arrays import Arrays, floats
from cohabit.predict.pooling import load_pooled
from cohabit.predict.training import Trained
from cohabit.version import __version__

FORMAT = "cohabit degradation model"
FORMAT_VERSION = 2
LAYER = "layer."  # of the names of arrays that are not the learner's


@dataclass(frozen=True)
class StoredModel:
    """The content of a file."""

    model: DegradationModel
    manifest: Mapping[str, Any]


def save_model(path: Path, trained: Trained, scores: Mapping[str, Any], environment: Mapping[str, Any]) -> None:
    """Write the file, whole or not at all."""
    model = trained.deployed
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "version": __version__,
        "kind": model.kind,
        "form": FORMS[model.kind],
        "margin": model.margin,
        "parameters": dict(trained.parameters),
        "training_hash": trained.digest,
        "environment": dict(environment),
        "scores": dict(scores),
        "schema": {"primary": model.schema.primary, "other": model.schema.other, "sources": dict(model.schema.sources)},
        "names": list(model.flat.names) if isinstance(model.flat, FlatFactor) else [],
        "effects": [] if model.pooled is None else list(model.pooled.effects),
    }
    layer: Arrays = {} if model.pooled is None else {f"{LAYER}{key}": one for key, one in model.pooled.arrays().items()}
    if model.lowest is not None and model.highest is not None:
        layer |= {f"{LAYER}lowest": model.lowest, f"{LAYER}highest": model.highest}
    write_archive(path, manifest, model.flat.arrays() | layer, trained.estimator)


def load_model(path: Path) -> StoredModel:
    """The deployed form; no learning library is needed."""
    found = read_archive(path, FORMAT, FORMAT_VERSION)
    try:
        manifest = found.manifest
        own = manifest["schema"]
        schema = Schema(tuple(own["primary"]), tuple(own["other"]), own["sources"])
        flat = load_flat(manifest["form"], found.arrays, len(schema.primary), len(schema.other), manifest["names"])
        layer = {key.removeprefix(LAYER): one for key, one in found.arrays.items() if key.startswith(LAYER)}
        known = load_pooled(layer, manifest["effects"]) if "pooled" in layer else None
        lowest, highest = (floats(layer, end) if end in layer else None for end in ("lowest", "highest"))
        if any(end is not None and len(end) != len(schema.columns) for end in (lowest, highest)):
            raise ValueError("its range has other columns")
        margin = float(manifest["margin"])
        model = DegradationModel(manifest["kind"], schema, flat, margin, known, lowest, highest)
    except WRONG_FORM:
        raise wrong_form(path) from None
    if not math.isfinite(model.margin):
        raise InputError("has a value that is not a number", str(path), AGAIN)
    return StoredModel(model, manifest)


def not_beaten_by(manifest: Mapping[str, Any]) -> list[str]:
    """Return the baselines that were at least as good on families never seen, as the file says."""
    found = manifest["scores"].get("not_beaten")
    return ["baselines it was never compared with"] if found is None else [str(one) for one in found]


def check_fits(schema: Schema, data: CoRuns, where: str) -> None:
    """Refuse data whose columns, or their sources, differ from those the model learned from."""
    present = set(data.schema.columns)
    for column in schema.columns:
        if column not in present:
            raise InputError(f"has no column {column}, which the model was trained on", where, "measure it as well")
    for column in schema.columns:
        trained, found = schema.source(column), data.schema.source(column)
        if trained != found:
            what = f"column {column} comes from the source {found}, the model was trained on {trained}"
            raise InputError(what, where, "measure with the same source, or train a model on this one")


def arranged(schema: Schema, data: CoRuns) -> CoRuns:
    """The data with these columns in this order."""
    own = [data.schema.primary.index(name) for name in schema.primary]
    other = [data.schema.other.index(name) for name in schema.other]
    return replace(data, primary=data.primary[:, own], beside=data.beside[:, other], schema=schema)
