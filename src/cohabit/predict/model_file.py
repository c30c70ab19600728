"""A degradation model as one file: what it was trained on, its flat arrays, and the training library's own object.

The file is a ZIP with `manifest.json` (version, kind, columns and their sources, digest of the training data, scores),
`arrays/*.npy` (the deployed form, all that a prediction reads) and `training.skops`. It ends in a digest of itself.
Loading runs nothing that is in the file: arrays are plain numbers, and skops refuses every type it does not know.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit import __version__
from cohabit.model.errors import InputError
from cohabit.predict.degradation import DegradationModel
from cohabit.predict.estimators import FORMS
from cohabit.predict.features import CoRuns, Schema
from cohabit.predict.flat import FlatFactor, check_nodes, load_flat
from cohabit.predict.training import Trained
from cohabit.whole_files import replacing

FORMAT = "cohabit degradation model"
FORMAT_VERSION = 1
MANIFEST, TRAINING, ARRAYS = "manifest.json", "training.skops", "arrays/"
SIGN = b"cohabit sha256 "
DIGEST_LENGTH = 64
TREE = "sklearn.tree._tree.Tree"  # skops leaves it to the reader to check where its nodes point
AGAIN = "train it again with `cohabit train degradation`"
FIXED_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest a ZIP knows: no clock is read


@dataclass(frozen=True)
class StoredModel:
    """What a file holds."""

    model: DegradationModel
    manifest: Mapping[str, Any]


def save_model(path: Path, trained: Trained, scores: Mapping[str, Any], environment: Mapping[str, Any]) -> None:
    """Write the file, whole or not at all."""
    import skops.io

    model = trained.deployed
    manifest = {
        "format": FORMAT, "format_version": FORMAT_VERSION, "version": __version__, "kind": model.kind,
        "form": FORMS[model.kind], "margin": model.margin, "parameters": dict(trained.parameters),
        "training_hash": trained.digest, "environment": dict(environment), "scores": dict(scores),
        "schema": {"primary": model.schema.primary, "other": model.schema.other, "sources": dict(model.schema.sources)},
        "names": list(model.flat.names) if isinstance(model.flat, FlatFactor) else [],
    }  # fmt: skip
    members = {MANIFEST: json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False).encode()}
    for name, array in sorted(model.flat.arrays().items()):
        members[f"{ARRAYS}{name}.npy"] = _array_bytes(array)
    members[TRAINING] = skops.io.dumps(trained.estimator)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, FIXED_TIME), content, zipfile.ZIP_DEFLATED)
        archive.comment = SIGN + bytes(DIGEST_LENGTH)
    with replacing(path) as stream:
        stream.write(sealed(packed.getvalue()))


def sealed(content: bytes) -> bytes:
    """An archive whose comment ends in the digest of everything before it."""
    body = content[:-DIGEST_LENGTH]
    return body + hashlib.sha256(body).hexdigest().encode()


def _array_bytes(array: NDArray[np.generic]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(array), allow_pickle=False)
    return stream.getvalue()


def _members(path: Path) -> dict[str, bytes]:
    """Everything in the file, if it is as it was written."""
    where = str(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError("no such file", where, "check the name") from None
    except OSError as problem:
        raise InputError(f"cannot be read ({problem.strerror})", where, "name the file that was written") from None
    if not content.startswith(b"PK") or content[-DIGEST_LENGTH - len(SIGN) : -DIGEST_LENGTH] != SIGN:
        raise InputError("is not a model of cohabit, or is cut short", where, AGAIN)
    if sealed(content) != content:
        raise InputError("was changed after it was written: its digest does not fit", where, AGAIN)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, RuntimeError, EOFError, ValueError) as problem:
        raise InputError(f"is damaged ({problem})", where, AGAIN) from None


def load_model(path: Path) -> StoredModel:
    """The deployed form; no learning library is needed."""
    members = _members(path)
    where = str(path)
    try:
        manifest = json.loads(members[MANIFEST])
        if manifest["format"] != FORMAT or manifest["format_version"] != FORMAT_VERSION:
            found = f"{manifest['format']}, version {manifest['format_version']}"
            raise InputError(f"is a {found}; this program reads version {FORMAT_VERSION}", where, AGAIN)
        arrays = {
            name.removeprefix(ARRAYS).removesuffix(".npy"): np.load(io.BytesIO(content), allow_pickle=False)
            for name, content in members.items()
            if name.startswith(ARRAYS)
        }
        own = manifest["schema"]
        schema = Schema(tuple(own["primary"]), tuple(own["other"]), own["sources"])
        flat = load_flat(manifest["form"], arrays, len(schema.primary), len(schema.other), manifest["names"])
        model = DegradationModel(manifest["kind"], schema, flat, float(manifest["margin"]))
        numbers = [array for array in arrays.values() if array.dtype.kind == "f"]
        if not math.isfinite(model.margin) or any(not np.isfinite(array).all() for array in numbers):
            raise InputError("has a number that is none", where, AGAIN)
    except (KeyError, ValueError, TypeError, EOFError, AttributeError, zipfile.BadZipFile):
        raise InputError("lacks something a model has, or has it in another form", where, AGAIN) from None
    return StoredModel(model, manifest)


def load_training(path: Path) -> Any:
    """The training library's own object; a type it does not know is refused before anything is built."""
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    members = _members(path)
    try:
        found = skops.io.loads(members[TRAINING], trusted=[TREE])
        for tree in getattr(found, "estimators_", ()):
            own = tree.tree_
            nodes = check_nodes(own.feature, own.children_left, own.children_right, tree.n_features_in_)
            if nodes != own.node_count:
                raise ValueError("a tree has other nodes than it says")
    except UntrustedTypesFoundException as problem:
        said = str(problem).splitlines()[0].rstrip(".")
        raise InputError(f"holds something that is not a model: {said}", str(path), AGAIN) from None
    except (KeyError, ValueError, TypeError, AttributeError, zipfile.BadZipFile):
        raise InputError("has no usable training file inside", str(path), AGAIN) from None
    return found


def check_fits(schema: Schema, data: CoRuns, where: str) -> None:
    """Refuse data whose columns are others, or were measured by something else than what the model learned from."""
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
