"""The place on disk: its modes, an old one moved after any interruption, a private folder handed to another account."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from cohabit.app.client import connection as client_connection
from cohabit.app.client.connection import find_server
from cohabit.live.controller import place_moving
from cohabit.live.controller.backup import back_up, bring_back
from cohabit.live.controller.place import KEPT, LOCK, Place, as_owner, find_journal, only_one, open_place
from cohabit.live.controller.place_moving import move_whole
from cohabit.model.errors import InputError

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
SOMEBODY = 54321


def old_place(folder: Path) -> dict[str, bytes]:
    """A place of an earlier version, with a journal that has most of its content in the write-ahead log."""
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "journal.db")) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE kept (number)")
        writer.execute("INSERT INTO kept VALUES (7)")
        writer.commit()
        for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
            shutil.copy(folder / name, folder / f"{name}.copy")
    for name in ("journal.db", "journal.db-wal", "journal.db-shm"):
        (folder / f"{name}.copy").rename(folder / name)
    for name in ("tokens.json", "audit.jsonl", "kept_back.log", LOCK):
        (folder / name).write_text(name)
    (folder / ".tokens.json.123.part").write_text("a draft")
    (folder / "site.toml").write_text("")
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name in KEPT}


def check_moved(place: Place, before: dict[str, bytes]) -> None:
    """All of it is there, once, and closed."""
    assert {path.name: path.read_bytes() for path in place.private.iterdir()} == before
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.private.iterdir()} == {0o600}
    assert [path.name for path in place.root.iterdir() if path.name not in ("private", "site.toml")] == []
    with closing(sqlite3.connect(place.journal)) as reader:
        assert reader.execute("SELECT number FROM kept").fetchall() == [(7,)]


def test_an_old_place_is_moved(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = old_place(tmp_path / "place")
    assert find_journal(tmp_path / "place") == tmp_path / "place" / "journal.db"
    check_moved(open_place(tmp_path / "place"), before)
    assert len(caplog.messages) == 1
    assert find_journal(tmp_path / "place") == Place(tmp_path / "place").journal
    open_place(tmp_path / "place")
    assert len(caplog.messages) == 1  # nothing is left to be moved


@pytest.mark.parametrize("after", range(8))
def test_a_move_that_was_killed_is_gone_on_with(tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    before, left, move = old_place(tmp_path / "place"), [after], place_moving._move

    def killed(*arguments: object) -> None:
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        move(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(place_moving, "_move", killed)
        if after < len(before):
            with pytest.raises(Killed):
                open_place(tmp_path / "place")
    if 0 < after < 3:
        with pytest.raises(InputError, match="not moved in whole"):
            find_journal(tmp_path / "place")
    check_moved(open_place(tmp_path / "place"), before)


def test_a_journal_in_both_forms_is_left_alone(tmp_path: Path) -> None:
    old_place(tmp_path / "place")
    place = open_place(tmp_path / "place")
    place.old_journal.write_bytes(b"of an older version, started later")
    with pytest.raises(InputError, match=r"is there, and .*private/journal.db, too"):
        open_place(place.root)
    place.old_journal.unlink()
    (place.root / LOCK).unlink()
    with only_one(place):
        (place.root / LOCK).touch()
        open_place(place.root)
        with pytest.raises(InputError, match="another controller uses this folder"):
            only_one(place)  # the lock that is held was not replaced


@ROOT
def test_private_is_handed_to_another_account_and_back(tmp_path: Path) -> None:
    old_place(tmp_path / "place")
    place = open_place(tmp_path / "place", SOMEBODY, SOMEBODY)
    assert {path.stat().st_uid for path in (place.private, *place.private.iterdir())} == {SOMEBODY}
    assert vars(open_place(place.root)) == vars(place)
    assert place.private.stat().st_uid == SOMEBODY  # nobody asked for another
    with only_one(place), pytest.raises(InputError, match="another controller uses this folder"):
        open_place(place.root, 0, 0)
    place.tokens.unlink()
    place.tokens.symlink_to("/etc/passwd")
    with pytest.raises(InputError, match="is not a plain file"):
        open_place(place.root, 0, 0)
    place.tokens.unlink()
    open_place(place.root, 0, 0)
    assert {path.stat().st_uid for path in (place.private, *place.private.iterdir())} == {0}


@ROOT
def test_root_copies_journals_of_another_account_as_that_account(tmp_path: Path) -> None:
    from cohabit.live.controller.journal import open_journal

    for folder in (tmp_path, *tmp_path.parents):
        if folder != Path("/tmp") and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    place = open_place(tmp_path / "place", SOMEBODY, SOMEBODY)
    with as_owner(place.private):
        assert os.geteuid() == SOMEBODY
        open_journal(place.journal).close()
    assert os.geteuid() == 0
    back_up(place.journal, tmp_path / "copy.db")
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    target = tmp_path / "of-root"
    target.write_text("as it was")
    draft = place.private / f".journal.db.{os.getpid()}.part"
    draft.symlink_to(target)
    bring_back(tmp_path / "copy.db", place.journal, replace=True)
    assert target.read_text() == "as it was"
    assert {path.stat().st_uid for path in place.private.iterdir()} == {SOMEBODY}
    assert {path.name for path in place.private.iterdir()} >= {"journal.db", "journal.db.replaced"}


def test_the_old_default_place_of_root_is_moved_whole(tmp_path: Path) -> None:
    old, new = tmp_path / "home" / "cohabit", tmp_path / "lib" / "cohabit"
    assert not move_whole(old, new)
    old_place(old)
    run = old / "runs" / "5.1"
    run.mkdir(parents=True)
    with pytest.raises(InputError, match="1 runs are not over"):
        move_whole(old, new)
    run.rmdir()
    with only_one(open_place(old)), pytest.raises(InputError, match="another controller uses this folder"):
        move_whole(old, new)
    assert move_whole(old, new)
    assert not old.exists()
    assert find_journal(new).exists()
    old_place(old)
    assert not move_whole(old, new)  # the new one is in use


def test_verbs_find_ones_own_scheduler_first_then_the_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, own = tmp_path / "lib", tmp_path / "state"
    monkeypatch.setattr(client_connection, "MACHINE", str(machine))
    monkeypatch.setenv("XDG_STATE_HOME", str(own))
    monkeypatch.delenv("COHABIT_SERVER", raising=False)
    expected = Place(own / "cohabit").socket
    assert find_server(None).path == str(expected)
    machine.mkdir()
    Place(machine).socket.touch()
    assert find_server(None).path == str(Place(machine).socket)
    expected.parent.mkdir(parents=True)
    expected.touch()
    assert find_server(None).path == str(expected)
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert client_connection.default_place() == str(machine)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert client_connection.default_place() == str(tmp_path / ".local" / "state" / "cohabit")
