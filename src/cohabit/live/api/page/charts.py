"""Data for the page's charts: time series, and columns of numbers packed so that a browser reads them without parsing.

The series are made from arrays of instants (microseconds), of a live controller or of a finished run. Packed columns
are a header in JSON and then plain arrays: four bytes give the length of the header (little-endian); every array begins
at a multiple of eight bytes. The header lists the arrays in order: [name, kind, length], kind f64 or i32.
page/packed.js reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cohabit.live.api.page.documents import Series
from cohabit.model.records import NEVER
from cohabit.model.units import SECOND
from cohabit.report.series import slice_means

Ints = NDArray[np.int64]
BINS = 96
KIND = "application/x-cohabit-columns"


def series(
    submit_us: Ints,
    start_us: Ints,
    end_us: Ints,
    cores: Ints,
    from_us: int,
    until_us: int,
    bins: int = BINS,
) -> Series:
    """Return starts and ends per bin, mean waiting jobs and busy cores per bin, and how many jobs wait at the end."""
    span = max(until_us - from_us, bins)
    step = span / bins
    ran, ended = start_us != NEVER, end_us != NEVER
    over = np.where(ended, end_us, until_us)
    wait_end = np.where(ran, start_us, over)  # a job cancelled before its start waits until its end
    ones, waits = np.ones(len(submit_us)), (submit_us <= until_us) & (wait_end >= until_us)
    return {
        "from": from_us / SECOND,
        "step_s": step / SECOND,
        "waiting_at_end": int(waits.sum()),
        "started": _counted(start_us[ran], from_us, step, bins),
        "ended": _counted(end_us[ended], from_us, step, bins),
        "waiting": slice_means(submit_us, np.maximum(wait_end, submit_us), ones, from_us, span, bins).round(2).tolist(),
        "busy_cores": slice_means(
            start_us[ran], np.maximum(over, start_us)[ran], cores[ran].astype(float), from_us, span, bins
        )
        .round(2)
        .tolist(),
    }


def _counted(at_us: Ints, from_us: int, step: float, bins: int) -> list[int]:
    """Count instants by bin; the end itself is in the last one."""
    place = (at_us - from_us) / step
    inside = np.floor(place[(place >= 0) & (place <= bins)]).astype(np.int64)
    found: list[int] = np.bincount(np.minimum(inside, bins - 1), minlength=bins).tolist()
    return found


def packed(header: Mapping[str, object], arrays: Mapping[str, NDArray[Any]]) -> bytes:
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
