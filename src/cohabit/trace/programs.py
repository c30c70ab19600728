"""Programs for the simulated world: programs.json, the catalogues that come with the package, and measured curves.

Every reader gives `Programs`, a dictionary by name that also says how many dips of IPC were taken for noise. Anything
that no machine can do is an InputError that names the program and the point. Formats: docs/programs.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from cohabit.model.cluster import NodeGroup
from cohabit.model.curve import Curve
from cohabit.model.errors import InputError, unknown
from cohabit.model.profile import COMPACT, NEUTRAL, SCALING
from cohabit.model.program import Program, ScaleTruth
from cohabit.trace.cache_curves import read_curves
from cohabit.trace.files import json_object, read_text
from cohabit.trace.program_checks import (
    REFERENCE_PROCESSES,
    WHOLE_NUMBER,
    Machine,
    Programs,
    checked_curve,
    is_number,
    rising_ipc,
    shown,
)

__all__ = [
    "CATALOGUES", "Catalogue", "Machine", "Programs", "catalogue", "check_ways", "parse_programs", "read_curves",
    "read_programs",
]  # fmt: skip

CATALOGUES = ("sns12",)
CLASSES = (SCALING, COMPACT, NEUTRAL)
GIB = 2**30


class Catalogue(NamedTuple):
    """Programs that come with the package, and their machine."""

    programs: Programs
    machine: Machine


def catalogue(name: str) -> Catalogue:
    """A catalogue of the package by name."""
    if name not in CATALOGUES:
        raise unknown("catalogue", name, CATALOGUES)
    text = (resources.files("cohabit.trace") / "catalogues" / f"{name}.json").read_text(encoding="utf-8")
    programs = parse_programs(text, f"catalogue {name}")
    assert programs.machine is not None
    return Catalogue(programs, programs.machine)


def read_programs(path: Path) -> Programs:
    """Read programs.json, plain, .gz or .xz."""
    return parse_programs(read_text(path), str(path))


def parse_programs(text: str, where: str) -> Programs:
    """Programs from the text of a programs.json; `where` names it in errors."""
    document = json_object(text, where, '{"programs": {"MG": {...}}}')
    entries = document.get("programs")
    if not isinstance(entries, dict):
        raise InputError('has no table "programs"', where, 'write {"programs": {"MG": {...}}}')
    if not entries:
        raise InputError("has no programs", where, "a program is one entry under its name")
    programs, raised = {}, {}
    for name, data in entries.items():
        if not name.strip() or name != name.strip():
            raise InputError(
                f"a program is called {name!r}", f"{where}: programs", "give it a name without spaces around"
            )
        programs[name], raised[name] = _Entry(name, data, f"{where}: programs.{name}").program()
    read = Programs(programs, raised)
    read.machine = _machine(document, where)
    return read


def check_ways(programs: Mapping[str, Program], ways: int, where: str) -> None:
    """Refuse a curve measured with more ways than the hardware has; 0: the machine does not say."""
    for program in programs.values() if ways else ():
        curves = {"IPC": program.ipc, "bandwidth": program.bandwidth_gbs, "miss rate": program.miss_rate}
        for scale, one in program.per_scale.items():
            curves |= {f"IPC at scale {scale}": one.ipc, f"bandwidth at scale {scale}": one.bandwidth_gbs}
        for what, curve in curves.items():
            if curve is not None and curve.ways[-1] > ways:
                raise InputError(
                    f"the {what} of {program.name} has a point at {curve.ways[-1]} ways, but the cache has {ways}",
                    where,
                    "leave the point out or correct cluster.ways",
                )


class _Entry:
    """One program of the file, read field by field."""

    def __init__(self, name: str, data: Any, where: str) -> None:
        if not isinstance(data, dict):
            raise InputError(f"program {name} is not a table", where, 'write "MG": {...}')
        self.name, self.data, self.where, self.raised = name, data, where, 0

    def program(self) -> tuple[Program, int]:
        """The program, and how many of its points were raised."""
        declared = self.text("class")
        if declared and declared not in CLASSES:
            raise self.wrong(f"the class of {self.name} is {declared!r}", "class", f"use {', '.join(CLASSES)}")
        program = Program(
            name=self.name,
            title=self.text("name"),
            processes=self.processes(),
            ce_time_s=self.number("ce_time_16p_s", above=0.0),
            mu=self.number("memory_bound_fraction_mu", least=0.0, most=1.0),
            ipc=self.ipc_curve(self.data, "ipc_llc_rel", "the IPC"),
            bandwidth_gbs=self.curve(self.data, "bw_llc_gbs", "the bandwidth"),
            cpu_fraction=self.number("cpu_fraction", above=0.0, most=1.0) if "cpu_fraction" in self.data else 1.0,
            single_node=self.flag("single_node_only"),
            power_of_two_only=self.flag("power_of_two_only"),
            speedup=self.speedups(),
            per_scale=self.per_scale(),
            miss_rate=self.curve(self.data, "miss_rate", "the miss rate") if "miss_rate" in self.data else None,
            ipc_full=self.number("ipc_full_abs", above=0.0) if "ipc_full_abs" in self.data else 0.0,
            communication=self.number("communication", least=0.0, most=1.0) if "communication" in self.data else -1.0,
            declared_class=declared,
            declared_constraint=self.text("bound_resource"),
            framework=self.text("framework"),
            provenance={str(key): str(value) for key, value in self.table("provenance").items()},
            counters=self.counters(),
        )
        return program, self.raised

    def wrong(self, what: str, key: str, fix: str) -> InputError:
        return InputError(what, f"{self.where}.{key}", fix)

    def required(self, data: Mapping[str, Any], key: str) -> Any:
        if key not in data:
            raise InputError(
                f"program {self.name} has no {key}", self.where, "add it (docs/programs.md lists the fields)"
            )
        return data[key]

    def number(
        self,
        key: str,
        least: float = -math.inf,
        above: float = -math.inf,
        most: float = math.inf,
        data: Mapping[str, Any] | None = None,
        what: str = "",
    ) -> float:
        value = self.required(self.data if data is None else data, key)
        label = what or f"{key} of {self.name}"
        if not is_number(value):
            raise self.wrong(f"{label} is {shown(value)}, not a number", key, "write a plain number")
        if not math.isfinite(value) or not least <= value <= most or value <= above:
            wanted = f"a number above {above:g}" if above > -math.inf else f"a number from {least:g} to {most:g}"
            raise self.wrong(f"{label} is {value:g}", key, f"give {wanted}")
        return float(value)

    def processes(self) -> int:
        value = self.data.get("processes", REFERENCE_PROCESSES)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.wrong(
                f"processes of {self.name} is {shown(value)}", "processes", "give a whole number from 1 up"
            )
        return value

    def flag(self, key: str) -> bool:
        value = self.data.get(key, False)
        if not isinstance(value, bool):
            raise self.wrong(f"{key} of {self.name} is {shown(value)}", key, "write true or false")
        return value

    def text(self, key: str) -> str:
        value = self.data.get(key)
        if not isinstance(value, str | None):
            raise self.wrong(f"{key} of {self.name} is {shown(value)}", key, "write text")
        return value or ""

    def table(self, key: str) -> dict[str, Any]:
        value = self.data.get(key)
        if not isinstance(value, dict | None):
            raise self.wrong(f"{key} of {self.name} is {shown(value)}", key, "write a table")
        return value or {}

    def counters(self) -> dict[str, float]:
        table = self.table("counters")
        return {key: self.number(key, data=table, what=f"the counter {key} of {self.name}") for key in table}

    def curve(self, data: Mapping[str, Any], key: str, what: str) -> Curve:
        points, label = self.required(data, key), f"{what} of {self.name}"
        if not isinstance(points, dict):
            raise self.wrong(f"{label} is not a table of ways and numbers", key, 'write {"2": 0.8, "20": 1.0}')
        return checked_curve(points, label, f"{self.where}.{key}")

    def ipc_curve(self, data: Mapping[str, Any], key: str, what: str) -> Curve:
        label, where = f"{what} of {self.name}", f"{self.where}.{key}"
        curve, raised = rising_ipc(self.curve(data, key, what), label, where)
        self.raised += raised
        return curve

    def scale(self, text: str, key: str) -> int:
        if not WHOLE_NUMBER.fullmatch(text) or int(text) < 1:
            raise self.wrong(f"{self.name} has a scale {text!r}", key, "scales are whole numbers from 1 up")
        return int(text)

    def speedups(self) -> dict[int, float]:
        key = "speedup_by_scale"
        table = self.required(self.data, key)
        if not isinstance(table, dict):
            raise self.wrong(f"{key} of {self.name} is {shown(table)}", key, 'write {"1": 1, "2": 1.1}')
        speedup = {
            self.scale(text, key): self.number(
                text, above=0.0, data=table, what=f"the speedup of {self.name} at scale {text}"
            )
            for text in table
        }
        if 1 not in speedup:
            raise self.wrong(f"the speedup of {self.name} lacks scale 1", key, 'add "1": 1')
        if abs(speedup[1] - 1) > 1e-6:
            what = f"the speedup of {self.name} at scale 1 is {speedup[1]:g}"
            raise self.wrong(what, key, "speedups are relative to scale 1, where it is 1")
        return dict(sorted(speedup.items()))

    def per_scale(self) -> dict[int, ScaleTruth]:
        found: dict[int, ScaleTruth] = {}
        for text, data in self.table("per_scale").items():
            scale = self.scale(text, "per_scale")
            if not isinstance(data, dict):
                raise self.wrong(
                    f"per_scale of {self.name} at scale {scale} is {shown(data)}", "per_scale", "write a table"
                )
            at = f"at scale {scale}"
            found[scale] = ScaleTruth(
                ipc=self.ipc_curve(data, "ipc_rel", f"the IPC {at}") if "ipc_rel" in data else None,
                bandwidth_gbs=self.curve(data, "bw_gbs_per_node", f"the bandwidth {at}")
                if "bw_gbs_per_node" in data
                else None,
                time_s=self.number("exclusive_time_s", above=0.0, data=data, what=f"the time of {self.name} {at}")
                if "exclusive_time_s" in data
                else 0.0,
            )
        return dict(sorted(found.items()))


def _machine(document: Mapping[str, Any], where: str) -> Machine | None:
    """The optional tables "platform" and "stream_curve_gbs"; None where the file speaks of programs only."""
    platform, stream = document.get("platform"), document.get("stream_curve_gbs") or {}
    if not isinstance(platform, dict) or not isinstance(stream, dict):
        return None
    tables = [table for key, table in stream.items() if key.startswith("points")]
    points = {cores: gbs for table in tables for cores, gbs in table.items()} if tables else stream
    try:
        node = NodeGroup(
            count=int(platform.get("nodes", 1)),
            cores=int(platform["cores_per_node"]),
            memory_bytes=int(platform.get("mem_gb", 0)) * GIB,
            ways=int(platform["llc_ways"]),
            min_ways=int(platform.get("min_ways", 1)),
            closids=int(platform.get("max_clos", 0)),
            bandwidth_gbs=tuple(sorted((int(cores), float(gbs)) for cores, gbs in points.items())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"the platform cannot be read ({error})", f"{where}: platform", "see docs/programs.md"
        ) from None
    defaults = document.get("sns_defaults")
    return Machine(node, platform, defaults if isinstance(defaults, dict) else {})
