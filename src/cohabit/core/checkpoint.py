"""Save a core to bytes and load it: a checkpoint holds all that a later decision depends on.

The bytes are plain data (msgpack): numbers, text and raw arrays. Loading checks the version and never runs code.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cohabit.core import known_programs, windows
from cohabit.core.columns import ARRIVAL, BACKFILL_SCORE, ENDS, SCORE, SEQ
from cohabit.core.core import SchedulerCore
from cohabit.core.kernels import ladder
from cohabit.core.kernels.ladder import Ladder, all_rows
from cohabit.core.mates.local import CoupledState
from cohabit.core.protocols import PolicySet
from cohabit.core.state import State
from cohabit.model import telemetry
from cohabit.model.cluster import Cluster
from cohabit.model.errors import InputError
from cohabit.model.job import Job
from cohabit.model.plan import Placement, Promise
from cohabit.model.profile import Profile

VERSION = 7
READABLE = (5, 6, 7)  # version 5 stored arrays with all their zeros, version 6 ladders with fewer summaries
_ARRAYS = ("jobs", "keys", "idle", "pool", "gauges", "slots", "node_state", "usage")
_LADDERS = ("queue", "second", "running")
_PLAIN = (
    "rows", "spare_rows", "finished", "attempts", "arrays", "open_arrays", "next_seq", "generation", "wake_us",
    "profiled", "memory",
)  # fmt: skip


def save(core: SchedulerCore) -> bytes:
    """Return everything the next step depends on."""
    state = core.state
    data: dict[str, Any] = {"version": VERSION, "readable": core.readable, "arrivals": core.arrivals}
    data |= {name: _packed(getattr(state, name)) for name in _ARRAYS}
    data |= {name: [_packed(part) for part in getattr(state, name)] for name in _LADDERS}
    data |= {name: getattr(state, name) for name in _PLAIN}
    data["specs"] = state.specs
    data["waiting_for"] = [[row, sorted(names)] for row, names in state.waiting_for.items()]
    data["held"] = sorted(state.held)
    data["users"] = list(state.users.items())
    data["ledger"] = None if state.ledger is None else state.ledger.save()
    data["placed"] = list(state.placed.items())
    groups = (*state.profiles.values(), *state.own_profiles.values())
    if state.promises:
        data["promises"] = list(state.promises.values())
    data["profiles"] = [msgspec.to_builtins(one) for known in groups for one in known.values()]
    if afresh := [list(key) for key, known in state.own_profiles.items() if not known]:
        data["afresh"] = afresh
    data["refused_until"] = list(state.refused_until.items())
    data["window"] = None if state.window is None else telemetry.encode(state.window)
    if state.windows:
        data["windows"] = state.windows
    if state.crowded or state.widened:
        data["crowded"] = [[node, condition, rows] for node, (condition, rows) in state.crowded.items()]
        data["widened"] = list(state.widened.items())
    if state.used_until:
        data["used_until"] = sorted(state.used_until.items())
    data["coupled"] = None if state.coupled is None else msgspec.to_builtins(state.coupled)
    return msgspec.msgpack.encode(data, order="deterministic")


def load(data: bytes, cluster: Cluster, policies: PolicySet) -> SchedulerCore:
    """Return the restored core; it goes on with the same commands."""
    try:
        saved = msgspec.msgpack.decode(data, strict=False)
    except msgspec.DecodeError as error:
        raise InputError(f"is not a checkpoint: {error}", "checkpoint") from error
    if not isinstance(saved, dict) or saved.get("version") not in READABLE:
        raise InputError("is a checkpoint of another version", "checkpoint", "start from the journal instead")
    core = SchedulerCore(cluster, policies, readable=saved["readable"])
    state: State = core.state
    for name in _ARRAYS:
        setattr(state, name, _unpacked(saved[name]))
    for name, key in zip(_LADDERS, (ARRIVAL if state.changing else SCORE, BACKFILL_SCORE, ENDS), strict=True):
        kept = Ladder(*(_unpacked(part) for part in saved[name]))
        setattr(state, name, kept if saved["version"] == VERSION else _made_anew(kept, state, key))
    for name in _PLAIN:
        setattr(state, name, saved[name])
    state.arrays = {name: (running, most) for name, (running, most) in saved["arrays"].items()}
    state.open_arrays = {name: (left, worst) for name, (left, worst) in saved["open_arrays"].items()}
    state.specs = [None if job is None else msgspec.convert(job, Job) for job in saved["specs"]]
    windows.restore(state, saved.get("windows", {}))
    state.trust.restore(state.specs)
    state.described = state.describe(len(state.specs))
    state.rows = dict(sorted(saved["rows"].items(), key=lambda item: int(state.jobs[SEQ, item[1]])))  # as they came
    for name, row in state.rows.items():
        state.note_member(name, row)
    state.waiting_for = {row: set(names) for row, names in saved["waiting_for"]}
    state.held = set(saved["held"])
    state.users = dict(map(tuple, saved["users"]))
    state.refused_until = dict(map(tuple, saved["refused_until"]))
    state.placed = {row: msgspec.convert(placement, Placement) for row, placement in saved["placed"]}
    for one in (msgspec.convert(profile, Profile) for profile in saved["profiles"]):
        known_programs.put(state, one)
    for owner, program in saved.get("afresh", ()):
        state.own_profiles[owner, program] = {}
    state.promises = {one.row: one for one in msgspec.convert(saved.get("promises", []), list[Promise])}
    if state.ledger is not None:
        state.ledger.load(saved["ledger"])
    state.crowded = {node: (condition, list(rows)) for node, condition, rows in saved.get("crowded", ())}
    state.widened = dict(map(tuple, saved.get("widened", ())))
    state.used_until = dict(map(tuple, saved.get("used_until", ())))
    state.window = None if saved["window"] is None else telemetry.decode(saved["window"])
    state.coupled = None if saved["coupled"] is None else msgspec.convert(saved["coupled"], CoupledState)
    core.arrivals = list(saved["arrivals"])
    if not core.compiled:  # now, and not in the first pass
        state.described.numbers(all_rows(state.queue), state.specs)
    return core


def _made_anew(old: Ladder, state: State, key: int) -> Ladder:
    """Return the same rows in the same order, with the present summaries."""
    new = ladder.make(state.jobs.shape[1])
    ladder.rebuild(new, state.jobs, state.keys[key], all_rows(old))
    return new


def _packed(array: NDArray[Any]) -> list[Any]:
    """Return the rows without most of their trailing zeros: tables have room for many more jobs than there are."""
    rows = np.ascontiguousarray(array).reshape(-1, array.shape[-1]) if array.size else array.reshape(0, 1)
    return [array.dtype.str, list(array.shape), [_front(row).tobytes() for row in rows]]


def _front(row: NDArray[Any]) -> NDArray[Any]:
    """Return the row, halved for as long as its second half is empty."""
    bits, end = row.view(f"u{row.itemsize}"), len(row)
    while end and not bits[end // 2 : end].any():
        end //= 2
    return row[:end]


def _unpacked(packed: list[Any]) -> NDArray[Any]:
    kind, shape, raw = packed
    if isinstance(raw, bytes):
        return np.frombuffer(raw, np.dtype(kind)).reshape(shape).copy()
    array = np.zeros(shape, np.dtype(kind))
    if array.size:
        width = shape[-1] * array.itemsize
        for row, content in zip(array.reshape(-1, shape[-1]), raw, strict=True):
            row[:] = np.frombuffer(content.ljust(width, b"\0"), array.dtype)
    return array
