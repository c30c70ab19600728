"""The tables of a controller's journal and the migration of older ones: numbered steps (store/versions.py).

What a step cannot compute from the tables alone (the records of jobs in a checkpoint) is added when the controller
restores its core.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from cohabit.store.versions import Step, Versioned

META, BATCHES, CHECKPOINTS, JOBS, RECORDS, LEFT_OUT, REMOVED, STRETCHES = (
    "cohabit_live", "cohabit_batches", "cohabit_checkpoints", "cohabit_jobs", "cohabit_records", "cohabit_left_out",
    "cohabit_removed", "cohabit_stretches",
)  # fmt: skip
LIVING = "cohabit_records_living"
_number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

today = sa.MetaData()
meta = sa.Table(META, today, sa.Column("key", sa.String(40), primary_key=True), sa.Column("value", sa.Text))
_PUT = sa.text(
    f"INSERT INTO {META} (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
batches = sa.Table(
    BATCHES, today,
    sa.Column("seq", _number, primary_key=True, autoincrement=False),
    sa.Column("now_us", sa.BigInteger, nullable=False),
    sa.Column("events", sa.LargeBinary, nullable=False),
    sa.Column("commands", sa.LargeBinary),  # None: not written yet
)  # fmt: skip
checkpoints = sa.Table(
    CHECKPOINTS, today,
    sa.Column("seq", _number, primary_key=True, autoincrement=False),  # the last batch it includes
    sa.Column("now_us", sa.BigInteger, nullable=False),
    sa.Column("core", sa.LargeBinary, nullable=False),
    sa.Column("pending", sa.LargeBinary, nullable=False),  # commands given and not known to be carried out
)  # fmt: skip
jobs = sa.Table(
    JOBS, today,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("launch", sa.LargeBinary, nullable=False),  # without its environment if the job is over
)  # fmt: skip
records = sa.Table(  # from version 2 on: one row per job ever taken
    RECORDS, today,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("ordinal", sa.BigInteger, nullable=False, unique=True),  # in the order they were taken
    sa.Column("owner", sa.BigInteger, nullable=False),
    sa.Column("phase", sa.SmallInteger, nullable=False),  # 0 waits, 1 runs, 2 is over
    sa.Column("members", sa.BigInteger, nullable=False),  # more than 0: an array of this many jobs
    sa.Column("ended_us", sa.BigInteger, index=True),
    sa.Column("content", sa.LargeBinary, nullable=False),  # a Record (live/controller/records.py) as msgpack
    sa.Index("cohabit_records_owner", "owner", "ordinal"),
)  # fmt: skip
sa.Index(
    LIVING, records.c.phase, records.c.ordinal, sqlite_where=records.c.phase < 2, postgresql_where=records.c.phase < 2
)

left_out = sa.Table(  # from version 3 on: events of a batch on which the core raised; such a batch is told one by one
    LEFT_OUT, today,
    sa.Column("seq", _number, primary_key=True, autoincrement=False),
    sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),  # in its batch; -1: the batch itself
    sa.Column("about", sa.Text, nullable=False),  # the event in words
    sa.Column("why", sa.Text, nullable=False),  # what the core raised
)  # fmt: skip
removed = sa.Table(  # from version 4 on: names of jobs whose records retention removed; they are not used again
    REMOVED, today,
    sa.Column("job_id", sa.Text, primary_key=True),
    sa.Column("owner", sa.BigInteger, nullable=False),
    sa.Column("array_first", sa.BigInteger, nullable=False),
    sa.Column("members", sa.BigInteger, nullable=False),  # more than 0: it was an array of this many jobs
)  # fmt: skip
stretches = sa.Table(  # from version 5 on: batches told under earlier settings; those of now are in META
    STRETCHES, today,
    sa.Column("seq", _number, primary_key=True, autoincrement=False),  # the last batch under these settings
    sa.Column("settings", sa.Text, nullable=False),
)  # fmt: skip


def _version_1(connection: sa.Connection) -> None:
    """Create the tables of batches, checkpoints and what jobs execute."""
    for statement in (
        f"CREATE TABLE {BATCHES} (seq %(long)s NOT NULL PRIMARY KEY, now_us BIGINT NOT NULL, "
        "events %(bytes)s NOT NULL, commands %(bytes)s)",
        f"CREATE TABLE {CHECKPOINTS} (seq %(long)s NOT NULL PRIMARY KEY, now_us BIGINT NOT NULL, "
        "core %(bytes)s NOT NULL, pending %(bytes)s NOT NULL)",
        f"CREATE TABLE {JOBS} (job_id TEXT NOT NULL PRIMARY KEY, launch %(bytes)s NOT NULL)",
    ):
        _create(connection, statement)


def _version_2(connection: sa.Connection) -> None:
    """Create the table of job records."""
    for statement in (
        f"CREATE TABLE {RECORDS} (job_id TEXT NOT NULL PRIMARY KEY, ordinal BIGINT NOT NULL UNIQUE, "
        "owner BIGINT NOT NULL, phase SMALLINT NOT NULL, members BIGINT NOT NULL, ended_us BIGINT, "
        "content %(bytes)s NOT NULL)",
        f"CREATE INDEX cohabit_records_owner ON {RECORDS} (owner, ordinal)",
        f"CREATE INDEX ix_cohabit_records_ended_us ON {RECORDS} (ended_us)",
        f"CREATE INDEX {LIVING} ON {RECORDS} (phase, ordinal) WHERE phase < 2",
    ):
        _create(connection, statement)


def _version_3(connection: sa.Connection) -> None:
    """Create the table of events that are left out."""
    _create(
        connection,
        f"CREATE TABLE {LEFT_OUT} (seq %(long)s NOT NULL, place INTEGER NOT NULL, about TEXT NOT NULL, "
        "why TEXT NOT NULL, PRIMARY KEY (seq, place))",
    )


def _version_4(connection: sa.Connection) -> None:
    """Create the table of names of jobs whose records were removed."""
    _create(
        connection,
        f"CREATE TABLE {REMOVED} (job_id TEXT NOT NULL PRIMARY KEY, owner BIGINT NOT NULL, "
        "array_first BIGINT NOT NULL, members BIGINT NOT NULL)",
    )


def _version_5(connection: sa.Connection) -> None:
    """Create the table of stretches under earlier settings."""
    _create(connection, f"CREATE TABLE {STRETCHES} (seq %(long)s NOT NULL PRIMARY KEY, settings TEXT NOT NULL)")


def _create(connection: sa.Connection, statement: str) -> None:
    """Create a table in the dialect of the database."""
    sqlite = connection.dialect.name == "sqlite"
    words = {"long": "INTEGER" if sqlite else "BIGINT", "bytes": "BLOB" if sqlite else "BYTEA"}
    connection.exec_driver_sql(statement % words)


STEPS: tuple[Step, ...] = (_version_1, _version_2, _version_3, _version_4, _version_5)
VERSION = len(STEPS)
_VERSIONED = Versioned("journal", meta, "version", lock=0x636F686C)


def migrate(connection: sa.Connection, where: str, upto: int = VERSION) -> None:
    """Bring the journal to this version inside the connection's transaction; refuse one from the future."""
    _VERSIONED.migrate(connection, STEPS, upto, where)


def version_of(connection: sa.Connection) -> int:
    """Return the schema version of a journal, 0 where there is none yet."""
    return _VERSIONED.version(connection)


def get(connection: sa.Connection, key: str) -> str | None:
    """Return a setting kept beside the journal."""
    found = connection.execute(sa.select(meta.c.value).where(meta.c.key == key)).scalar()
    return None if found is None else str(found)


def put(connection: sa.Connection, values: Mapping[str, str]) -> None:
    """Keep settings."""
    connection.execute(_PUT, [{"key": key, "value": value} for key, value in values.items()])
