"""A store to test with: SQLite always, and a private PostgreSQL server where its programs are installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_port

MISSING = "PostgreSQL's server is not installed (Debian: apt-get install postgresql, or make system)"


def server_programs() -> Path | None:
    """Where initdb and pg_ctl are; Debian keeps them off the PATH."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def as_owner(command: list[str], folder: Path) -> list[str] | None:
    """The server refuses to run as root: then the user postgres starts it."""
    if os.getuid() != 0:
        return command
    try:
        owner = pwd.getpwnam("postgres")
    except KeyError:
        return None
    os.chown(folder, owner.pw_uid, owner.pw_gid)
    return ["runuser", "-u", "postgres", "--", *command]


def call(command: list[str] | None) -> None:
    """Without a pipe: the server would keep it open."""
    assert command
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            command, cwd="/", stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=120, check=False
        )
        said.seek(0)
        assert done.returncode == 0, said.read().decode()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of an empty database in a server of our own, gone afterwards."""
    pytest.importorskip("psycopg", reason="psycopg is not here; install cohabit[postgres]")
    programs = server_programs()
    if programs is None:
        pytest.skip(MISSING)
    with tempfile.TemporaryDirectory(prefix="cohabit-pg-") as name:
        Path(name).chmod(0o755)
        home = Path(name) / "home"
        home.mkdir()
        data = ["-D", str(home / "data")]
        made = as_owner([str(programs / "initdb"), *data, "-A", "trust", "-U", "cohabit", "-N"], home)
        if made is None:
            pytest.skip("running as root, and there is no user postgres to run the server as")
        call(made)
        port = free_port()
        options = f"-p {port} -k {home} -c listen_addresses=127.0.0.1 -c fsync=off"
        control = [str(programs / "pg_ctl"), *data, "-l", str(home / "log"), "-w"]
        call(as_owner([*control, "-o", options, "start"], home))
        try:
            yield f"postgresql://cohabit@127.0.0.1:{port}/postgres"
        finally:
            call(as_owner([*control, "-m", "fast", "stop"], home))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.system)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a fresh store may be made, in each kind of database."""
    if request.param == "sqlite":
        yield str(tmp_path / "profiles.db")
        return
    import sqlalchemy as sa

    url: str = request.getfixturevalue("postgres_url")
    name = f"t{abs(hash(request.node.nodeid)) % 10**12}"
    engine = sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    yield url.rpartition("/")[0] + f"/{name}"
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    engine.dispose()
