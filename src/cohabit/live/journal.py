"""What must survive: every batch of facts before the core is told, checkpoints of the core, and what jobs execute.

SQLite (write-ahead log, every commit on the disk before it returns), through SQLAlchemy so that another database is a
matter of its URL. One writer, one connection; the controller calls it from one thread. Orders are kept beside the facts
they followed from, one batch late and for comparison only: recovery computes them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from cohabit.backend.protocol import Launch
from cohabit.model import codec
from cohabit.model.command import Command
from cohabit.model.errors import InputError
from cohabit.model.event import Event

VERSION = "1"
BUSY_S = 10.0
_number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_tables = sa.MetaData()
_meta = sa.Table(
    "cohabit_live", _tables, sa.Column("key", sa.String(40), primary_key=True), sa.Column("value", sa.Text)
)
_batches = sa.Table(
    "cohabit_batches", _tables,
    sa.Column("seq", _number, primary_key=True, autoincrement=False),
    sa.Column("now_us", sa.BigInteger, nullable=False),
    sa.Column("events", sa.LargeBinary, nullable=False),
    sa.Column("commands", sa.LargeBinary),  # None: not written down yet
)  # fmt: skip
_checkpoints = sa.Table(
    "cohabit_checkpoints", _tables,
    sa.Column("seq", _number, primary_key=True, autoincrement=False),  # the last batch it includes
    sa.Column("now_us", sa.BigInteger, nullable=False),
    sa.Column("core", sa.LargeBinary, nullable=False),
    sa.Column("pending", sa.LargeBinary, nullable=False),  # orders given and not known to be carried out
)  # fmt: skip
_jobs = sa.Table(
    "cohabit_jobs", _tables,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("launch", sa.LargeBinary, nullable=False),
)  # fmt: skip


class Batch(NamedTuple):
    """Facts the core was told at one instant, and the orders that followed where they are known."""

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


class JournalError(Exception):
    """The journal cannot be written (now); the text says why."""


class Journal:
    """An open journal."""

    def __init__(self, url: sa.URL, where: str) -> None:
        self.where = where
        self._engine = _engine(url)
        try:
            _tables.create_all(self._engine)
            self._connection = self._engine.connect()
            version = self.get("version")
            if version is None:
                self.put({"version": VERSION})
            elif version != VERSION:
                raise InputError(f"is a journal of version {version}, not {VERSION}", where)
            self.next_seq = self._newest() + 1
        except DBAPIError as error:
            raise InputError(f"cannot be used as a journal: {_said(error)}", where) from error
        self._commands: tuple[int, bytes] | None = None

    def close(self) -> None:
        """Write down what is still owed, and let go."""
        if self._commands is not None:
            with self._connection.begin():
                self._write_commands()
        self._connection.close()
        self._engine.dispose()

    # ---- settings ---------------------------------------------------------------------------------------------------

    def get(self, key: str) -> str | None:
        """A setting kept beside the journal."""
        with self._connection.begin():
            found = self._connection.execute(sa.select(_meta.c.value).where(_meta.c.key == key)).scalar()
        return None if found is None else str(found)

    def put(self, values: Mapping[str, str]) -> None:
        """Keep settings, all or none."""
        with self._connection.begin():
            for key, value in values.items():
                self._connection.execute(sa.delete(_meta).where(_meta.c.key == key))
                self._connection.execute(sa.insert(_meta).values(key=key, value=value))

    # ---- facts ------------------------------------------------------------------------------------------------------

    def append(self, now_us: int, events: Sequence[Event], launches: Mapping[str, Launch]) -> int:
        """Make a batch durable, with what its jobs execute; returns its number."""
        seq, content = self.next_seq, codec.encode(events)
        try:
            with self._connection.begin():
                self._write_commands()
                row = {"seq": seq, "now_us": now_us, "events": content}
                self._connection.execute(sa.insert(_batches), row)
                if launches:
                    rows = [{"job_id": name, "launch": msgspec.msgpack.encode(one)} for name, one in launches.items()]
                    self._connection.execute(sa.insert(_jobs), rows)
        except IntegrityError as error:
            if not self._is_there(seq, content):  # a commit that failed may have taken place all the same
                raise JournalError(f"the journal is written by somebody else: {_said(error)}") from error
        except DBAPIError as error:
            raise JournalError(f"the journal cannot be written: {_said(error)}") from error
        self.next_seq, self._commands = seq + 1, None
        return seq

    def _is_there(self, seq: int, content: bytes) -> bool:
        with self._connection.begin():
            query = sa.select(_batches.c.events).where(_batches.c.seq == seq)
            return bool(self._connection.execute(query).scalar() == content)

    def note_commands(self, seq: int, commands: Sequence[Command]) -> None:
        """What followed from a batch; written with the next one."""
        self._commands = (seq, codec.encode(commands))

    def _write_commands(self) -> None:
        if self._commands is not None:
            seq, content = self._commands
            self._connection.execute(sa.update(_batches).where(_batches.c.seq == seq).values(commands=content))

    def batches(self, after: int) -> Iterator[Batch]:
        """All batches behind this one, in order."""
        query = sa.select(_batches).where(_batches.c.seq > after).order_by(_batches.c.seq)
        with self._connection.begin():
            for row in self._connection.execute(query):
                yield Batch(row.seq, row.now_us, row.events, row.commands)

    # ---- jobs -------------------------------------------------------------------------------------------------------

    def launch_of(self, job_id: str) -> Launch | None:
        """What a job executes; of a member of an array what the array does."""
        names = [job_id, job_id.rpartition("_")[0]]
        with self._connection.begin():
            query = sa.select(_jobs.c.job_id, _jobs.c.launch).where(_jobs.c.job_id.in_(names))
            found = {row.job_id: row.launch for row in self._connection.execute(query)}
        content = found.get(job_id, found.get(names[1]))
        return None if content is None else msgspec.msgpack.decode(content, type=Launch)

    def known_jobs(self, names: Sequence[str]) -> set[str]:
        """Which of these names were ever used."""
        with self._connection.begin():
            return set(self._connection.execute(sa.select(_jobs.c.job_id).where(_jobs.c.job_id.in_(names))).scalars())

    # ---- checkpoints ------------------------------------------------------------------------------------------------

    def checkpoint(self, kept: Checkpoint) -> None:
        """Keep the core's state; batches before the checkpoint that was newest until now are not needed any more."""
        try:
            with self._connection.begin():
                self._write_commands()
                before = self._connection.execute(sa.select(sa.func.max(_checkpoints.c.seq))).scalar() or 0
                self._connection.execute(sa.delete(_checkpoints).where(_checkpoints.c.seq < before))
                self._connection.execute(sa.delete(_batches).where(_batches.c.seq <= before))
                self._connection.execute(sa.insert(_checkpoints), kept._asdict())
        except DBAPIError as error:
            raise JournalError(f"a checkpoint cannot be written: {_said(error)}") from error
        self._commands = None

    def newest_checkpoint(self) -> Checkpoint | None:
        """Where recovery begins."""
        return self._checkpoint(_checkpoints.c.seq.desc())

    def oldest_checkpoint(self) -> Checkpoint | None:
        """Where a replay of all that is kept begins; None: with the first batch ever."""
        with self._connection.begin():
            first = self._connection.execute(sa.select(sa.func.min(_batches.c.seq))).scalar()
        return None if first == 1 else self._checkpoint(_checkpoints.c.seq)

    def _checkpoint(self, order: Any) -> Checkpoint | None:
        with self._connection.begin():
            row = self._connection.execute(sa.select(_checkpoints).order_by(order).limit(1)).first()
        return None if row is None else Checkpoint(row.seq, row.now_us, row.core, row.pending)

    def _newest(self) -> int:
        with self._connection.begin():
            of_batches = self._connection.execute(sa.select(sa.func.max(_batches.c.seq))).scalar()
            of_checkpoints = self._connection.execute(sa.select(sa.func.max(_checkpoints.c.seq))).scalar()
        return max(of_batches or 0, of_checkpoints or 0)


def open_journal(path: Path) -> Journal:
    """A journal in a file, made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return Journal(sa.URL.create("sqlite", database=str(path)), str(path))


def _engine(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_S, "check_same_thread": False})

    @sa.event.listens_for(engine, "connect")
    def _plain(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # sqlite3 would begin transactions late, and none for tables
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def _said(error: DBAPIError) -> str:
    said = str(error.orig).strip().splitlines()
    return said[0] if said else "the database gives no reason"
