"""Replay a controller's journal: pass its events to a fresh core, under its own settings and on its own nodes.

It is found by a place, a site file of any kind, or its file. A journal in a file is copied first, so a controller may
run meanwhile; one in a database must not be in use.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec

from cohabit.app.scenario.typed_toml import read_toml
from cohabit.app.serve.closed_folders import closed_at
from cohabit.app.serve.deciding import verify_own
from cohabit.app.steer import deciding as steered
from cohabit.app.steer.switch import read_part
from cohabit.live.controller.backup import copy_of
from cohabit.live.controller.journal import Journal, open_journal
from cohabit.live.controller.place import find_journal, is_there, only_one, open_place
from cohabit.live.controller.recovery import Verified


class _Steered(msgspec.Struct, frozen=True):
    """What is needed of a site file for a resource manager; other keys are ignored."""

    place: str = "state"


def is_live(path: Path) -> bool:
    """Return whether this is a controller's place, its site file or its journal."""
    if path.is_dir():
        return is_there(find_journal(path))
    if path.suffix == ".toml":
        return True
    try:
        with open(path, "rb") as stream:
            return stream.read(15) == b"SQLite format 3"
    except OSError:
        return False


def journal_of(path: Path) -> tuple[Path, Path | str]:
    """Return the place and the journal of a site file, a place or a journal's file."""
    if path.suffix != ".toml":
        return (path.parent, path) if path.is_file() else (path, find_journal(path))
    if word := next((one for one in steered.MANAGERS if one in read_toml(path)), ""):
        place = path.parent.absolute() / read_part(path, _Steered, f"docs/{word}.md").place
        return place, find_journal(place)
    from cohabit.app.serve.site_file import read_site

    config = read_site(path).config
    return config.place, config.find_journal()


def replay_live(path: Path) -> Verified:
    """Compare the commands of a fresh core with the recorded ones."""
    place, where = journal_of(path)
    if isinstance(where, str):
        return _replayed(open_journal(where))
    if _is_closed_to_its_account(where):
        with only_one(open_place(place)):  # a copy is made as that account
            return _replayed(open_journal(where))
    with tempfile.TemporaryDirectory(prefix="cohabit-replay-") as folder:
        return _replayed(open_journal(copy_of(where, Path(folder))))


def _is_closed_to_its_account(file: Path) -> bool:
    """Return whether only root reaches this journal by its path: its controller may have a way of its own."""
    if os.geteuid() != 0 or not is_there(file):
        return False
    owner = file.parent.stat()
    return owner.st_uid != 0 and closed_at(file.parent, owner.st_uid, (owner.st_gid,)) is not None


def _replayed(journal: Journal) -> Verified:
    try:
        word = steered.steered_by(journal)
        return steered.verify_own(journal, word) if word else verify_own(journal)
    finally:
        journal.close()
