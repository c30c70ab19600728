"""Back up a journal into one file while its controller runs, and restore such a file while it does not.

The file is a journal in SQLite, whatever database it came from. A copy is complete or does not exist. Runs, outputs and
tokens are not in it: what ran between the backup and a restore is found in the place's runs, or counts as lost. A copy
has the environments of all users' jobs, as the journal has: only its owner may read it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from cohabit.live.controller import journal_schema
from cohabit.live.controller.database import connect, said
from cohabit.live.controller.journal import url_of
from cohabit.live.controller.journal_schema import VERSION, batches, jobs, records, today, version_of
from cohabit.live.controller.place import as_owner, is_there
from cohabit.model.errors import InputError

PAGES = 2_000  # copied at once; a controller that writes meanwhile is not delayed
ROWS = 1_000
Advance = Callable[[int, int], None]


class Copied(NamedTuple):
    """The contents of a copy."""

    version: int
    jobs: int
    batches: int


def back_up(journal: Path | str, file: Path, advance: Advance | None = None) -> Copied:
    """Copy a journal into a new file."""
    if file.exists():
        raise InputError("is there already", str(file), "choose another name, or remove it")
    with _draft_of(file) as draft:
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(journal, Path):
            _copy_file(journal, draft, advance)
        else:
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            _copy_tables(connect(url_of(journal), only_one=False), _of_file(draft), advance)
        found = look_at(draft)
        os.replace(draft, file)
    return found


def bring_back(file: Path, journal: Path | str, replace: bool, advance: Advance | None = None) -> Copied:
    """Make a copy the journal again; an existing journal is refused, or with `replace` kept beside it."""
    found = look_at(file)
    if isinstance(journal, str):
        _into_database(file, url_of(journal), replace, advance)
        return found
    if journal.exists():
        if not replace:
            raise InputError("there is a journal already", str(journal), "say --replace to put it aside")
        _copy_file(journal, journal.with_name(f"{journal.name}.replaced"), None)
    with _draft_of(journal) as draft:
        _copy_file(file, draft, advance)
        with as_owner(journal.parent):
            for ending in ("-wal", "-shm"):  # of the old journal: SQLite would use them for the new one
                journal.with_name(journal.name + ending).unlink(missing_ok=True)
            os.replace(draft, journal)
    return found


@contextmanager
def _draft_of(file: Path) -> Iterator[Path]:
    """Yield the path of a draft beside a file; it is removed at the end."""
    draft = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        yield draft
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be written: {reason}", str(file), "choose a folder you may write to") from error
    finally:
        with as_owner(draft.parent):
            _remove(draft)


def copy_of(journal: Path, folder: Path) -> Path:
    """Copy a journal as it is now, to be read and thrown away."""
    copy = folder / "journal.db"
    _copy_file(journal, copy, None)
    return copy


def look_at(file: Path) -> Copied:
    """Check that a file is a complete journal this version can read."""
    if not file.is_file():
        raise InputError("there is no such file", str(file))
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(file)))
    try:
        with engine.connect() as connection:
            health = connection.exec_driver_sql("PRAGMA quick_check").scalar()
            version = version_of(connection)
            if health != "ok":
                raise InputError(f"is damaged: {health}", str(file), "use another backup")
            if not 0 < version <= VERSION:
                raise InputError(f"is not a journal of a version up to {VERSION}", str(file))
            names = records if version > 1 else jobs
            taken, told = (_count(connection, one) for one in (names, batches))
    except DBAPIError as error:
        raise InputError(f"is not a backup: {said(error)}", str(file)) from error
    finally:
        engine.dispose()
    return Copied(version, taken, told)


def _count(connection: sa.Connection, table: sa.Table) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar() or 0


# ---- SQLite to SQLite -----------------------------------------------------------------------------------------------


def _copy_file(source: Path, target: Path, advance: Advance | None) -> None:
    """Copy page by page; pages that change meanwhile are copied again, so the copy is of one instant."""
    if not is_there(source):
        raise InputError("there is no journal", str(source), "name the folder a controller has served from")

    def tell(_: int, left: int, total: int) -> None:
        if advance is not None:
            advance(total - left, total)

    with ExitStack() as doing:
        try:
            with as_owner(source.parent):
                one = doing.enter_context(closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)))
                one.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # opens all its files
            doing.enter_context(as_owner(target.parent))
            _remove(target)
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # files beside it get this mode
            other = doing.enter_context(closing(sqlite3.connect(target)))
            one.backup(other, pages=PAGES, progress=tell, sleep=0.01)
            other.execute("PRAGMA journal_mode = DELETE")  # one file, nothing beside it
            with open(target, "rb") as stream:
                os.fsync(stream.fileno())
        except sqlite3.Error as error:
            _remove(target)
            raise _cannot_be_copied(source, error) from error


def _cannot_be_copied(source: Path, error: sqlite3.Error) -> InputError:
    if not os.access(source, os.R_OK):
        return InputError("you may not read it", str(source), "do this as its owner, or as root")
    return InputError(f"cannot be copied: {error}", str(source))


def _remove(draft: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        draft.with_name(draft.name + ending).unlink(missing_ok=True)


# ---- from and to another database -----------------------------------------------------------------------------------


def _of_file(path: Path) -> sa.Engine:
    return connect(sa.URL.create("sqlite", database=str(path)), only_one=False)


def _into_database(file: Path, url: sa.URL, replace: bool, advance: Advance | None) -> None:
    engine = connect(url, only_one=True)
    try:
        with engine.begin() as connection:
            if version_of(connection):
                if not replace:
                    raise InputError("there is a journal already", url.render_as_string(), "say --replace to drop it")
                today.drop_all(connection)
        _copy_tables(_of_file(file), engine, advance)
    except DBAPIError as error:
        raise InputError(f"cannot be restored: {said(error)}", url.render_as_string()) from error
    finally:
        engine.dispose()


def _copy_tables(source: sa.Engine, target: sa.Engine, advance: Advance | None) -> None:
    """Copy row by row, read as of one instant and written as one transaction."""
    try:
        with source.connect() as reading, target.begin() as writing:
            if source.dialect.name == "postgresql":
                reading = reading.execution_options(isolation_level="REPEATABLE READ")
            with reading.begin():
                version = version_of(reading)
                journal_schema.migrate(writing, str(target.url.database), upto=version)
                writing.execute(sa.delete(journal_schema.meta))
                there = [one for one in today.sorted_tables if sa.inspect(reading).has_table(one.name)]
                total = sum(_count(reading, one) for one in there)
                done = 0
                for table in there:
                    rows = reading.execution_options(yield_per=ROWS).execute(sa.select(table))
                    for portion in rows.mappings().partitions(ROWS):
                        writing.execute(sa.insert(table), [dict(row) for row in portion])
                        done += len(portion)
                        if advance is not None:
                            advance(done, total)
    except DBAPIError as error:
        raise InputError(f"cannot be copied: {said(error)}", str(source.url.database)) from error
    finally:
        source.dispose()
        if target.dialect.name == "sqlite":
            target.dispose()
