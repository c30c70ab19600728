"""Older stores become today's in one transaction; newer ones are refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from cohabit.model.curve import Curve
from cohabit.model.errors import InputError
from cohabit.model.profile import Profile, ScaleProfile
from cohabit.store import schema
from cohabit.store.profiles import _engine, _url, open_store

# A store as version 1 wrote it, statement by statement: what is on disks out there, whatever the code says today.
VERSION_1 = """
CREATE TABLE cohabit_meta (key VARCHAR(40) NOT NULL PRIMARY KEY, value BIGINT NOT NULL);
INSERT INTO cohabit_meta VALUES ('schema', 1), ('generation', 7);
CREATE TABLE cohabit_profiles (id INTEGER NOT NULL PRIMARY KEY, program TEXT NOT NULL, processes BIGINT NOT NULL,
  hardware TEXT NOT NULL, single_node BOOLEAN NOT NULL, provenance TEXT NOT NULL,
  UNIQUE (program, processes, hardware));
CREATE TABLE cohabit_scales (profile_id INTEGER NOT NULL REFERENCES cohabit_profiles (id), scale BIGINT NOT NULL,
  time_s DOUBLE PRECISION NOT NULL, time_variance DOUBLE PRECISION NOT NULL, samples BIGINT NOT NULL,
  measured_at_us BIGINT NOT NULL, ipc TEXT, bandwidth_gbs TEXT, counters TEXT NOT NULL,
  PRIMARY KEY (profile_id, scale));
INSERT INTO cohabit_profiles VALUES (1, 'MG', 16, '28c-20w', 'f', 'measured'), (2, 'GAN', 16, '', 't', 'imported');
INSERT INTO cohabit_scales VALUES
  (1, 1, 97.5, 2.25, 4, 1700000000000000, '{"ways":[2,20],"values":[0.6,0.75]}', NULL, '{"misses":3.5}'),
  (1, 2, 79.5, 0, 1, 0, NULL, NULL, '{}');
"""
MG = Profile(
    "MG", 16,
    (
        ScaleProfile(1, 97.5, Curve((2, 20), (0.6, 0.75)), counters={"misses": 3.5}, samples=4, time_variance=2.25,
                     measured_at_us=1_700_000_000_000_000),
        ScaleProfile(2, 79.5),
    ),
    hardware="28c-20w",
)  # fmt: skip
GAN = Profile("GAN", 16, single_node=True, provenance="imported")


def write_version_1(place: str) -> None:
    if "://" not in place:
        with sqlite3.connect(place) as connection:
            script = VERSION_1.replace("'f'", "0").replace("'t'", "1").replace("DOUBLE PRECISION", "DOUBLE")
            connection.executescript(script)
        connection.close()
        return
    engine = _engine(_url(place))
    with engine.begin() as connection:
        for statement in VERSION_1.replace("id INTEGER NOT NULL PRIMARY", "id BIGSERIAL PRIMARY").split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
        connection.exec_driver_sql("SELECT setval('cohabit_profiles_id_seq', 2)")
    engine.dispose()


def columns(engine: sa.Engine) -> dict[str, dict[str, tuple[str, bool]]]:
    inspector = sa.inspect(engine)
    return {
        name: {
            column["name"]: (str(column["type"]), bool(column["nullable"])) for column in inspector.get_columns(name)
        }
        for name in sorted(inspector.get_table_names())
    }


def test_a_store_of_version_1_is_migrated_with_all_it_holds(place: str) -> None:
    write_version_1(place)
    with open_store(place) as store:
        assert store.profiles() == [GAN, MG]
        assert [sample.measured for sample in store.history("MG")] == list(MG.scales)
        assert [sample.provenance for sample in store.history("MG")] == ["measured"] * 2
        store.put(Profile("MG", 16, (ScaleProfile(1, 99.0, miss_rate=Curve((2, 20), (3.0, 1.0)), communication=0.1),),
                          hardware="28c-20w"))  # fmt: skip
        store.put(Profile("new", 1))
    with open_store(place) as store:
        known = store.get("MG")
        assert known is not None
        one = known.at_scale(1)
        assert one is not None
        assert (one.samples, one.communication) == (5, 0.1)
        assert len(store.history("MG", scale=1)) == 2
        with store._talking() as connection, connection.begin():
            assert schema.version_of(connection) == schema.VERSION == 4


def test_what_was_known_before_there_were_owners_is_shared(place: str) -> None:
    write_version_1(place)
    with open_store(place) as store:
        assert {one.owner for one in store.profiles()} == {""}
        own = store.put(Profile("MG", 16, (ScaleProfile(1, 5.0),), hardware="28c-20w", owner="1001"))
        assert store.profiles("MG") == [MG, own], "the same program, processes and hardware, of another owner"
        assert [sample.measured for sample in store.history("MG")] == [*MG.scales, *own.scales]
        with pytest.raises(InputError, match=r"(?i)unique"), store._writing() as (connection, _):
            connection.execute(sa.insert(schema.profiles).values(
                program="MG", processes=16, hardware="28c-20w", single_node=False, provenance="", owner="1001"
            ))  # fmt: skip


def test_a_migrated_store_has_the_tables_of_a_fresh_one(place: str, tmp_path: Path) -> None:
    """And both have the columns that the code uses."""
    write_version_1(place)
    with open_store(place) as store:
        migrated = columns(store._engine)
    code = {name: {column.name for column in table.columns} for name, table in schema.today.tables.items()}
    assert {name: set(found) for name, found in migrated.items()} == code
    if "://" not in place:
        with open_store(tmp_path / "fresh.db") as fresh:
            assert columns(fresh._engine) == migrated


def test_a_migration_that_fails_leaves_the_old_store(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_version_1(place)

    def half_way(connection: sa.Connection) -> None:
        schema._version_2(connection)
        connection.exec_driver_sql("INSERT INTO no_such_table VALUES (1)")

    monkeypatch.setattr(schema, "STEPS", (schema._version_1, half_way))
    with pytest.raises(InputError, match="no_such_table"):
        open_store(place)
    monkeypatch.undo()
    with open_store(place) as store:
        assert store.profiles() == [GAN, MG]


def test_a_store_from_the_future_is_refused_and_left_alone(place: str) -> None:
    open_store(place).close()
    engine = _engine(_url(place) if "://" in place else sa.URL.create("sqlite", database=place))
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE cohabit_meta SET value = 5 WHERE key = 'schema'")
    with pytest.raises(InputError, match="schema version 5, this cohabit knows versions up to 4"):
        open_store(place)
    with engine.begin() as connection:
        assert schema.version_of(connection) == 5
    engine.dispose()


def test_every_step_leads_to_its_own_version(tmp_path: Path) -> None:
    for upto in range(1, schema.VERSION + 1):
        engine = _engine(sa.URL.create("sqlite", database=str(tmp_path / f"{upto}.db")))
        with engine.begin() as connection:
            schema.migrate(connection, "here", upto)
            assert schema.version_of(connection) == upto
        with open_store(tmp_path / f"{upto}.db") as store:
            assert store.profiles() == []
        engine.dispose()
