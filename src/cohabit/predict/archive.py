"""Any trained model as one file: a manifest, flat arrays, and the training library's own object.

The file is a ZIP with `manifest.json`, `arrays/*.npy` (the deployed form, all that a prediction reads) and
`training.skops`. It ends in a digest of itself. Loading runs nothing that is in the file: arrays are plain numbers, and
skops refuses every type it does not know. `model_file` and `variability_file` define what the numbers mean.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.model.errors import InputError
from cohabit.predict.flat_arrays import Arrays, check_nodes
from cohabit.whole_files import replacing

MANIFEST, TRAINING, ARRAYS = "manifest.json", "training.skops", "arrays/"
SIGN = b"cohabit sha256 "
DIGEST_LENGTH = 64
TREE = "sklearn.tree._tree.Tree"  # skops leaves it to the reader to check where its nodes point
AGAIN = "train it again with `cohabit train`"
FIXED_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time of a ZIP: no clock is read
WRONG_FORM = (KeyError, ValueError, TypeError, EOFError, AttributeError, zipfile.BadZipFile)


@dataclass(frozen=True)
class Archive:
    """The content of a file, as it was written."""

    manifest: Mapping[str, Any]
    arrays: Mapping[str, NDArray[np.generic]]


def write_archive(path: Path, manifest: Mapping[str, Any], arrays: Arrays, estimator: Any) -> None:
    """Write the file, whole or not at all."""
    import skops.io

    members = {MANIFEST: json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False).encode()}
    for name, array in sorted(arrays.items()):
        members[f"{ARRAYS}{name}.npy"] = _array_bytes(array)
    members[TRAINING] = skops.io.dumps(estimator)
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


def format_of(path: Path) -> str:
    """Return the kind of model that a file says it holds."""
    try:
        return str(json.loads(_members(path)[MANIFEST])["format"])
    except WRONG_FORM:
        raise wrong_form(path) from None


def read_archive(path: Path, form: str, version: int) -> Archive:
    """Return manifest and arrays of a file of this format and version; NaN and infinity are refused."""
    members, where = _members(path), str(path)
    try:
        manifest = json.loads(members[MANIFEST])
        if manifest["format"] != form or manifest["format_version"] != version:
            found = f"{manifest['format']}, version {manifest['format_version']}"
            raise InputError(f"is a {found}; a {form} of version {version} is needed here", where, AGAIN)
        arrays = {
            name.removeprefix(ARRAYS).removesuffix(".npy"): np.load(io.BytesIO(content), allow_pickle=False)
            for name, content in members.items()
            if name.startswith(ARRAYS)
        }
        if any(not np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f"):
            raise InputError("has a value that is not a number", where, AGAIN)
    except WRONG_FORM:
        raise wrong_form(path) from None
    return Archive(manifest, arrays)


def wrong_form(path: Path) -> InputError:
    """The error for a file whose digest fits but whose content does not."""
    return InputError("lacks something a model has, or has it in another form", str(path), AGAIN)


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
