"""The record of every job ever taken, kept when the core has forgotten the job. Reads and writes rows.

A row is found by the job's name, by the order jobs were taken, by owner or by end; everything else is in its content,
so a new field needs no new column. Nothing here knows the core: recorder.py says what to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import sqlalchemy as sa

from cohabit.backend.protocol import Launch
from cohabit.live.controller.journal_schema import jobs as _jobs
from cohabit.live.controller.journal_schema import records as _records

WAITS, RUNS, OVER = 0, 1, 2  # phases
QUEUED, RUNNING, FINISHED, ALL = "queued", "running", "finished", "all"  # what `page` can be asked for
PHASES = {QUEUED: (WAITS,), RUNNING: (RUNS,), FINISHED: (OVER,), ALL: (WAITS, RUNS, OVER), "": (WAITS, RUNS)}
REFUSED = "its start was refused"  # how notes about that begin, and what the core says of it
NOTES_MOST = 16  # of the history of a job's waits: the first and the latest
BESIDE_MOST = 16  # jobs it met that a record names
NAMES_AT_ONCE = 500  # names in one query to the database


class Note(NamedTuple):
    """The reason why a job waits, or has to wait again, from this instant on."""

    at_us: int
    why: str


class Record(msgspec.Struct, omit_defaults=True):
    """One job. Instants are on the controller's clock, which shows Unix time in microseconds; None: not known (yet)."""

    job_id: str
    ordinal: int  # in the order jobs were taken
    phase: int = WAITS
    user: int = -1
    program: str = ""
    processes: int = 1
    whole_nodes: int = 0  # asked for, instead of cores
    partition: str = ""
    qos: int = 0
    limit_us: int = 0
    after: tuple[str, ...] = ()
    array: str = ""  # the array it is a member of
    array_first: int = 0
    members: int = 0  # more than 0: an array of this many jobs, job_id_FIRST and on
    submit_us: int | None = None
    start_us: int | None = None  # of its latest run
    end_us: int | None = None
    attempt: int = 0
    status: str = ""  # how it ended: done, failed, killed, cancelled, lost or rejected; "": it has not
    reason: str = ""  # why it was cancelled or rejected, or could not be started
    nodes: tuple[tuple[int, int], ...] = ()  # of its latest run, as (first, count)
    cores: int = 0  # of its latest run, over all its nodes
    scale: int = 1
    ways: int = 0  # booked on each node
    bandwidth_mbs: int = 0  # booked on each node
    exclusive: bool = True
    met: bool = False  # other jobs were on its nodes, in its latest run
    beside: tuple[tuple[str, int], ...] = ()  # the first BESIDE_MOST of these, with their users
    profile: str = ""  # what was known of its program when that run began, in words
    purpose: str = "run"
    exit_status: int | None = None
    exit_signal: int | None = None
    predicted_slowdown: float | None = None  # against running alone, as booked at its start
    actual_slowdown: float | None = None  # where the time it takes alone is known and it had neighbours
    slowdown_why: str = ""  # why there is none though the time alone is known: too short, or runs alone vary too much
    notes: tuple[Note, ...] = ()
    account: str = ""

    def meets(self, other: Record) -> None:
        """Note a job that is on its nodes."""
        self.met, one = True, (other.job_id, other.user)
        if one not in self.beside and len(self.beside) < BESIDE_MOST:
            self.beside = (*self.beside, one)

    def with_note(self, at_us: int, why: str) -> None:
        """Add a note on why it waits; the same text again is ignored."""
        if self.notes and self.notes[-1].why == why:
            return
        notes = (*self.notes, Note(at_us, why))
        self.notes = notes if len(notes) <= NOTES_MOST else (notes[0], *notes[-NOTES_MOST + 1 :])


class Page(NamedTuple):
    """Some of many records, latest first; `before` asks for those that follow, None: there are none."""

    records: list[Record]
    before: int | None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)
_UPSERT = sa.text(
    f"INSERT INTO {_records.name} (job_id, ordinal, owner, phase, members, ended_us, content) "
    "VALUES (:job_id, :ordinal, :owner, :phase, :members, :ended_us, :content) ON CONFLICT (job_id) DO UPDATE SET "
    "phase = excluded.phase, ended_us = excluded.ended_us, content = excluded.content"
)
_SMALLER = sa.update(_jobs).where(_jobs.c.job_id == sa.bindparam("name")).values(launch=sa.bindparam("small"))


def write(connection: sa.Connection, records: Iterable[Record]) -> None:
    """Insert or replace these rows; what a finished job executed is kept without its environment."""
    rows, over = [], []
    for one in records:
        rows.append(
            {
                "job_id": one.job_id,
                "ordinal": one.ordinal,
                "owner": one.user,
                "phase": one.phase,
                "members": one.members,
                "ended_us": one.end_us,
                "content": _encoder.encode(one),
            }
        )
        if one.phase == OVER and not one.array:
            over.append(one.job_id)
    if rows:
        connection.execute(_UPSERT, rows)
    if smaller := _without_environment(connection, over):
        connection.execute(_SMALLER, smaller)


def _without_environment(connection: sa.Connection, names: Sequence[str]) -> list[dict[str, str | bytes]]:
    return [
        {"name": name, "small": msgspec.msgpack.encode(msgspec.structs.replace(launch, environment={}))}
        for name, launch in launches(connection, names).items()
        if launch.environment
    ]


def some(connection: sa.Connection, names: Sequence[str]) -> dict[str, Record]:
    """Return the records of the known ones of these jobs."""
    found: list[Record] = []
    for portion in portions(names):
        query = sa.select(_records.c.content).where(_records.c.job_id.in_(portion))
        found += map(_decoder.decode, connection.execute(query).scalars())
    return {record.job_id: record for record in found}


def living(connection: sa.Connection) -> list[Record]:
    """Return all records of jobs that are not over, arrays too, in the order they were taken."""
    query = sa.select(_records.c.content).where(_records.c.phase < OVER).order_by(_records.c.ordinal)
    return [_decoder.decode(content) for content in connection.execute(query).scalars()]


def count_living(connection: sa.Connection) -> int:
    """Return how many are not over."""
    return connection.execute(sa.select(sa.func.count()).where(_records.c.phase < OVER)).scalar() or 0


def page(
    connection: sa.Connection, state: str = "", user: int | None = None, limit: int = 100, before: int | None = None
) -> Page:
    """Return the latest jobs in this state (one of PHASES; "": queued and running), arrays as their members."""
    query = sa.select(_records.c.content, _records.c.ordinal).where(_records.c.members == 0)
    if state != ALL:
        wanted = PHASES[state]
        # explicit, so that the small partial index of unfinished jobs is used
        query = query.where(_records.c.phase < OVER) if OVER not in wanted else query
        query = query.where(_records.c.phase.in_(wanted))
    if user is not None:
        query = query.where(_records.c.owner == user)
    if before is not None:
        query = query.where(_records.c.ordinal < before)
    rows = connection.execute(query.order_by(_records.c.ordinal.desc()).limit(limit + 1)).all()
    found = [_decoder.decode(row.content) for row in rows[:limit]]
    return Page(found, rows[limit - 1].ordinal if len(rows) > limit else None)


def between(
    connection: sa.Connection,
    since_us: int,
    until_us: int,
    user: int | None = None,
    limit: int = 1000,
    behind: tuple[int, str] | None = None,
) -> list[Record]:
    """Return jobs that ended in [since, until), by end; `behind` goes on after the (end_us, job_id) of the last one."""
    query = sa.select(_records.c.content).where(
        _records.c.members == 0, _records.c.ended_us >= since_us, _records.c.ended_us < until_us
    )
    if user is not None:
        query = query.where(_records.c.owner == user)
    if behind is not None:
        end_us, name = behind
        later = sa.and_(_records.c.ended_us == end_us, _records.c.job_id > name)
        query = query.where(_records.c.ended_us >= end_us, sa.or_(_records.c.ended_us > end_us, later))
    rows = connection.execute(query.order_by(_records.c.ended_us, _records.c.job_id).limit(limit)).scalars()
    return [_decoder.decode(content) for content in rows]


def known(connection: sa.Connection, names: Sequence[str]) -> set[str]:
    """Return which of these names belong to a job, a member of an array or an array."""
    found: set[str] = set()
    for portion in portions(names):
        for table in (_jobs, _records):
            found.update(connection.execute(sa.select(table.c.job_id).where(table.c.job_id.in_(portion))).scalars())
    return found


def launches(connection: sa.Connection, names: Sequence[str]) -> dict[str, Launch]:
    """Return what these jobs and arrays execute."""
    found = {}
    for portion in portions(names):
        for row in connection.execute(sa.select(_jobs).where(_jobs.c.job_id.in_(portion))):
            found[row.job_id] = msgspec.msgpack.decode(row.launch, type=Launch)
    return found


def portions(names: Sequence[str]) -> Iterable[Sequence[str]]:
    """Split names into portions that one query to the database takes."""
    return (names[at : at + NAMES_AT_ONCE] for at in range(0, len(names), NAMES_AT_ONCE))
