"""Room for a full disk: kept, given back in slices, made again; and a journal that needs none of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cohabit.backend.protocol import Launch
from cohabit.launcher.runs import RunFolder
from cohabit.live.controller.journal import JournalError, open_journal
from cohabit.live.controller.reserve import PART, SLICES, Reserve
from cohabit.model.errors import InputError
from cohabit.model.event import JobFinished, Woken

SIZE = 40 << 20
pytestmark = pytest.mark.system


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 40 MiB."""
    made = tmp_path / "disk"
    made.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(made)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs root that may mount")
    yield made
    subprocess.run(["umount", "--lazy", str(made)], check=True)


def left(disk: Path) -> int:
    there = os.statvfs(disk)
    return there.f_bavail * there.f_frsize


def fill(disk: Path) -> Path:
    """Until nothing more fits; again, what has become free since."""
    with open(disk / "filler", "ab", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(4096))
        except OSError:
            return disk / "filler"


def test_it_is_kept_given_back_and_made_again(disk: Path) -> None:
    reserve = Reserve(disk / "journal.db")
    assert (reserve.kept(), reserve.give(), reserve.shortage()) == (0, False, "")
    reserve.tend()
    assert reserve.kept() == SIZE // PART
    assert reserve.path is not None
    assert reserve.path.stat().st_blocks * 512 >= SIZE // PART
    assert reserve.path.stat().st_mode & 0o077 == 0
    assert not reserve.give()  # the disk is not full
    filler = fill(disk)
    assert "is full" in reserve.shortage()
    given = 0
    while reserve.give():
        given += 1
        assert left(disk) > 0
        fill(disk)
    assert (given, reserve.kept()) == (SLICES, 0)
    reserve.tend()
    assert reserve.kept() == 0
    filler.unlink()
    reserve.tend()
    assert reserve.kept() == SIZE // PART


def test_half_of_it_is_for_those_who_ask(disk: Path) -> None:
    reserve = Reserve(disk / "journal.db")
    reserve.tend()
    fill(disk)
    for _ in range(20):
        reserve.tend()
        fill(disk)
    assert reserve.kept() == SIZE // PART // 2
    assert reserve.give()


def test_a_journal_in_a_server_has_none() -> None:
    reserve = Reserve(None)
    reserve.tend()
    assert (reserve.shortage(), reserve.kept(), reserve.give()) == ("", 0, False)


@pytest.mark.parametrize("kept", [True, False])
def test_a_journal_with_room_inside_is_written_on_a_full_disk(disk: Path, kept: bool) -> None:
    """Many more batches than its log holds, while somebody takes every block that becomes free."""
    journal = open_journal(disk / "journal.db")
    journal.append(1, [Woken()], {"a": Launch(("/bin/true",))})
    if kept:
        journal.keep_room()
        journal.keep_room()  # it is there already
    fill(disk)
    facts = [JobFinished("a", 1, "failed", 1, None, "x" * 200)]

    def write() -> None:
        for number in range(400):
            journal.append(2 + number, facts, {})
            journal.note(journal.next_seq - 1, [], [])
            fill(disk)

    if kept:
        write()
        assert len(list(journal.batches(0))) == 401
    else:
        with pytest.raises(JournalError, match="full"):
            write()
    (disk / "filler").unlink()
    journal.close()


def test_a_journal_is_opened_on_a_full_disk(disk: Path) -> None:
    where = disk / "journal.db"
    open_journal(where).close()
    Reserve(where).tend()
    fill(disk)
    journal = open_journal(where)
    journal.append(1, [Woken()], {})
    journal.close()
    for file in disk.glob("*.reserve"):
        file.unlink()
    fill(disk)
    with pytest.raises(InputError, match=r"full|I/O error"):
        open_journal(where).append(2, [Woken()], {})


def test_the_end_of_a_run_is_recorded_on_a_full_disk(disk: Path) -> None:
    """An order to stop comes as a signal there (tests/attack/test_requests.py)."""
    folder = RunFolder(disk, "a", 1)
    assert folder.create({"user": None}, None)
    fill(disk)
    folder.record_end({"why": "cancelled", "fault": "", "status": None})
    assert folder.ended() == {"why": "cancelled", "fault": "", "status": None}
    with pytest.raises(OSError, match="No space"):
        folder.set_fuse(1)
