"""Where a journal may be: a file always, and a private PostgreSQL server where its programs are installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.store.conftest import postgres_url

__all__ = ["postgres_url"]


@pytest.fixture
def postgres_database(request: pytest.FixtureRequest, postgres_url: str) -> Iterator[str]:
    """The URL of an empty database of this test's own."""
    name = f"j{abs(hash(request.node.nodeid)) % 10**12}"
    engine = sa.create_engine(
        sa.make_url(postgres_url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    yield postgres_url.rpartition("/")[0] + f"/{name}"
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    engine.dispose()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.system)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where a fresh journal may be made, in each kind of database."""
    if request.param == "sqlite":
        return tmp_path / "journal.db"
    url: str = request.getfixturevalue("postgres_database")
    return url
