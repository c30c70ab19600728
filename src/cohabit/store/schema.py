"""The tables of the profile store and how older ones become today's: numbered steps (store/versions.py)."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from cohabit.model.curve import Curve
from cohabit.model.profile import ScaleProfile
from cohabit.store.versions import Step, Versioned

META, PROFILES, SCALES, SAMPLES = "cohabit_meta", "cohabit_profiles", "cohabit_scales", "cohabit_samples"
CO_RUNS = "cohabit_co_runs"
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # only INTEGER counts up by itself in SQLite

today = sa.MetaData()
meta = sa.Table(
    META, today, sa.Column("key", sa.String(40), primary_key=True), sa.Column("value", sa.BigInteger, nullable=False)
)
profiles = sa.Table(
    PROFILES, today,
    sa.Column("id", _NUMBER, primary_key=True),
    sa.Column("program", sa.Text, nullable=False),
    sa.Column("processes", sa.BigInteger, nullable=False),
    sa.Column("hardware", sa.Text, nullable=False),
    sa.Column("single_node", sa.Boolean, nullable=False),
    sa.Column("provenance", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),  # from version 3 on; empty: shared
    sa.UniqueConstraint("owner", "program", "processes", "hardware"),
)  # fmt: skip
scales = sa.Table(
    SCALES, today,
    sa.Column("profile_id", _NUMBER, sa.ForeignKey(f"{PROFILES}.id"), primary_key=True),
    sa.Column("scale", sa.BigInteger, primary_key=True),
    sa.Column("time_s", sa.Double, nullable=False),
    sa.Column("time_variance", sa.Double, nullable=False),
    sa.Column("samples", sa.BigInteger, nullable=False),
    sa.Column("measured_at_us", sa.BigInteger, nullable=False),
    sa.Column("ipc", sa.Text),  # curves and counters as JSON
    sa.Column("bandwidth_gbs", sa.Text),
    sa.Column("counters", sa.Text, nullable=False),
    sa.Column("miss_rate", sa.Text),  # from version 2 on
    sa.Column("communication", sa.Double, nullable=False),  # from version 2 on
)  # fmt: skip
samples = sa.Table(  # from version 2 on: every measurement as it came
    SAMPLES, today,
    sa.Column("id", _NUMBER, primary_key=True),
    sa.Column("profile_id", _NUMBER, sa.ForeignKey(f"{PROFILES}.id"), nullable=False, index=True),
    sa.Column("scale", sa.BigInteger, nullable=False),
    sa.Column("provenance", sa.Text, nullable=False),
    sa.Column("measured_at_us", sa.BigInteger, nullable=False),
    sa.Column("measured", sa.Text, nullable=False),  # a ScaleProfile as JSON
)  # fmt: skip

co_runs = sa.Table(  # from version 4 on: runs beside others (store/co_runs.py)
    CO_RUNS, today,
    sa.Column("id", _NUMBER, primary_key=True),
    sa.Column("program", sa.Text, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("beside", sa.Text, nullable=False),  # names as a JSON list
    sa.Column("hardware", sa.Text, nullable=False),
    sa.Column("percent", sa.Double, nullable=False),
    sa.Column("measured_at_us", sa.BigInteger, nullable=False),
    sa.Index("ix_cohabit_co_runs_pair", "program", "owner"),
)  # fmt: skip


def _version_1(connection: sa.Connection) -> None:
    """Profiles and their scales."""
    then = sa.MetaData()
    sa.Table(
        PROFILES,
        then,
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("program", sa.Text, nullable=False),
        sa.Column("processes", sa.BigInteger, nullable=False),
        sa.Column("hardware", sa.Text, nullable=False),
        sa.Column("single_node", sa.Boolean, nullable=False),
        sa.Column("provenance", sa.Text, nullable=False),
        sa.UniqueConstraint("program", "processes", "hardware"),
    )
    sa.Table(
        SCALES,
        then,
        sa.Column("profile_id", _NUMBER, sa.ForeignKey(f"{PROFILES}.id"), primary_key=True),
        sa.Column("scale", sa.BigInteger, primary_key=True),
        sa.Column("time_s", sa.Double, nullable=False),
        sa.Column("time_variance", sa.Double, nullable=False),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("measured_at_us", sa.BigInteger, nullable=False),
        sa.Column("ipc", sa.Text),
        sa.Column("bandwidth_gbs", sa.Text),
        sa.Column("counters", sa.Text, nullable=False),
    )
    then.create_all(connection)


def _version_2(connection: sa.Connection) -> None:
    """Miss rate, communication, and the history of samples; what was known becomes the first sample."""
    connection.exec_driver_sql(f"ALTER TABLE {SCALES} ADD COLUMN miss_rate TEXT")
    connection.exec_driver_sql(f"ALTER TABLE {SCALES} ADD COLUMN communication DOUBLE PRECISION NOT NULL DEFAULT -1")
    then = sa.MetaData()
    parents = sa.Table(PROFILES, then, sa.Column("id", _NUMBER, primary_key=True), sa.Column("provenance", sa.Text))
    history = sa.Table(
        SAMPLES,
        then,
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("profile_id", _NUMBER, sa.ForeignKey(f"{PROFILES}.id"), nullable=False, index=True),
        sa.Column("scale", sa.BigInteger, nullable=False),
        sa.Column("provenance", sa.Text, nullable=False),
        sa.Column("measured_at_us", sa.BigInteger, nullable=False),
        sa.Column("measured", sa.Text, nullable=False),
    )
    history.create(connection)
    names = ("profile_id", "scale", "time_s", "time_variance", "samples", "measured_at_us", "ipc", "bandwidth_gbs")
    old = sa.table(SCALES, *(sa.column(name) for name in (*names, "counters")))
    known = sa.select(old, parents.c.provenance).join_from(old, parents, old.c.profile_id == parents.c.id)
    for row in connection.execute(known.order_by(old.c.profile_id, old.c.scale)).all():
        measured = ScaleProfile(
            scale=row.scale,
            time_s=row.time_s,
            time_variance=row.time_variance,
            samples=row.samples,
            measured_at_us=row.measured_at_us,
            ipc=curve_of(row.ipc),
            bandwidth_gbs=curve_of(row.bandwidth_gbs),
            counters=msgspec.json.decode(row.counters, type=dict[str, float]),
        )
        connection.execute(
            sa.insert(history).values(
                profile_id=row.profile_id,
                scale=row.scale,
                provenance=row.provenance,
                measured_at_us=row.measured_at_us,
                measured=text_of(measured),
            )
        )


def _version_3(connection: sa.Connection) -> None:
    """Profiles have owners; what was known is shared. SQLite cannot change a constraint, so tables are made again."""
    if connection.dialect.name != "sqlite":
        connection.exec_driver_sql(f"ALTER TABLE {PROFILES} ADD COLUMN owner TEXT NOT NULL DEFAULT ''")
        connection.exec_driver_sql(f"ALTER TABLE {PROFILES} ALTER COLUMN owner DROP DEFAULT")
        for one in sa.inspect(connection).get_unique_constraints(PROFILES):
            connection.exec_driver_sql(f'ALTER TABLE {PROFILES} DROP CONSTRAINT "{one["name"]}"')
        connection.exec_driver_sql(f"ALTER TABLE {PROFILES} ADD UNIQUE (owner, program, processes, hardware)")
        return
    tables = {
        PROFILES: ("id", "program", "processes", "hardware", "single_node", "provenance"),
        SCALES: _SCALES_3,
        SAMPLES: ("id", "profile_id", "scale", "provenance", "measured_at_us", "measured"),
    }
    connection.exec_driver_sql(f"DROP INDEX IF EXISTS ix_{SAMPLES}_profile_id")
    for table in tables:
        connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO old_{table}")
    for statement in _SQLITE_3:
        connection.exec_driver_sql(statement)
    for table, names in tables.items():
        listed = ", ".join(names)
        owner, empty = (", owner", ", ''") if table == PROFILES else ("", "")
        connection.exec_driver_sql(
            f"INSERT INTO {table} ({listed}{owner}) SELECT {listed}{empty} FROM old_{table} ORDER BY rowid"
        )
    for table in reversed(tables):
        connection.exec_driver_sql(f"DROP TABLE old_{table}")


def _version_4(connection: sa.Connection) -> None:
    """Runs beside others."""
    then = sa.MetaData()
    sa.Table(
        CO_RUNS,
        then,
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("program", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("beside", sa.Text, nullable=False),
        sa.Column("hardware", sa.Text, nullable=False),
        sa.Column("percent", sa.Double, nullable=False),
        sa.Column("measured_at_us", sa.BigInteger, nullable=False),
        sa.Index("ix_cohabit_co_runs_pair", "program", "owner"),
    )
    then.create_all(connection)


_SCALES_3 = (
    "profile_id", "scale", "time_s", "time_variance", "samples", "measured_at_us", "ipc", "bandwidth_gbs", "counters",
    "miss_rate", "communication",
)  # fmt: skip
_SQLITE_3 = (
    f"""CREATE TABLE {PROFILES} (id INTEGER NOT NULL, program TEXT NOT NULL, processes BIGINT NOT NULL,
        hardware TEXT NOT NULL, single_node BOOLEAN NOT NULL, provenance TEXT NOT NULL, owner TEXT NOT NULL,
        PRIMARY KEY (id), UNIQUE (owner, program, processes, hardware))""",
    f"""CREATE TABLE {SCALES} (profile_id INTEGER NOT NULL REFERENCES {PROFILES} (id), scale BIGINT NOT NULL,
        time_s DOUBLE NOT NULL, time_variance DOUBLE NOT NULL, samples BIGINT NOT NULL,
        measured_at_us BIGINT NOT NULL, ipc TEXT, bandwidth_gbs TEXT, counters TEXT NOT NULL, miss_rate TEXT,
        communication DOUBLE PRECISION NOT NULL DEFAULT -1, PRIMARY KEY (profile_id, scale))""",
    f"""CREATE TABLE {SAMPLES} (id INTEGER NOT NULL, profile_id INTEGER NOT NULL REFERENCES {PROFILES} (id),
        scale BIGINT NOT NULL, provenance TEXT NOT NULL, measured_at_us BIGINT NOT NULL, measured TEXT NOT NULL,
        PRIMARY KEY (id))""",
    f"CREATE INDEX ix_{SAMPLES}_profile_id ON {SAMPLES} (profile_id)",
)
STEPS: tuple[Step, ...] = (_version_1, _version_2, _version_3, _version_4)
VERSION = len(STEPS)
_VERSIONED = Versioned("store", meta, "schema", lock=0x636F6861)


def migrate(connection: sa.Connection, where: str, upto: int = VERSION) -> None:
    """Bring the store to this version inside the connection's transaction; refuse a newer one."""
    if _VERSIONED.migrate(connection, STEPS, upto, where) == 0:
        connection.execute(sa.delete(meta).where(meta.c.key == "generation"))
        connection.execute(sa.insert(meta).values(key="generation", value=0))


def version_of(connection: sa.Connection) -> int:
    """Return the schema version of a store, 0 if there is none yet."""
    return _VERSIONED.version(connection)


def text_of(value: Curve | ScaleProfile | dict[str, float]) -> str:
    """Return a value as JSON."""
    return msgspec.json.encode(value).decode()


def curve_of(text: str | None) -> Curve | None:
    """Return a curve from its column."""
    return None if text is None else msgspec.json.decode(text, type=Curve)
