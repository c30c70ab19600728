"""The memory bandwidth of this kind of machine, measured once and kept in a file under the hardware's name."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec

from cohabit.app.measure.data import machine
from cohabit.model.errors import InputError
from cohabit.store.profiles import default_path
from cohabit.whole_files import replacing

FORMAT, VERSION = "cohabit-capacity", 1


class Measured(msgspec.Struct, frozen=True):
    """One machine: GB/s by active cores."""

    gbs: dict[str, float]
    size_mb: float
    measured_at_us: int


class Document(msgspec.Struct, frozen=True):
    """The file."""

    machines: dict[str, Measured] = {}
    format: str = FORMAT
    version: int = VERSION


def usual_path() -> Path:
    """Return the path beside the user's profiles."""
    return default_path().with_name("capacity.json")


def hardware_name() -> str:
    """Return the processor and its cores: machines of the same name have the same capacity."""
    facts = machine()
    return f"{facts['cpu']}, {facts['cores']} cores"


def read_capacities(path: Path) -> Document:
    """Read the file; return an empty document if it does not exist."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Document()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be read: {reason}", str(path), "name another file") from error
    try:
        found = msgspec.json.decode(content, type=Document)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"is not a file of capacities ({error})", str(path), "make one with: cohabit measure capacity"
        ) from None
    if found.format != FORMAT or found.version > VERSION:
        raise InputError(
            f"has format {found.format} version {found.version}", str(path), f"this program reads {FORMAT} {VERSION}"
        )
    return found


def keep_capacity(points: tuple[tuple[int, float], ...], size_mb: float, path: Path) -> dict[str, Any]:
    """Replace the file's entry for this kind of machine; return the document of the verb."""
    before = read_capacities(path)
    gbs = {str(cores): round(value, 3) for cores, value in points}
    found = Measured(gbs, size_mb, time.time_ns() // 1000)
    document = Document(before.machines | {hardware_name(): found})
    with replacing(path) as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    return {"hardware": hardware_name(), "bandwidth_gbs": gbs, "size_mb": size_mb, "file": str(path)}


def known_capacity() -> tuple[tuple[int, float], ...]:
    """Return (active cores, GB/s) of this machine for NodeGroup.bandwidth_gbs; empty if it was not measured."""
    found = read_capacities(usual_path()).machines.get(hardware_name())
    return () if found is None else tuple(sorted((int(cores), value) for cores, value in found.gbs.items()))
