"""MIX.json and NODE.json: programs that are to share nodes, as curves of cache misses. Every error is one sentence.

{"nodes": 8, "cores_per_node": 8, "buckets": 32, "bandwidth_cap_gbs": 25, "freq_ghz": 2.0, "apps": [{"name": "mcf",
"mpki": [33 numbers, index = buckets], "cpi0": 1.13, "cycles_per_miss": 40, "alpha": 0.9}]}; alpha (the share of its
speed alone that a program must keep) may be left out, and a NODE.json may leave out "nodes". "about" is free text, in
the file and in every app; any other key is refused, because a misspelt one would otherwise be overlooked. Format:
docs/partitioning.md.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from cohabit.model.errors import InputError
from cohabit.model.mix import Mix
from cohabit.trace.files import json_object, read_text
from cohabit.trace.program_checks import is_number, shown

MIX_KEYS = ("nodes", "cores_per_node", "buckets", "bandwidth_cap_gbs", "freq_ghz", "apps", "about")
APP_KEYS = ("name", "mpki", "cpi0", "cycles_per_miss", "alpha", "about")
MOST_BUCKETS, MOST_NODES = 4096, 1_000_000
SMALLEST, LARGEST = 1e-9, 1e9  # of any number but 0: beyond, sums and quotients lose their meaning
EXAMPLE = '{"name": "mcf", "mpki": [80, 60, 45], "cpi0": 1.1, "cycles_per_miss": 40}'


def read_mix(path: Path) -> Mix:
    """Read a MIX.json, plain, .gz or .xz."""
    return parse_mix(read_text(path), str(path))


def read_node(path: Path) -> Mix:
    """Read a NODE.json: a mix for one node."""
    return parse_mix(read_text(path), str(path), one_node=True)


def parse_mix(text: str, where: str, one_node: bool = False) -> Mix:
    """A mix from the text of such a file; `where` names it in errors."""

    def refuse(word: str) -> NoReturn:
        raise InputError(f"has a number that is {word}", where, "every number must be finite")

    document = json_object(text, where, '{"nodes": 8, "cores_per_node": 8, ...}', refuse)
    _refuse_unknown(document, MIX_KEYS, where)
    nodes = _whole(document.get("nodes", 1) if one_node else _needed(document, "nodes", where), "nodes", where)
    if one_node and nodes != 1:
        raise InputError(f"nodes is {nodes}", where, "a cache is divided node by node; use cohabit place for several")
    mix_keys = {key: _needed(document, key, where) for key in ("cores_per_node", "buckets")}
    cores, buckets = (_whole(value, key, where) for key, value in mix_keys.items())
    cap = _number(_needed(document, "bandwidth_cap_gbs", where), "bandwidth_cap_gbs", where, above=0.0)
    freq = _number(document.get("freq_ghz", 2.0), "freq_ghz", where, above=0.0)
    if buckets > MOST_BUCKETS or nodes > MOST_NODES:
        raise InputError(
            f"{nodes:,} nodes of {buckets:,} buckets are too many",
            where,
            f"at most {MOST_NODES:,} nodes and {MOST_BUCKETS:,} buckets",
        )
    apps = _needed(document, "apps", where)
    if not isinstance(apps, list):
        raise InputError(f"apps is {shown(apps)}, not a list", where, f"write [{EXAMPLE}]")
    if not apps:
        raise InputError("apps is empty: there is no job for any node", where, f"add at least one: {EXAMPLE}")
    _check_room(len(apps), nodes, cores, buckets, where)
    return _mix(apps, (nodes, cores, buckets), cap, freq, where)


def _mix(apps: list[Any], sizes: tuple[int, int, int], cap: float, freq: float, where: str) -> Mix:
    nodes, cores, buckets = sizes
    names: dict[str, int] = {}
    curves, cpi0, cycles, alpha = [], [], [], []
    for number, app in enumerate(apps, 1):
        place = f"{where}, app {number}"
        if not isinstance(app, dict):
            raise InputError(f"is {shown(app)}, not an object", place, f"write {EXAMPLE}")
        name = app.get("name")
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise InputError(f"name is {shown(name)}", place, "give every app a name that can be printed")
        if name in names:
            raise InputError(f"the name {name!r} is taken by app {names[name]}", place, "names must be unique")
        names[name] = number
        place = f"{place} ({name})"
        _refuse_unknown(app, APP_KEYS, place)
        curves.append(_curve(_needed(app, "mpki", place), buckets, place))
        cpi0.append(_number(_needed(app, "cpi0", place), "cpi0", place, above=0.0))
        cycles.append(_number(_needed(app, "cycles_per_miss", place), "cycles_per_miss", place))
        alpha.append(_share(app.get("alpha", 0.0), place))
    return Mix(
        nodes,
        cores,
        buckets,
        cap,
        freq,
        tuple(names),
        np.array(curves),
        np.array(cpi0),
        np.array(cycles),
        np.array(alpha) if any(alpha) else None,
    )


def _check_room(apps: int, nodes: int, cores: int, buckets: int, where: str) -> None:
    if apps > nodes * cores:
        have = f"{nodes} node{'s' if nodes > 1 else ''} of {cores} cores"
        raise InputError(f"{apps} apps do not fit on {have}", where, "every app needs a core: add nodes or cores")
    if apps > nodes * buckets:
        raise InputError(
            f"{apps} apps do not fit into {nodes} x {buckets} buckets", where, "every app needs at least one bucket"
        )


def _curve(values: Any, buckets: int, where: str) -> list[float]:
    if not isinstance(values, list):
        raise InputError(f"mpki is {shown(values)}, not a list", where, f"give {buckets + 1} numbers")
    if len(values) != buckets + 1:
        fix = f"with {buckets} buckets it needs {buckets + 1}: index 0 is no cache, index {buckets} all of it"
        raise InputError(f"mpki has {len(values)} numbers", where, fix)
    return [_number(value, f"mpki[{index}]", where) for index, value in enumerate(values)]


def _refuse_unknown(document: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in document:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
            raise InputError(f"there is no key {shown(key)}", where, hint)


def _needed(document: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in document:
        raise InputError(f"{key} is missing", where, "add it")
    return document[key]


def _whole(value: Any, key: str, where: str) -> int:
    if not is_number(value) or not math.isfinite(value) or value != int(value) or value < 1:
        raise InputError(f"{key} is {shown(value)}", where, "give a whole number from 1 up")
    return int(value)


def _number(value: Any, key: str, where: str, above: float = -1.0) -> float:
    if not is_number(value) or not math.isfinite(value):
        raise InputError(f"{key} is {shown(value)}, not a number", where, "give a plain number")
    if value < 0 or value <= above:
        raise InputError(f"{key} is {value:g}", where, "it cannot be negative" if above < 0 else "it must be above 0")
    if value > LARGEST or 0 < value < SMALLEST:
        raise InputError(f"{key} is {value:g}", where, f"no machine has that: give {SMALLEST:g} to {LARGEST:g}")
    return float(value)


def _share(value: Any, where: str) -> float:
    found = _number(value, "alpha", where)
    if found > 1:
        raise InputError(f"alpha is {found:g}", where, "it is the share of its speed that an app keeps, 0 to 1")
    return found
