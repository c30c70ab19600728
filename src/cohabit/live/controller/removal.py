"""Removal from a journal for retention, in portions: old records, old batches with their checkpoints, free pages.

Each function works in a transaction of its caller, and the process may be killed between any two of them: a kill -9
leaves a journal that has more than it needs, never less. A replay begins at the oldest checkpoint, so checkpoints are
removed before the batches that only they need, and batches from the oldest on. The newest checkpoint and the one before
it stay.

Names of removed jobs are kept, so that none is used again; of jobs that the server numbered only the highest number.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import sqlalchemy as sa

from cohabit.live.controller import records as rows
from cohabit.live.controller.journal_schema import (
    batches,
    checkpoints,
    get,
    jobs,
    left_out,
    put,
    records,
    removed,
    stretches,
)
from cohabit.live.controller.records import OVER, Record
from cohabit.live.controller.reserve import LOG_PAGES

APART = 1_000  # batches at least between two checkpoints that are kept for replays
FREE_PAGES = 2 * LOG_PAGES  # stay in the file, for a full disk and for the next writes
INCREMENTAL = 2  # SQLite's auto_vacuum
NUMBER, BEFORE = "removed_number", "removed_before_us"  # settings: the highest number, and the latest end, removed
_decoder = msgspec.msgpack.Decoder(Record)


class Portion(msgspec.Struct, frozen=True):
    """An amount that was removed, or would be."""

    count: int = 0
    bytes: int = 0

    def plus(self, other: Portion) -> Portion:
        """Return the sum of both."""
        return Portion(self.count + other.count, self.bytes + other.bytes)


class Gone(NamedTuple):
    """A job whose record was removed. owner None: of a number nothing else is kept."""

    owner: int | None


# ---- records --------------------------------------------------------------------------------------------------------


def records_cut(connection: sa.Connection, cut_us: int, most: int) -> int:
    """Return the instant before which records of ended jobs are removed: `cut_us`, or later so that about the newest
    `most` stay (-1: no bound; jobs that ended at the same instant stay together)."""
    if most < 0:
        return cut_us
    ends = sa.select(records.c.ended_us).where(records.c.ended_us.is_not(None))
    found = connection.execute(ends.order_by(records.c.ended_us.desc()).offset(most).limit(1)).scalar()
    return cut_us if found is None else max(cut_us, int(found))


def due_records(connection: sa.Connection, cut_us: int) -> Portion:
    """Return what `remove_records` would remove in all."""
    size = sa.func.coalesce(sa.func.sum(sa.func.length(records.c.content) + _launch_bytes()), 0)
    found = connection.execute(sa.select(sa.func.count(), size).where(*_is_due(cut_us))).one()
    return Portion(int(found[0]), int(found[1]))


def _launch_bytes() -> sa.ScalarSelect[int]:
    size = sa.select(sa.func.length(jobs.c.launch)).where(jobs.c.job_id == records.c.job_id)
    return sa.func.coalesce(size.scalar_subquery(), 0)  # type: ignore[return-value]


def remove_records(connection: sa.Connection, cut_us: int, most: int, numbered: bool) -> Portion:
    """Remove at most this many records, the oldest first, with what their jobs executed; an array after its members.

    `numbered`: names that are numbers were given by this server, in their order."""
    query = sa.select(records, _launch_bytes().label("launch_bytes")).where(*_is_due(cut_us))
    found = connection.execute(
        query.order_by(records.c.ended_us, records.c.members, records.c.job_id).limit(most)
    ).all()
    if not found:
        return Portion()
    _keep_names(connection, [_decoder.decode(row.content) for row in found], numbered)
    names = [row.job_id for row in found]
    for portion in rows.portions(names):
        for table in (records, jobs):
            connection.execute(sa.delete(table).where(table.c.job_id.in_(portion)))
    before = max(int(get(connection, BEFORE) or 0), found[-1].ended_us + 1)
    put(connection, {BEFORE: str(before)})
    return Portion(len(found), sum(len(row.content) + row.launch_bytes for row in found))


def _is_due(cut_us: int) -> tuple[sa.ColumnElement[bool], ...]:
    return records.c.phase == OVER, records.c.ended_us < cut_us


def _keep_names(connection: sa.Connection, gone: Sequence[Record], numbered: bool) -> None:
    highest = int(get(connection, NUMBER) or -1)
    named = []
    for one in gone:
        if one.array:
            continue  # the name of its array is kept instead
        if _is_number(one.job_id):
            highest = max(highest, int(one.job_id)) if numbered else highest
        else:
            named.append(
                {"job_id": one.job_id, "owner": one.user, "array_first": one.array_first, "members": one.members}
            )
    if named:
        connection.execute(sa.insert(removed), named)
    if highest >= 0:
        put(connection, {NUMBER: str(highest)})


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _array_of(name: str) -> tuple[str, int]:
    """Return the array that a name could be a member of; "": none."""
    array, _, number = name.rpartition("_")
    return (array, int(number)) if array and _is_number(number) else ("", 0)


def used_before(connection: sa.Connection, names: Sequence[str]) -> set[str]:
    """Return which of these names belonged to jobs that were removed."""
    highest = int(get(connection, NUMBER) or -1)
    asked = sorted({one for name in names for one in (name, _array_of(name)[0]) if one and not _is_number(one)})
    known = set[str]()
    for portion in rows.portions(asked):
        known.update(connection.execute(sa.select(removed.c.job_id).where(removed.c.job_id.in_(portion))).scalars())

    def was_used(name: str) -> bool:
        return name in known or (_is_number(name) and int(name) <= highest)

    return {name for name in names if was_used(name) or was_used(_array_of(name)[0])}


def find_gone(connection: sa.Connection, name: str) -> Gone | None:
    """Return what is known of a removed job; None: its record was not removed. A number that retention has passed
    counts as removed with or without a record: a caller that may not see the job is told the same in both cases."""
    highest, (array, number) = int(get(connection, NUMBER) or -1), _array_of(name)
    if any(_is_number(one) and int(one) <= highest for one in (name, array)):
        return Gone(None)
    found = connection.execute(sa.select(removed).where(removed.c.job_id.in_([name, array]))).all()
    for row in found:
        if row.job_id == name or row.array_first <= number < row.array_first + row.members:
            return Gone(row.owner)
    kept = rows.some(connection, [array, name])
    living = kept.get(array) if array else None  # an array that has lost members
    if living is not None and living.array_first <= number < living.array_first + living.members:
        return None if name in kept else Gone(living.user)
    return None


# ---- outputs --------------------------------------------------------------------------------------------------------


class DueOutputs(NamedTuple):
    """Jobs with outputs in the place, by the uid they ran as; `last`: where to go on, None: that was all."""

    jobs: dict[int, list[str]]
    last: tuple[int, str] | None


def due_outputs(connection: sa.Connection, behind: tuple[int, str] | None, cut_us: int, most: int) -> DueOutputs:
    """Return the outputs of the next jobs that ended before this instant."""
    found = rows.between(connection, 0, cut_us, None, most, behind)
    launches = rows.launches(connection, sorted({one.array or one.job_id for one in found}))
    due: dict[int, list[str]] = {}
    for one in found:
        launch = launches.get(one.array or one.job_id)
        if launch is not None and not launch.stdout:
            due.setdefault(launch.uid, []).append(one.job_id)
    last = found[-1] if found else None
    return DueOutputs(due, None if last is None or last.end_us is None else (last.end_us, last.job_id))


# ---- batches and checkpoints ----------------------------------------------------------------------------------------


class OldFacts(NamedTuple):
    """The unneeded part of a journal: batches up to `upto`, and these checkpoints."""

    upto: int
    checkpoints: list[int]


def find_old_facts(connection: sa.Connection, cut_us: int, most: int) -> OldFacts:
    """Return what can be removed. A replay begins at the last checkpoint before `cut_us`, or the last with more than
    `most` batches behind it (-1: no bound), whichever is later; at the one before the newest if that is earlier."""
    kept = connection.execute(sa.select(checkpoints.c.seq, checkpoints.c.now_us).order_by(checkpoints.c.seq)).all()
    newest = connection.execute(sa.select(sa.func.max(batches.c.seq))).scalar() or 0
    old = [row.seq for row in kept[:-1] if row.now_us <= cut_us or (most >= 0 and row.seq <= newest - most)]
    upto = old[-1] if old else 0
    later = [row.seq for row in kept if row.seq >= upto]
    last = later[0] if later else 0
    gone = old[:-1]
    for seq in later[1:-2]:
        if seq - last < APART:
            gone.append(seq)
        else:
            last = seq
    return OldFacts(upto, gone)


def due_facts(connection: sa.Connection, old: OldFacts) -> Portion:
    """Return how many batches would be removed, with the bytes of batches and checkpoints."""
    size = sa.func.length(batches.c.events) + sa.func.coalesce(sa.func.length(batches.c.commands), 0)
    query = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(size), 0)).where(batches.c.seq <= old.upto)
    count, found = connection.execute(query).one()
    return Portion(int(count), int(found) + _checkpoint_bytes(connection, old.checkpoints))


def _checkpoint_bytes(connection: sa.Connection, seqs: Sequence[int]) -> int:
    size = sa.func.coalesce(sa.func.sum(sa.func.length(checkpoints.c.core)), 0)
    return int(connection.execute(sa.select(size).where(checkpoints.c.seq.in_(seqs))).scalar() or 0)


def remove_checkpoints(connection: sa.Connection, seqs: Sequence[int]) -> Portion:
    """Remove checkpoints, before the batches: a replay must not begin at a checkpoint whose batches are gone."""
    size = _checkpoint_bytes(connection, seqs)
    connection.execute(sa.delete(checkpoints).where(checkpoints.c.seq.in_(seqs)))
    return Portion(0, size)


def remove_batches(connection: sa.Connection, upto: int, most: int) -> Portion:
    """Remove at most this many batches up to this one, the oldest first, with the marks of left-out events."""
    first = connection.execute(sa.select(sa.func.min(batches.c.seq))).scalar()
    if first is None or first > upto:
        return Portion()
    last = min(upto, first + most - 1)
    found = due_facts(connection, OldFacts(last, []))
    for table in (left_out, stretches):
        connection.execute(sa.delete(table).where(table.c.seq <= last))
    connection.execute(sa.delete(batches).where(batches.c.seq <= last))
    return found


# ---- the file -------------------------------------------------------------------------------------------------------


def shrink(connection: sqlite3.Connection, pages: int | None) -> bool:
    """Give free pages back to the disk, at most this many; return whether there are more. None: write the whole file
    anew. A file that was made by an earlier version gives pages back only after that."""
    if pages is None:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return False
    mode, free = (connection.execute(f"PRAGMA {word}").fetchone()[0] for word in ("auto_vacuum", "freelist_count"))
    if mode != INCREMENTAL or free <= FREE_PAGES:
        return False
    connection.execute(f"PRAGMA incremental_vacuum({min(pages, free - FREE_PAGES)})").fetchall()
    return bool(free - pages > FREE_PAGES)
