"""Connections to a journal's database: the durability settings of SQLite and PostgreSQL, and the lock of the writer.

Two controllers must never write one journal. A file is guarded by the lock of its place; a PostgreSQL database by an
advisory lock, held by the writing connection for as long as it lives.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from cohabit.model.errors import InputError

BUSY_S = 10.0
_WRITER = 0x636F6877  # the writer's lock


def connect(url: sa.URL, only_one: bool) -> sa.Engine:
    """Return an engine for this database. `only_one`: its connection is the writer's, and a second one is refused."""
    if url.get_backend_name() == "sqlite":
        return _sqlite(url)
    try:
        engine = sa.create_engine(url, pool_size=1, max_overflow=0, connect_args={"connect_timeout": round(BUSY_S)})
    except ModuleNotFoundError as error:
        raise InputError(f"needs {error.name}", url.render_as_string(), "install cohabit[postgres]") from error

    @sa.event.listens_for(engine, "connect")
    def _durable(connection: Any, _: Any) -> None:
        """Have every commit on the disk before it returns, whatever the server's default is."""
        with connection.cursor() as cursor:
            cursor.execute("SHOW synchronous_commit")
            (level,) = cursor.fetchone()
            if level != "remote_apply":  # the only level that guarantees more
                cursor.execute("SET synchronous_commit TO on")
        connection.commit()

    if only_one:

        @sa.event.listens_for(engine, "connect")
        def _claim(connection: Any, _: Any) -> None:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_try_advisory_lock(%s)", (_WRITER,))
                (free,) = cursor.fetchone()
            connection.commit()
            if not free:
                raise InputError("another controller uses this database", url.render_as_string(), "stop it first")

    return engine


def _sqlite(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_S, "check_same_thread": False})

    @sa.event.listens_for(engine, "connect")
    def _plain(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # sqlite3 would begin transactions late, and none for tables
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # a new file can shrink; an old one only by VACUUM
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def said(error: DBAPIError) -> str:
    """Return the error text of a database, on one line."""
    lines = str(error.orig).strip().splitlines()
    return lines[0] if lines else "the database gives no reason"
