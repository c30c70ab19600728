"""summary.json of a run or a comparison; it needs no table library, so that a small installation can write it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from cohabit.whole_files import replacing


def write_summary(document: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """summary.json: one JSON document, indented for people."""
    text = msgspec.json.format(msgspec.json.encode(document, enc_hook=_number), indent=2)
    with replacing(path) as stream:
        stream.write(text + b"\n")


def _number(value: Any) -> Any:
    """numpy scalars as plain numbers."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"summary.json cannot hold a {type(value).__name__}")
