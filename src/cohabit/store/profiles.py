"""The profile store: what was measured of programs, in SQLite by default or in PostgreSQL by URL.

Profiles are read from a cache in memory (key-value pairs, S18) that notices when another process has written. Writers
queue: a merge is one transaction that reads, merges and writes. SQLAlchemy is imported with this module, so only
commands that use the store should import it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from cohabit.model.errors import InputError
from cohabit.model.merging import merged
from cohabit.model.profile import SHARED, Profile, ScaleProfile
from cohabit.store import co_runs
from cohabit.store.json_form import CoRunSample, Key, check_profile, key_of, write_json
from cohabit.store.learning import rebuilt
from cohabit.store.schema import VERSION, curve_of, meta, migrate, profiles, samples, scales, text_of, version_of

BUSY_S = 30.0  # how long to wait for another writer of a SQLite file
CURVES = ("ipc", "bandwidth_gbs", "miss_rate")  # columns with JSON
POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")


class Sample(NamedTuple):
    """One measurement as it came."""

    key: Key
    provenance: str
    measured: ScaleProfile


def default_path() -> Path:
    """Return the store of this user: $XDG_DATA_HOME/cohabit/profiles.db, else below ~/.local/share."""
    base = os.environ.get("XDG_DATA_HOME", "")
    folder = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "share"
    return folder / "cohabit" / "profiles.db"


def open_store(place: str | Path | None = None, *, create: bool = True) -> ProfileStore:
    """Open a store by path or URL and bring its tables up to date; without `create`, a file must be there."""
    if isinstance(place, str) and "://" in place:
        url = _url(place)
        where = url.render_as_string(hide_password=True)
    else:
        path = default_path() if place is None else Path(place)
        _prepare(path, create)
        url, where = sa.URL.create("sqlite", database=str(path)), str(path)
    return ProfileStore(_engine(url), where)


def empty_store(where: str = "a store in memory") -> ProfileStore:
    """Return a store in memory that ends with the process; `where` is its name in messages."""
    return ProfileStore(_engine(sa.URL.create("sqlite")), where)


class ProfileStore:
    """An open store. Every method is one transaction."""

    def __init__(self, engine: sa.Engine, where: str) -> None:
        self.where = where
        self._engine, self._cache, self._generation = engine, dict[Key, Profile](), -1
        with self._talking() as connection, connection.begin():
            found = version_of(connection)
        if found != VERSION:
            with self._talking(writes=True) as connection, connection.begin():
                migrate(connection, where)

    @property
    def generation(self) -> int:
        """The number of writes to the store, by anybody, up to what this process has read or written last."""
        return self._generation

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def __enter__(self) -> ProfileStore:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def put(self, profile: Profile) -> Profile:
        """Merge new measurements into the profile and keep each as a sample; return the profile."""
        check_profile(profile, self.where)
        with self._writing() as (connection, written):
            known = _load_all(connection, *_fitting(*key_of(profile))).get(key_of(profile))
            both = merged(known, profile) if known else profile
            _keep_samples(connection, _write(connection, both), profile, repeated=True)
            written[key_of(both)] = both
        return both

    def replace(self, given: Iterable[Profile], runs: Iterable[CoRunSample] = ()) -> int:
        """Replace the profiles with the same keys, and the runs of the same pairs, by these; all of them or none."""
        count = 0
        with self._writing() as (connection, written):
            for profile in given:
                check_profile(profile, self.where)
                _keep_samples(connection, _write(connection, profile), profile, repeated=False)
                written[key_of(profile)] = profile
                count += 1
            co_runs.replace(connection, runs)
        return count

    def get(
        self, program: str, processes: int | None = None, hardware: str | None = None, owner: str | None = None
    ) -> Profile | None:
        """Return the profile of a program; if several fit, the one measured last, then the one of fewest processes."""
        found = self.profiles(program, processes, hardware, owner)
        return max(found, key=lambda one: (measured_at_us(one), -one.processes), default=None)

    def profiles(
        self,
        program: str | None = None,
        processes: int | None = None,
        hardware: str | None = None,
        owner: str | None = None,
    ) -> list[Profile]:
        """Return all matching profiles by program, processes, hardware and owner; the owner of shared ones is empty."""
        wanted = (program, processes, hardware, owner)
        fitting = (key for key in self.cached() if all(w is None or w == k for w, k in zip(wanted, key, strict=True)))
        return [self._cache[key] for key in sorted(fitting)]

    def cached(self) -> dict[Key, Profile]:
        """Return all profiles as key-value pairs in memory; read again only after a write."""
        with self._talking() as connection, connection.begin():
            generation = _generation(connection)
            if generation != self._generation:
                self._cache, self._generation = _load_all(connection), generation
        return self._cache

    def history(
        self, program: str, processes: int | None = None, hardware: str | None = None, scale: int | None = None
    ) -> list[Sample]:
        """Return every measurement of a program in order of arrival."""
        key = (profiles.c.program, profiles.c.processes, profiles.c.hardware, profiles.c.owner)
        query = sa.select(samples, *key).join_from(samples, profiles)
        query = query.where(*_fitting(program, processes, hardware))
        if scale is not None:
            query = query.where(samples.c.scale == scale)
        with self._talking() as connection, connection.begin():
            rows = connection.execute(query.order_by(samples.c.id)).all()
        return [Sample(_key(row), row.provenance, msgspec.json.decode(row.measured, type=ScaleProfile)) for row in rows]

    def delete(
        self, program: str, processes: int | None = None, hardware: str | None = None, owner: str | None = None
    ) -> int:
        """Delete a program with its samples and co-runs; return how many profiles were deleted."""
        with self._writing() as (connection, written):
            if processes is None and hardware is None:
                co_runs.forget(connection, program, owner)
            gone = _delete(connection, _fitting(program, processes, hardware, owner))
            written.update(dict.fromkeys(gone))
        return len(gone)

    def forget_since(self, program: str, since_us: int, owner: str | None = None) -> int:
        """Drop what was measured of a program from an instant on: profiles become what the earlier measurements made
        them, or are deleted with the last of them; return how many measurements and co-runs were dropped."""
        with self._writing() as (connection, written):
            dropped = co_runs.forget(connection, program, owner, since_us)
            for row in connection.execute(sa.select(profiles).where(*_fitting(program, None, None, owner))).all():
                of_row = samples.c.profile_id == row.id
                found = connection.execute(sa.select(samples).where(of_row).order_by(samples.c.id)).all()
                early = [one for one in found if one.measured_at_us < since_us]
                if len(early) == len(found):
                    continue
                dropped += len(found) - len(early)
                key = _key(row)
                if not early:
                    _delete(connection, _fitting(*key))
                    written[key] = None
                    continue
                late = [one.id for one in found if one.measured_at_us >= since_us]
                connection.execute(sa.delete(samples).where(samples.c.id.in_(late)))
                empty = Profile(key.program, key.processes, (), bool(row.single_node), key.hardware, owner=key.owner)
                measured = [(one.provenance, msgspec.json.decode(one.measured, type=ScaleProfile)) for one in early]
                written[key] = rebuilt(empty, measured)
                _write(connection, rebuilt(empty, measured))
        return dropped

    def add_co_runs(self, found: Iterable[CoRunSample]) -> int:
        """Keep runs beside others; return how many."""
        with self._writing() as (connection, _):
            return co_runs.add(connection, found)

    def co_runs(self) -> list[CoRunSample]:
        """Return all runs beside others, in order of arrival."""
        with self._talking() as connection, connection.begin():
            return co_runs.load(connection)

    def share(self, program: str, owner: str) -> int:
        """Make an owner's profiles shared, replacing those on the same hardware; return how many."""
        with self._writing() as (connection, written):
            found = _load_all(connection, *_fitting(program, None, None, owner)).values()
            copies = [msgspec.structs.replace(one, owner=SHARED) for one in found]
            keys = {key_of(one) for one in copies}
            for hardware in sorted({one.hardware for one in copies}):
                old = _load_all(connection, *_fitting(program, None, hardware, SHARED))
                for key in old.keys() - keys:
                    written.update(dict.fromkeys(_delete(connection, _fitting(*key))))
            for one in copies:
                _keep_samples(connection, _write(connection, one), one, repeated=False)
                written[key_of(one)] = one
        return len(copies)

    def export_json(self, path: Path) -> int:
        """Write all profiles (not the samples) and runs beside others as one JSON file; return how many profiles."""
        return write_json(self.cached().values(), path, self.co_runs())

    @contextmanager
    def _writing(self) -> Iterator[tuple[sa.Connection, dict[Key, Profile | None]]]:
        """A transaction that blocks all other writers; what it wrote goes into the cache too."""
        written: dict[Key, Profile | None] = {}
        with self._talking(writes=True) as connection, connection.begin():
            bump = sa.update(meta).where(meta.c.key == "generation").values(value=meta.c.value + 1)
            connection.execute(bump)  # first of all: it locks
            generation = _generation(connection)
            yield connection, written
        if generation != self._generation + 1:
            return  # others have written as well: read everything again at the next access
        self._generation = generation
        cache = self._cache | {key: profile for key, profile in written.items() if profile is not None}
        self._cache = {key: profile for key, profile in cache.items() if written.get(key, profile) is not None}

    @contextmanager
    def _talking(self, writes: bool = False) -> Iterator[sa.Connection]:
        """A connection; an error of the database becomes one sentence."""
        try:
            with self._engine.connect().execution_options(cohabit_writes=writes) as connection:
                yield connection
        except DBAPIError as error:
            said = str(error.orig).strip().splitlines()
            raise InputError(
                f"the profile store cannot be used ({said[0] if said else 'the database gives no reason'})",
                self.where,
                "check that it is there, is a store of profiles and may be written",
            ) from error


def measured_at_us(profile: Profile) -> int:
    """Return when any part of it was measured last; 0: not recorded."""
    return max((one.measured_at_us for one in profile.scales), default=0)


def _url(text: str) -> sa.URL:
    try:
        url = sa.make_url(text)
    except ArgumentError:
        raise InputError("the store is not a URL", "--store", "write postgresql://user@host/database") from None
    if url.drivername in POSTGRESQL:
        return url.set(drivername="postgresql+psycopg")
    if url.drivername == "sqlite":
        if url.database and url.database != ":memory:":
            _prepare(Path(url.database), create=True)
        return url
    raise InputError(
        f"stores in {url.drivername} are not known",
        url.render_as_string(hide_password=True),
        "use a file name or postgresql://user@host/database",
    )


def _prepare(path: Path, create: bool) -> None:
    if not create and not path.exists():
        raise InputError("there is no profile store", str(path), "make one with: cohabit profiles import FILE")
    if path.is_dir():
        raise InputError("is a folder, not a profile store", str(path), "name a file in it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be made: {reason}", str(path), "choose a folder you may write to") from error


def _engine(url: sa.URL) -> sa.Engine:
    if url.drivername != "sqlite":
        try:
            return sa.create_engine(url, connect_args={"connect_timeout": 10})
        except (ImportError, NoSuchModuleError) as error:
            raise InputError(
                f"PostgreSQL needs the package psycopg ({error})",
                url.render_as_string(hide_password=True),
                'install it: pip install "cohabit[postgres]"',
            ) from None
    in_memory = not url.database or url.database == ":memory:"
    options: dict[str, Any] = {"poolclass": sa.StaticPool} if in_memory else {}
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_S, "check_same_thread": False}, **options)

    @sa.event.listens_for(engine, "connect")
    def _plain(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # sqlite3 would begin transactions late, and none for tables
        connection.execute("PRAGMA foreign_keys = ON")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get("cohabit_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _fitting(
    program: str | None, processes: int | None, hardware: str | None, owner: str | None = None
) -> list[sa.ColumnElement[bool]]:
    names = ("program", "processes", "hardware", "owner")
    wanted = zip(names, (program, processes, hardware, owner), strict=True)
    return [profiles.c[name] == value for name, value in wanted if value is not None]


def _key(row: sa.Row[Any]) -> Key:
    return Key(row.program, row.processes, row.hardware, row.owner)


def _delete(connection: sa.Connection, where: list[sa.ColumnElement[bool]]) -> list[Key]:
    """Delete profiles with their scales and samples; return the deleted keys."""
    found = connection.execute(sa.select(profiles).where(*where)).all()
    numbers = [row.id for row in found]
    for table in (samples, scales):
        connection.execute(sa.delete(table).where(table.c.profile_id.in_(numbers)))
    connection.execute(sa.delete(profiles).where(profiles.c.id.in_(numbers)))
    return [_key(row) for row in found]


def _generation(connection: sa.Connection) -> int:
    return int(connection.execute(sa.select(meta.c.value).where(meta.c.key == "generation")).scalar_one())


def _load_all(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> dict[Key, Profile]:
    parts: dict[int, list[ScaleProfile]] = {}
    query = sa.select(scales).join_from(scales, profiles).where(*where).order_by(scales.c.profile_id, scales.c.scale)
    for row in connection.execute(query).all():
        fields = {name: getattr(row, name) for name in ScaleProfile.__struct_fields__}
        fields |= {name: curve_of(fields[name]) for name in CURVES}
        fields["counters"] = msgspec.json.decode(row.counters, type=dict[str, float])
        parts.setdefault(row.profile_id, []).append(ScaleProfile(**fields))
    return {
        _key(row): Profile(
            row.program,
            row.processes,
            tuple(parts.get(row.id, ())),
            bool(row.single_node),
            row.hardware,
            row.provenance,
            row.owner,
        )
        for row in connection.execute(sa.select(profiles).where(*where)).all()
    }


def _write(connection: sa.Connection, profile: Profile) -> int:
    """Replace the profile with this key; return its number."""
    number = connection.execute(sa.select(profiles.c.id).where(*_fitting(*key_of(profile)))).scalar()
    facts = {"single_node": profile.single_node, "provenance": profile.provenance}
    if number is None:
        inserted = connection.execute(sa.insert(profiles).values(**key_of(profile)._asdict(), **facts))
        assert inserted.inserted_primary_key is not None
        number = inserted.inserted_primary_key[0]
    else:
        connection.execute(sa.update(profiles).where(profiles.c.id == number).values(**facts))
        connection.execute(sa.delete(scales).where(scales.c.profile_id == number))
    rows = []
    for one in profile.scales:
        row = msgspec.structs.asdict(one) | {"profile_id": number}
        texts = (name for name in (*CURVES, "counters") if row[name] is not None)
        rows.append(row | {name: text_of(row[name]) for name in texts})
    if rows:
        connection.execute(sa.insert(scales), rows)
    return int(number)


def _keep_samples(connection: sa.Connection, number: int, profile: Profile, repeated: bool) -> None:
    """Add one sample per scale; unless `repeated`, a scale whose last sample is equal is left out."""
    for one in profile.scales:
        measured = text_of(one)
        of_scale = (samples.c.profile_id == number, samples.c.scale == one.scale)
        last = sa.select(samples.c.measured).where(*of_scale).order_by(samples.c.id.desc()).limit(1)
        if not repeated and connection.execute(last).scalar() == measured:
            continue
        connection.execute(
            sa.insert(samples).values(
                profile_id=number,
                scale=one.scale,
                provenance=profile.provenance,
                measured_at_us=one.measured_at_us,
                measured=measured,
            )
        )
