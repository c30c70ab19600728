"""Pack columns of numbers into one answer a browser reads without parsing: a header in JSON, then plain arrays.

Four bytes give the length of the header (little-endian); every array begins at a multiple of eight bytes. The header
lists the arrays in order: [name, kind, length], kind f64 or i32. page/packed.js reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

KIND = "application/x-cohabit-columns"


def packed(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the packed answer."""
    plain = {name: _plain(values) for name, values in arrays.items()}
    about = [[name, "f64" if values.dtype == np.float64 else "i32", len(values)] for name, values in plain.items()]
    text = msgspec.json.encode({**header, "arrays": about})
    parts = [struct.pack("<I", len(text)), text, b" " * (-(4 + len(text)) % 8)]
    for values in plain.values():
        content = values.astype(values.dtype.newbyteorder("<")).tobytes()
        parts += [content, b"\0" * (-len(content) % 8)]
    return b"".join(parts)


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(values, np.float64 if values.dtype.kind == "f" else np.int32)
