"""Profiles as one JSON file of key-value pairs, the form in which a scheduler caches them (S18). Needs no database.

{"format": "cohabit-profiles", "version": 1, "profiles": {"MG/16/28c-20w-118.26g": {...}, ...}}

A key of a profile that belongs to a user ends with the owner's number. A file with such profiles has version 2: earlier
programs would take them for shared ones, so they must refuse it. One with runs beside others (`co_runs`) has version 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from cohabit.model.curve import Curve
from cohabit.model.errors import InputError
from cohabit.model.profile import SHARED, Profile, ScaleProfile
from cohabit.whole_files import replacing

FORMAT, VERSION, OWNED, ALL_SHARED = "cohabit-profiles", 3, 2, 1


class Key(NamedTuple):
    """The key of a profile."""

    program: str
    processes: int
    hardware: str
    owner: str = SHARED

    def __str__(self) -> str:
        return f"{self.program}/{self.processes}/{self.hardware}" + (f"/{self.owner}" if self.owner else "")


class CoRunSample(NamedTuple):
    """One run beside others as it came."""

    program: str  # run_key
    beside: tuple[str, ...]  # run_keys, sorted
    percent: float
    hardware: str
    measured_at_us: int


class CoRun(msgspec.Struct, frozen=True):
    """The same by names."""

    program: str
    beside: tuple[str, ...]
    percent: float
    hardware: str
    measured_at_us: int


class Document(msgspec.Struct, frozen=True):
    """The whole file."""

    profiles: dict[str, Profile]
    format: str = FORMAT
    version: int = ALL_SHARED
    co_runs: tuple[CoRun, ...] | msgspec.UnsetType = msgspec.UNSET


def key_of(profile: Profile) -> Key:
    """Return the key under which a profile is kept."""
    return Key(profile.program, profile.processes, profile.hardware, profile.owner)


def write_json(profiles: Iterable[Profile], path: Path, co_runs: Iterable[CoRunSample] = ()) -> int:
    """Write the file whole or not at all; returns how many profiles are in it."""
    found, runs = sorted(profiles, key=key_of), tuple(CoRun(*one) for one in co_runs)
    version = VERSION if runs else OWNED if any(one.owner for one in found) else ALL_SHARED
    document = Document({str(key_of(one)): one for one in found}, FORMAT, version, runs or msgspec.UNSET)
    with replacing(path) as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    return len(document.profiles)


def parse_json(content: bytes | str, where: str) -> tuple[dict[Key, Profile], list[CoRunSample]]:
    """The profiles of such a file by their keys, and its runs beside others; `where` names it in errors."""
    try:
        document = msgspec.json.decode(content, type=Document)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what, _, place = str(error).partition(" - at ")
        raise InputError(
            f"is not a file of profiles ({what[:1].lower()}{what[1:]})",
            f"{where}: {place.strip('`')}" if place else where,
            "make one with: cohabit profiles export FILE",
        ) from None
    if document.format != FORMAT or document.version > VERSION:
        raise InputError(
            f"has format {document.format} version {document.version}", where, f"this program reads {FORMAT} {VERSION}"
        )
    for profile in document.profiles.values():
        check_profile(profile, where)
    given = () if document.co_runs is msgspec.UNSET else document.co_runs
    for run in given:
        _check_co_run(run, where)
    runs = [CoRunSample(*msgspec.structs.astuple(run)) for run in given]
    return {key_of(profile): profile for profile in document.profiles.values()}, runs


def check_profile(profile: Profile, where: str) -> None:
    """Refuse a profile that cannot be stored or used."""
    name = profile.program
    if not name.strip():
        raise InputError("a profile has no program", where, "give it a name")
    if "\0" in name + profile.hardware + profile.provenance:
        raise InputError(f"the profile of {name!r} has a zero character in its names", where, "leave it out")
    if profile.owner and not (profile.owner.isascii() and profile.owner.isdigit()):
        raise InputError(f"the owner of the profile of {name} is {profile.owner!r}", where, "give the number of a user")
    if not 1 <= profile.processes < 2**31:
        raise InputError(f"the profile of {name} is for {profile.processes} processes", where, "give a positive number")
    scales = [one.scale for one in profile.scales]
    if scales != sorted(set(scales)) or any(not 1 <= scale < 2**31 for scale in scales):
        raise InputError(f"the scales of {name} are {scales}", where, "each once, rising, from 1 up")
    for one in profile.scales:
        numbers = (one.time_s, one.time_variance, one.communication, *one.counters.values())
        if not all(map(math.isfinite, numbers)) or one.time_s < 0 or one.time_variance < 0:
            raise InputError(f"{name} at scale {one.scale} has an impossible number", where, "measure it again")
        if one.samples < 1 or abs(one.measured_at_us) >= 2**63:
            raise InputError(f"{name} at scale {one.scale} has {one.samples} samples", where, "count from 1")
        for curve in (one.ipc, one.bandwidth_gbs, one.miss_rate):
            if curve is not None:
                _check_curve(curve, one, name, where)


def _check_co_run(run: CoRun, where: str) -> None:
    what = f"a run of {run.program!r} beside {', '.join(run.beside) or 'nothing'}"
    names = (run.program, *run.beside)
    if not run.beside or not all(name.strip() and "\0" not in name + run.hardware for name in names):
        raise InputError(f"{what} lacks a program", where, "name the program and those beside it, or leave the run out")
    if not math.isfinite(run.percent) or run.percent <= -100:
        raise InputError(f"{what} was slowed by {run.percent} %", where, "give a number above -100")
    if abs(run.measured_at_us) >= 2**63:
        raise InputError(f"{what} was measured at {run.measured_at_us} us", where, "give microseconds since 1970")


def _check_curve(curve: Curve, one: ScaleProfile, name: str, where: str) -> None:
    at = f"a curve of {name} at scale {one.scale}"
    if len(curve.ways) != len(curve.values) or len(curve.ways) < 2:
        raise InputError(
            f"{at} has {len(curve.ways)} ways and {len(curve.values)} values", where, "at least two of each"
        )
    if any(low >= high for low, high in zip(curve.ways, curve.ways[1:], strict=False)) or curve.ways[0] < 1:
        raise InputError(f"{at} has the ways {list(curve.ways)}", where, "rising, from 1 up")
    for ways, value in zip(curve.ways, curve.values, strict=True):
        if not math.isfinite(value) or value < 0:
            raise InputError(f"{at} is {value} at {ways} ways", where, "give a number from 0 up")
