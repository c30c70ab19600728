"""Recent values of the machine's counters: one window per five minutes, for every node. No files, no clock.

A counter is named SOURCE.NAME ("sysclassib.port_xmit_data"); amounts are per second, levels as they are. A feature is
COUNTER.STAT with STAT one of min, max, mean, over the window and over a set of nodes (RUSH R2, R3). Beyond the paper a
window may know the mean of its last minute (COUNTER.last), by which noise that has passed differs from present noise.
A window holds only what was known at its end: nothing of a job's own run may ever enter the features it is judged by
(R60).

Sources report totals; `growth` converts them to amounts per second, also across wraps and resets. A counter that fell
has wrapped round (it was near its highest value and is near zero now) or was reset; after a reset the growth is
unknown, and unknown is NaN, never a guess. A counter that stays at its highest value is unknown, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cohabit.model.errors import InputError
from cohabit.model.job import WORKLOAD_TYPES as WORKLOAD_TYPES
from cohabit.model.units import span

WINDOW_US = 300_000_000
STALE_US = 2 * WINDOW_US  # an older window says too little about the present to delay a job
AHEAD_US = 60_000_000  # how much the clocks of nodes may differ
_BLOCK = 32
NEAR = 0.25  # of the range: how close to its ends a counter must be for its fall to be a wrap
STATS = ("min", "max", "mean")
LAST, LAST_PART = "last", 5  # the mean of the last part of a window: a fifth of it, which is a minute
CANARY_TIMES = ("canary.send_wait_s", "canary.recv_wait_s", "canary.allreduce_wait_s")

Table = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Window:
    """The counters of every node over the time up to `end_us`; NaN: the node did not report."""

    end_us: int
    counters: tuple[str, ...]
    lowest: Table  # [node, counter]
    highest: Table
    mean: Table
    last: Table | None = None  # the mean over its last part; None: it is not known, as in windows from a store

    def __post_init__(self) -> None:
        shapes = {table.shape for table in self._tables}
        assert len(shapes) == 1 and self.mean.ndim == 2 and self.mean.shape[1] == len(self.counters), shapes

    @property
    def nodes(self) -> int:
        """The number of nodes it covers."""
        return len(self.mean)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of `features`, in their order."""
        return feature_names(self.counters, with_last=self.last is not None)

    @property
    def _tables(self) -> tuple[Table, ...]:
        return (self.lowest, self.highest, self.mean, *(() if self.last is None else (self.last,)))

    def changed(self, end_us: int, counters: tuple[str, ...], change: Callable[[Table], Table]) -> Window:
        """Return a window of other counters or nodes: each of its tables after the change."""
        return Window(end_us, counters, *map(change, self._tables))

    @cached_property
    def complete(self) -> bool:
        """True if every node reported every counter."""
        return not np.isnan(self.mean).any()

    @cached_property
    def of_all_nodes(self) -> NDArray[np.float64]:
        """`features` of the whole machine."""
        return self._reduced(*self._tables)

    def features(self, nodes: NDArray[np.integer]) -> NDArray[np.float64]:
        """[min, max, mean, last of each counter] over these nodes, as `feature_names`; NaN where none reported."""
        return self._reduced(*(table[nodes] for table in self._tables))

    def _reduced(self, lowest: Table, highest: Table, mean: Table, *last: Table) -> NDArray[np.float64]:
        found = np.empty((len(self.counters), len(STATS) + len(last)))
        if self.complete:
            found[:, 0], found[:, 1] = lowest.min(axis=0), highest.max(axis=0)
            found[:, 2] = _column_sums(mean) / len(mean)
        else:
            found[:, 0], found[:, 1] = np.fmin.reduce(lowest, axis=0), np.fmax.reduce(highest, axis=0)
            found[:, 2] = mean_of_known(mean)
        for recent in last:
            found[:, 3] = _column_sums(recent) / len(recent) if self._last_complete else mean_of_known(recent)
        return found.ravel()

    @cached_property
    def _last_complete(self) -> bool:
        return self.last is not None and not np.isnan(self.last).any()

    @cached_property
    def digest(self) -> str:
        """The digest that a journal keeps."""
        content = hashlib.sha256(repr((self.end_us, self.counters, self.mean.shape)).encode())
        for table in self._tables:
            content.update(np.ascontiguousarray(table, "<f4").tobytes())
        return content.hexdigest()


def _column_sums(table: Table) -> NDArray[np.float64]:
    """Sum over the nodes; on a large machine blocks are first summed in their own type, which is much faster."""
    whole = len(table) // _BLOCK * _BLOCK if len(table) >= 2 * _BLOCK else 0
    total: NDArray[np.float64] = table[whole:].sum(axis=0, dtype=np.float64)
    if whole:
        blocks = table[:whole].reshape(-1, _BLOCK, table.shape[1])
        total += np.add.reduce(blocks, axis=1).sum(axis=0, dtype=np.float64)
    return total


def mean_of_known(table: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the mean of every column over the rows that are known; NaN where none is."""
    known = ~np.isnan(table)
    count, total = known.sum(axis=0), np.where(known, table, 0.0).sum(axis=0, dtype=np.float64)
    return np.asarray(np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0))


def feature_names(counters: Sequence[str], with_last: bool = False) -> tuple[str, ...]:
    """Return the names of `Window.features`, in its order, of windows that know their last part or do not."""
    stats = (*STATS, LAST) if with_last else STATS
    return tuple(f"{counter}.{stat}" for counter in counters for stat in stats)


def staleness(newest_end_us: int | None, now_us: int) -> str:
    """Return why telemetry may not be used for gating; empty: the newest window is recent enough."""
    if newest_end_us is None:
        return "stale: there is no window yet"
    age_us = now_us - newest_end_us
    if age_us > STALE_US:
        return f"stale: newest window ended {span(age_us)} ago"
    if age_us < -AHEAD_US:
        return f"stale: newest window ends {span(-age_us)} from now, so a clock was set back"
    return ""


def encode(window: Window) -> bytes:
    """Encode a window as plain bytes, for events, journals and checkpoints."""
    tables = [np.ascontiguousarray(table, "<f4").tobytes() for table in window._tables]
    return msgspec.msgpack.encode([window.end_us, window.counters, window.nodes, *tables])


def decode(content: bytes) -> Window:
    """Decode a window; raise InputError if the content is not a window."""
    try:
        found = msgspec.msgpack.decode(content, type=_Encoded)
        raw = (found.lowest, found.highest, found.mean, *(() if found.last is None else (found.last,)))
        tables = [np.frombuffer(one, "<f4").reshape(found.nodes, len(found.counters)) for one in raw]
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as error:
        raise InputError(f"is not a window of telemetry: {error}", "telemetry") from error
    return Window(found.end_us, found.counters, *tables)


class _Encoded(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    end_us: int
    counters: tuple[str, ...]
    nodes: int
    lowest: bytes
    highest: bytes
    mean: bytes
    last: bytes | None = None


class Growth(NamedTuple):
    """Amounts per second (NaN: not known) and why some are not, or needed a correction."""

    per_second: NDArray[np.float64]
    wrapped: NDArray[np.bool_]
    reset: NDArray[np.bool_]
    stuck: NDArray[np.bool_]


def growth(before: ArrayLike, after: ArrayLike, elapsed_s: ArrayLike, bits: ArrayLike, stays: ArrayLike) -> Growth:
    """Return the growth of totals per second; NaN in either total is NaN in the answer. All arguments broadcast."""
    first, last = np.asarray(before, np.float64), np.asarray(after, np.float64)
    seconds, held = np.asarray(elapsed_s, np.float64), np.asarray(stays, np.bool_)
    span = np.exp2(np.asarray(bits, np.float64))
    fell = last < first
    wrapped = fell & ~held & (first >= span * (1 - NEAR)) & (first <= span) & (last <= span * NEAR)
    # A port without the extended counters keeps those declared as 64 bits wide in 32.
    stuck = held & (first == last) & ((last >= span - 1) | (last == 2.0**32 - 1)) & (last > 0)
    reset = fell & ~wrapped
    grown = last - first + np.where(wrapped, span, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = np.where(reset | stuck | ~(seconds > 0), np.nan, grown / seconds)
    return Growth(rates, wrapped, reset, stuck)
