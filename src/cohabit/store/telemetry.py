"""Persistent windows of telemetry: an embedded store in one folder, with one writer and any number of readers.

A finished window becomes a segment of its own at once; the windows of an hour that is over are put together into one
segment; beyond the retention the oldest hours go. It counts recorded hours, not age: a clock that jumps ahead for a
moment must not empty the store. Killed at any instant, at most the window being written is lost, and
the next writer reports it. A segment that cannot be read is skipped and reported. Only windows are stored, no samples.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from cohabit.model.errors import InputError
from cohabit.model.telemetry import WINDOW_US, Window
from cohabit.model.units import DAY, FOREVER, HOUR
from cohabit.store import telemetry_segments as segments
from cohabit.store.telemetry_reduce import Reduced
from cohabit.store.telemetry_segments import Recorded, Segment

KEEP_US = 7 * DAY
LOCK = ".writer"


class TelemetryStore:
    """A readable folder of segments."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes: list[str] = []  # texts on what could not be read or was dropped
        self._unreadable: set[Path] = set()
        if not folder.is_dir():
            raise InputError(
                "there is no telemetry store", str(folder), "make one: cohabit telemetry collect --out FOLDER"
            )

    def segments(self) -> list[Segment]:
        """Return the present segments; a writer may add and remove some while others read."""
        try:
            return segments.listed(self.folder)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(f"cannot be read: {reason}", str(self.folder), "check the permissions") from error

    def newest_end_us(self) -> int | None:
        """Return when the newest window ended, for model.telemetry.staleness; None in an empty store."""
        return max((one.last_us for one in self.segments()), default=None)

    def size_bytes(self) -> int:
        """Return the size of the segments on disk."""
        return sum(one.path.stat().st_size for one in self.segments())

    def windows(
        self, begin_us: int, end_us: int, nodes: Sequence[str] | None = None, counters: Sequence[str] | None = None
    ) -> Iterator[Recorded]:
        """Return windows that end in (`begin_us`, `end_us`], oldest first, with these nodes and counters."""
        fitting = [one for one in self.segments() if one.last_us > begin_us and one.first_us <= end_us]
        for group in _overlapping(fitting):
            rows = self._rows(group, begin_us, end_us, counters)
            if rows is None:
                continue
            for part in rows.partition_by("end_us", maintain_order=True):
                yield segments.recorded(part, nodes, counters)

    def before(
        self,
        time_us: int,
        nodes: Sequence[str] | None = None,
        counters: Sequence[str] | None = None,
        span_us: int = WINDOW_US,
    ) -> Window | None:
        """Return what was known at `time_us`: all windows that ended in the last `span_us`, merged into one (R3).

        Nothing that ended later is included (R60). None if no window ended in that time.
        """
        found = list(self.windows(time_us - span_us, time_us, nodes, counters))
        if nodes is None and len({one.nodes for one in found}) > 1:
            all_names = sorted({name for one in found for name in one.nodes})
            return self.before(time_us, all_names, counters, span_us)
        return _combined(found)

    def _rows(
        self, group: list[Segment], begin_us: int, end_us: int, counters: Sequence[str] | None
    ) -> pl.DataFrame | None:
        frames = []
        for one in sorted(group, key=lambda each: each.number):
            try:
                frames.append(segments.read(one.path, begin_us, end_us, counters))
            except FileNotFoundError:  # merged or deleted since the folder was listed
                frames += self._moved(one, begin_us, end_us, counters)
            except (pl.exceptions.PolarsError, OSError) as error:
                self._leave_out(one, error)
        if not frames:
            return None
        return frames[0] if len(frames) == 1 else segments.together(frames)

    def _moved(self, lost: Segment, begin_us: int, end_us: int, counters: Sequence[str] | None) -> list[pl.DataFrame]:
        holders = [one for one in self.segments() if one.covers(lost)]
        first, last = max(begin_us, lost.first_us - 1), min(end_us, lost.last_us)
        try:
            return [segments.read(one.path, first, last, counters) for one in holders]
        except (pl.exceptions.PolarsError, OSError) as error:
            self._leave_out(lost, error)
            return []

    def _leave_out(self, one: Segment, error: Exception) -> None:
        if one.path not in self._unreadable:
            self._unreadable.add(one.path)
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            self.notes.append(f"{one.path.name} cannot be read and is left out ({reason})")


class TelemetryWriter(TelemetryStore):
    """The one process that adds to a store."""

    def __init__(self, folder: Path, keep_us: int = KEEP_US) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise InputError("another process is writing it", str(folder), "wait for it or choose another") from None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(f"cannot be written: {reason}", str(folder), "choose another folder") from error
        super().__init__(folder)
        self.keep_us = keep_us
        self._drop_drafts()
        self._number = max((one.number for one in self.segments()), default=0)
        self._tidied_hour = -1

    def __enter__(self) -> TelemetryWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the store for other writers."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def add(self, reduced: Reduced, nodes: Sequence[str]) -> None:
        """Keep a finished window, on disk when this returns; `nodes` are the names of its rows."""
        end_us = reduced.window.end_us
        self._number += 1
        segments.write(segments.frame_of(reduced, nodes), segments.path_of(self.folder, end_us, end_us, self._number))
        if _hour(end_us) != self._tidied_hour:
            self._tidied_hour = _hour(end_us)
            self.tidy(end_us)

    def tidy(self, now_us: int) -> None:
        """Merge the windows of every finished hour, and delete what is too old."""
        self._retire()
        hours: dict[int, list[Segment]] = {}
        for one in self.segments():
            if _hour(one.first_us) == _hour(one.last_us):
                hours.setdefault(_hour(one.first_us), []).append(one)
        for hour, parts in hours.items():
            if len(parts) > 1 and hour < _hour(now_us):
                self._put_together(parts)

    def _put_together(self, parts: list[Segment]) -> None:
        before = len(self.notes)
        rows = self._rows(parts, 0, FOREVER, None)
        if rows is None or len(self.notes) > before:  # an unreadable segment stays as it is, for inspection
            return
        first, last = int(rows["end_us"].min()), int(rows["end_us"].max())  # type: ignore[arg-type]
        target = segments.path_of(self.folder, first, last, max(one.number for one in parts))
        segments.write(rows, target)
        for one in parts:
            if one.path != target:
                one.path.unlink(missing_ok=True)

    def _retire(self) -> None:
        found = self.segments()
        hours = sorted({_hour(one.last_us) for one in found})
        kept = -(-self.keep_us // HOUR)
        for one in found:
            if len(hours) > kept and _hour(one.last_us) < hours[-kept]:
                one.path.unlink(missing_ok=True)

    def _drop_drafts(self) -> None:
        """Delete drafts of segments, and only now that there is no other writer."""
        drafts = [path for path in self.folder.glob(".*.part") if segments.NAME.match(path.name[1:])]
        for path in drafts:
            path.unlink(missing_ok=True)
        if drafts:
            count = "a half-written window" if len(drafts) == 1 else f"{len(drafts)} half-written windows"
            self.notes.append(f"{count} of a writer that was killed {'was' if len(drafts) == 1 else 'were'} dropped")


def _hour(end_us: int) -> int:
    """Return the hour a window belongs to; one that ends on the hour belongs to the hour it closes."""
    return (end_us - 1) // HOUR


def _overlapping(found: list[Segment]) -> Iterator[list[Segment]]:
    """Return segments by time, grouped where they may hold the same windows."""
    group: list[Segment] = []
    for one in found:
        if group and one.first_us > max(each.last_us for each in group):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _combined(found: list[Recorded]) -> Window | None:
    """Merge several windows of the same nodes into one: means weighted by samples."""
    if len(found) <= 1:
        return found[0].window if found else None
    names = tuple(dict.fromkeys(name for one in found for name in one.window.counters))
    shape = (len(found[0].nodes), len(names))
    lowest, highest = np.full(shape, np.nan, np.float32), np.full(shape, np.nan, np.float32)
    total, weight = np.zeros(shape), np.zeros(shape)
    for one in found:
        at = [names.index(name) for name in one.window.counters]
        lowest[:, at] = np.fmin(lowest[:, at], one.window.lowest)
        highest[:, at] = np.fmax(highest[:, at], one.window.highest)
        share = np.where(np.isnan(one.window.mean), 0.0, one.samples[:, None])
        total[:, at] += np.where(share > 0, one.window.mean, 0.0) * share
        weight[:, at] += share
    mean = np.divide(total, weight, out=np.full(total.shape, np.nan), where=weight > 0)
    return Window(found[-1].window.end_us, names, lowest, highest, mean.astype(np.float32))
