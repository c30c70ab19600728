"""The journal: every batch of events before the core is told, checkpoints of the core, what jobs execute, and a record
of every job.

SQLite (write-ahead log, every commit on the disk before it returns) or PostgreSQL by URL. It has one writer and one
connection; the controller calls it from one thread, and lists are read over a separate connection. Commands and records
follow from the events: they are written one batch late, in the transaction of the next one, and recovery computes again
what a crash has lost of them. The meta value `records` is the last batch the records include. Events on which the core
raised are marked (`left_out`); recovery and replays skip them.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from cohabit.backend.protocol import Launch
from cohabit.live.controller import records, removal
from cohabit.live.controller.database import connect, said
from cohabit.live.controller.journal_schema import batches as _batches
from cohabit.live.controller.journal_schema import checkpoints as _checkpoints
from cohabit.live.controller.journal_schema import get, migrate, put
from cohabit.live.controller.journal_schema import jobs as _jobs
from cohabit.live.controller.journal_schema import left_out as _left_out
from cohabit.live.controller.journal_schema import meta as _meta
from cohabit.live.controller.journal_schema import records as _records
from cohabit.live.controller.journal_schema import removed as _removed
from cohabit.live.controller.journal_schema import stretches as _stretches
from cohabit.live.controller.records import Record
from cohabit.live.controller.refusals import NotWritable
from cohabit.live.controller.reserve import Reserve, room_inside
from cohabit.model import codec
from cohabit.model.command import Command
from cohabit.model.errors import InputError
from cohabit.model.event import Event

RECORDED = "records"
# Made once: to make a statement costs more than to execute it.
_ADD_BATCH, _ADD_JOBS = sa.insert(_batches), sa.insert(_jobs)
_NOTE_ORDERS = (
    sa.update(_batches).where(_batches.c.seq == sa.bindparam("batch")).values(commands=sa.bindparam("content"))
)
_LAUNCH_OF = sa.select(_jobs.c.job_id, _jobs.c.launch).where(
    sa.or_(_jobs.c.job_id == sa.bindparam("job"), _jobs.c.job_id == sa.bindparam("array"))
)
log = logging.getLogger(__name__)
T = TypeVar("T")


class Batch(NamedTuple):
    """Events the core was told at one instant, and the commands that followed where they are known."""

    seq: int
    now_us: int
    events: bytes
    commands: bytes | None


class Checkpoint(NamedTuple):
    """The core after a batch."""

    seq: int
    now_us: int
    core: bytes
    pending: bytes


class Ended(NamedTuple):
    """A stretch of batches that were told under earlier settings."""

    seq: int  # the last of them
    settings: str


class LeftOut(NamedTuple):
    """An event on which the core raised: its place in its batch, the event in words, and the exception."""

    place: int
    about: str
    why: str
    job: str = ""  # of a submission: its name is free again


ONE_BY_ONE = LeftOut(-1, "", "the core raised on the whole batch; its events are told one by one")


class JournalError(NotWritable):
    """The journal cannot be written or read (now); the text says why."""


class _Owed:
    """Results of written batches that are not written themselves yet."""

    def __init__(self) -> None:
        self.seq = 0  # the last batch it includes; 0: nothing is owed
        self.commands: dict[int, bytes] = {}
        self.records: dict[str, Record] = {}
        self.left_out: dict[tuple[int, int], LeftOut] = {}

    def write(self, connection: sa.Connection) -> None:
        """Write it in a transaction of the caller, which drops this object only when that is durable."""
        if not self.seq:
            return
        if self.commands:
            orders = [{"batch": seq, "content": content} for seq, content in self.commands.items()]
            connection.execute(_NOTE_ORDERS, orders)
        records.write(connection, self.records.values())
        for (seq, place), one in self.left_out.items():
            connection.execute(sa.delete(_left_out).where((_left_out.c.seq == seq) & (_left_out.c.place == place)))
            row = {"seq": seq, "place": place, "about": one.about, "why": one.why}
            connection.execute(sa.insert(_left_out), row)
            if one.job and not records.some(connection, [one.job]):
                connection.execute(sa.delete(_jobs).where(_jobs.c.job_id == one.job))
        put(connection, {RECORDED: str(self.seq)})


class Journal:
    """An open journal."""

    def __init__(self, url: sa.URL, where: str) -> None:
        self.where, self.url = where, url
        self._engine = connect(url, only_one=True)
        try:
            self._connection = self._engine.connect()
            with self._connection.begin():
                migrate(self._connection, where)
            self.next_seq = self._newest() + 1
        except DBAPIError as error:
            self._engine.dispose()
            raise InputError(f"cannot be used as a journal: {said(error)}", where) from error
        self._owed = _Owed()
        self._doubtful: tuple[int, bytes, list[str]] | None = None  # a batch whose write failed
        self._reading: sa.Engine | None = None
        self._room_level = logging.WARNING

    @property
    def file(self) -> Path | None:
        """The file of the journal; None: a server keeps it."""
        found = self.url.database if self.url.get_backend_name() == "sqlite" else None
        return None if found is None else Path(found)

    def keep_room(self) -> None:
        """Keep room on the disk, for when it is full; a server manages its own."""
        if self.file is not None:
            try:
                room_inside(self._sqlite(), self.file)
            except (sqlite3.Error, OSError, DBAPIError) as error:
                log.log(self._room_level, "%s: no space is reserved for a full disk: %s", self.where, error)
                self._room_level = logging.DEBUG  # logged once

    def _sqlite(self) -> sqlite3.Connection:
        inner = self._connection.connection.driver_connection
        assert isinstance(inner, sqlite3.Connection)
        return inner

    def shrink(self, pages: int | None = None) -> bool:
        """Give free pages of an SQLite file back to the disk, at most this many; return whether there are more. None:
        all, by writing the file anew, for a journal that no controller uses."""
        if self.file is None:
            return False
        try:
            return removal.shrink(self._sqlite(), pages)
        except (sqlite3.Error, DBAPIError) as error:
            raise JournalError(f"the journal cannot be made smaller: {error}", self.where) from error

    def close(self) -> None:
        """Write what is still owed if that is possible, and close the connections."""
        try:
            self.flush()
        finally:
            self._connection.close()
            self._engine.dispose()
            if self._reading is not None:
                self._reading.dispose()

    @contextmanager
    def _transaction(self, trouble: str) -> Iterator[None]:
        """Do all or nothing; raise database errors as ours, except that a row exists already."""
        try:
            with self._connection.begin():
                yield
        except IntegrityError:
            raise
        except DBAPIError as error:
            raise JournalError(f"{trouble}: {said(error)}", self.where) from error
        except InputError as error:  # a new connection found another writer
            raise JournalError(f"{trouble}: {error.what}", self.where, error.fix) from error

    def read(self, question: Callable[[sa.Connection], T]) -> T:
        """Read over the writer's connection; what is owed is missing."""
        with self._transaction("the journal cannot be read"):
            return question(self._connection)

    # ---- settings ---------------------------------------------------------------------------------------------------

    def get(self, key: str) -> str | None:
        """Return a setting kept beside the journal."""
        return self.read(lambda connection: get(connection, key))

    def put(self, values: Mapping[str, str]) -> None:
        """Keep settings, all or none."""
        with self._transaction("the journal cannot be written"):
            put(self._connection, values)

    # ---- facts ------------------------------------------------------------------------------------------------------

    def append(self, now_us: int, events: Sequence[Event], launches: Mapping[str, Launch]) -> int:
        """Make a batch durable, with what its jobs execute; return its number."""
        self._undo_doubtful()
        seq, content = self.next_seq, codec.encode(events)
        self._doubtful = (seq, content, list(launches))
        try:
            with self._transaction("the journal cannot be written"):
                self._owed.write(self._connection)
                row = {"seq": seq, "now_us": now_us, "events": content}
                self._connection.execute(_ADD_BATCH, row)
                if launches:
                    rows = [{"job_id": name, "launch": msgspec.msgpack.encode(one)} for name, one in launches.items()]
                    self._connection.execute(_ADD_JOBS, rows)
        except IntegrityError as error:
            if not self._is_there(seq, content):  # a commit that failed may have taken place all the same
                raise JournalError(f"another process writes to the journal: {said(error)}") from error
        self.next_seq, self._owed, self._doubtful = seq + 1, _Owed(), None
        return seq

    def _undo_doubtful(self) -> None:
        """Remove the batch of a failed commit, which may have taken place all the same; nothing followed from it."""
        if self._doubtful is not None:
            seq, content, names = self._doubtful
            with self._transaction("the journal cannot be written"):
                mine = (_batches.c.seq == seq) & (_batches.c.events == content)
                if self._connection.execute(sa.delete(_batches).where(mine)).rowcount:
                    self._connection.execute(sa.delete(_jobs).where(_jobs.c.job_id.in_(names)))
            self._doubtful = None

    def _is_there(self, seq: int, content: bytes) -> bool:
        query = sa.select(_batches.c.events).where(_batches.c.seq == seq)
        return bool(self.read(lambda connection: connection.execute(query).scalar()) == content)

    def note(
        self, seq: int, commands: Sequence[Command] | None, changed: Iterable[Record], left_out: Iterable[LeftOut] = ()
    ) -> None:
        """Keep what followed from a batch; it is written with the next one. No commands: they are known already."""
        content = None if commands is None else codec.encode(commands)
        self._owed.seq = max(self._owed.seq, seq)
        if content is not None:
            self._owed.commands[seq] = content
        self._owed.records.update((one.job_id, one) for one in changed)
        self._owed.left_out.update(((seq, one.place), one) for one in left_out)

    def left_out(self) -> dict[int, dict[int, LeftOut]]:
        """Return by batch and place what is left out; a batch that is named is told event by event."""
        found: dict[int, dict[int, LeftOut]] = {}
        with self._transaction("the journal cannot be read"):
            for row in self._connection.execute(sa.select(_left_out).order_by(_left_out.c.seq, _left_out.c.place)):
                found.setdefault(row.seq, {})[row.place] = LeftOut(row.place, row.about, row.why)
        for (seq, place), one in self._owed.left_out.items():
            found.setdefault(seq, {})[place] = one
        return found

    def flush(self) -> None:
        """Write what is owed now, for readers of lists."""
        if not self._owed.seq:
            return
        with self._transaction("the journal cannot be written"):
            self._owed.write(self._connection)
        self._owed = _Owed()

    def change(self, work: Callable[[sa.Connection], T]) -> T:
        """Do this in a separate transaction, after all that is owed."""
        with self._transaction("the journal cannot be written"):
            self._owed.write(self._connection)
            found = work(self._connection)
        self._owed = _Owed()
        return found

    def batches(self, after: int) -> Generator[Batch]:
        """Yield all batches after this one, in order."""
        query = sa.select(_batches).where(_batches.c.seq > after).order_by(_batches.c.seq)
        with self._transaction("the journal cannot be read"):
            for row in self._connection.execute(query):
                yield Batch(row.seq, row.now_us, row.events, row.commands)

    # ---- jobs -------------------------------------------------------------------------------------------------------

    def launch_of(self, job_id: str) -> Launch | None:
        """Return what a job executes; for a member of an array, what the array executes."""
        array = job_id.rpartition("_")[0]
        rows = self.read(lambda connection: connection.execute(_LAUNCH_OF, {"job": job_id, "array": array}).all())
        found = {row.job_id: row.launch for row in rows}
        content = found.get(job_id, found.get(array))
        return None if content is None else msgspec.msgpack.decode(content, type=Launch)

    def known_jobs(self, names: Sequence[str]) -> set[str]:
        """Return which of these names were ever used, by a job, an array or a member of one."""
        self._undo_doubtful()
        found = self.read(lambda one: records.known(one, names) | removal.used_before(one, names))
        return found | {name for name in names if name in self._owed.records}

    def records_of(self, names: Sequence[str]) -> dict[str, Record]:
        """Return the records of these jobs, as far as they are known."""
        owed = self._owed.records
        found = self.read(lambda one: records.some(one, [name for name in names if name not in owed]))
        return found | {name: owed[name] for name in names if name in owed}

    def removed(self, name: str) -> removal.Gone | None:
        """Return what is known of a job that has no record because retention removed it. A number that retention has
        passed counts as removed also if it has a record."""
        return self.read(lambda connection: removal.find_gone(connection, name))

    @property
    def recorded(self) -> int:
        """The last batch the records include."""
        return int(self.get(RECORDED) or 0)

    def reader(self) -> sa.Engine:
        """Return a separate connection for readers of lists, so that the writer does not wait for them."""
        if self._reading is None:
            self._reading = connect(self.url, only_one=False)
        return self._reading

    def begin_anew(self, *settings: str) -> bool:
        """Drop batches, checkpoints and these settings; return False, and drop nothing, if a job was ever taken."""
        with self._transaction("the journal cannot be begun anew"):
            one = self._connection
            if any(one.execute(sa.select(table).limit(1)).first() for table in (_jobs, _records, _removed)):
                return False
            for table in (_batches, _checkpoints, _left_out, _stretches):
                one.execute(sa.delete(table))
            one.execute(sa.delete(_meta).where(_meta.c.key.in_((RECORDED, *settings))))
        self.next_seq, self._owed = 1, _Owed()
        return True

    # ---- checkpoints ------------------------------------------------------------------------------------------------

    def checkpoint(self, kept: Checkpoint) -> None:
        """Keep the core's state. Retention removes what lies before it (live/controller/removal.py)."""
        with self._transaction("a checkpoint cannot be written"):
            self._owed.write(self._connection)
            self._connection.execute(sa.insert(_checkpoints), kept._asdict())
        self._owed = _Owed()

    def go_on_under(self, kept: Checkpoint, ended: str, settings: Mapping[str, str]) -> None:
        """End a stretch: all or none of the core that goes on, the settings it goes on under, and those so far."""
        with self._transaction("other settings cannot be written"):
            one = self._connection
            self._owed.write(one)
            one.execute(sa.delete(_checkpoints).where(_checkpoints.c.seq == kept.seq))
            one.execute(sa.insert(_checkpoints), kept._asdict())
            if one.execute(sa.select(_stretches).where(_stretches.c.seq == kept.seq)).first() is None:
                one.execute(sa.insert(_stretches), {"seq": kept.seq, "settings": ended})
            put(one, settings)
        self._owed = _Owed()

    def ended_stretches(self) -> list[Ended]:
        """Return the stretches under earlier settings of which batches are kept, in order."""
        query = sa.select(_stretches).order_by(_stretches.c.seq)
        return self.read(lambda one: [Ended(row.seq, row.settings) for row in one.execute(query)])

    def newest_checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint at which recovery begins."""
        return self._checkpoint(_checkpoints.c.seq.desc())

    def oldest_checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint at which a replay of all that is kept begins; None: at the first batch ever."""
        first = self.read(lambda one: one.execute(sa.select(sa.func.min(_batches.c.seq))).scalar())
        return None if first == 1 else self._checkpoint(_checkpoints.c.seq)

    def _checkpoint(self, order: Any) -> Checkpoint | None:
        row = self.read(lambda one: one.execute(sa.select(_checkpoints).order_by(order).limit(1)).first())
        return None if row is None else Checkpoint(row.seq, row.now_us, row.core, row.pending)

    def _newest(self) -> int:
        newest = [sa.select(sa.func.max(table.c.seq)) for table in (_batches, _checkpoints)]
        return self.read(lambda one: max(one.execute(query).scalar() or 0 for query in newest))


def open_journal(where: Path | str) -> Journal:
    """Open a journal in a file (created if missing) or, by a URL, in a database."""
    if isinstance(where, str) and "://" in where:
        url = url_of(where)
        return Journal(url, url.render_as_string(hide_password=True))
    path = Path(where)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {(error.strerror or str(error)).lower()}", str(path.parent)) from error
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise InputError("cannot be written: it is read-only for this user", str(path), "choose another place")
    url = sa.URL.create("sqlite", database=str(path))
    try:
        return Journal(url, str(path))
    except InputError:
        if not Reserve(path).give_all():  # a full disk has no room to open it
            raise
        return Journal(url, str(path))


def url_of(text: str) -> sa.URL:
    """Return a database's URL; a plain postgresql:// means the driver we bring."""
    try:
        url = sa.make_url(text)
    except sa.exc.ArgumentError as error:
        raise InputError("is not the URL of a database", text, "give postgresql://USER@HOST/NAME") from error
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.drivername not in ("sqlite", "postgresql+psycopg"):
        raise InputError(f"databases of kind {url.drivername} cannot keep a journal", text, "use SQLite or PostgreSQL")
    return url
