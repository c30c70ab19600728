"""A controller's place on disk: the only module that knows its files and which account may open them.

    PLACE/            belongs to root or to the caller; others reach the socket through it and cannot write to it
    PLACE/site.toml   written by `cohabit up`
    PLACE/cohabit.sock, PLACE/lease
    PLACE/runs, PLACE/output, PLACE/launcher    of the launcher, which is root where root started the controller
    PLACE/private/    mode 0700, of the account the controller runs as: journal, lock, tokens, logs

The files of a place decide which program runs as which user, and the journal has the environments of all users' jobs.
So a place that others could change is refused, and everything that others need not read is in `private`. That includes
the lock: an account that can open a file can lock it. A place of an earlier version, without `private`, is moved once
(place_moving.py).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from cohabit import trusted
from cohabit.live.socket_path import SOCKET
from cohabit.model.errors import InputError

PRIVATE, JOURNAL, LOCK, SITE = "private", "journal.db", "lock", "site.toml"
# In `private`; versions up to 0.1 had them in the place itself. The lock is the last to be moved.
KEPT = (
    f"{JOURNAL}-wal", f"{JOURNAL}-shm", f"{JOURNAL}-journal", JOURNAL, f"{JOURNAL}.replaced", "tokens.json",
    "audit.jsonl", "kept_back.log", "view.json", "mates.json", "threshold.json", "shadow.json", LOCK,
)  # fmt: skip


class Place:
    """The paths of one place. It creates and opens nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.private = root / PRIVATE  # files that only the controller's account opens
        self.journal = self.private / JOURNAL  # in SQLite; a site file may name another database
        self.lock = self.private / LOCK  # held by the one process that uses the place
        self.tokens = self.private / "tokens.json"  # hashes of the tokens of callers over TCP
        self.audit = self.private / "audit.jsonl"  # the log of requested changes and their callers
        self.kept_back = self.private / "kept_back.log"  # jobs that wait for their owner's limit
        self.view = self.private / "view.json"  # the state of a steering controller's core, for `status`
        self.mates = self.private / "mates.json"  # names of jobs with mates, ours and the manager's
        self.threshold = self.private / "threshold.json"  # groups of mates for which the threshold was opened
        self.shadow = self.private / "shadow.json"  # the observations of shadow mode
        self.profiles = self.private / "profiles.db"  # the profile store, unless the site file names another
        self.learned = self.private / "learned.json"  # how far the core and the profile store know of each other
        self.site = root / SITE  # the site file of `cohabit up`
        self.socket = root / SOCKET  # that callers connect to
        self.lease = root / "lease"  # how long jobs may be held; read by the manager's plugins
        self.runs = root / "runs"  # a folder for every run
        self.output = root / "output"  # of jobs that named no file
        self.old_journal = root / JOURNAL  # the journal's path in earlier versions


def open_place(root: Path, uid: int | None = None, gid: int | None = None) -> Place:
    """Create the folders of a place, or check existing ones; an old place is moved into the new form.

    `uid`, `gid`: the account that is to own `private`; None: its present owner, else the account of this process.
    """
    from cohabit.live.controller.place_moving import move_into_private

    place = Place(root)
    try:
        make_folder(root)
        check_root(root)
        with opened(root) as top:
            owner = _owner(top, uid, gid)
            with contextlib.suppress(FileExistsError):
                os.mkdir(PRIVATE, 0o700, dir_fd=top)
            with _opened_private(place, top, owner) as private:
                move_into_private(place, top, private, owner)
    except OSError as error:
        raise _cannot_be_used(root, error) from error
    return place


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, not writable by others whatever the umask is; an existing one is not changed."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o755)
        folder.chmod(0o755)


def check_root(root: Path) -> None:
    """Refuse a folder in which others could change which program runs as which user."""
    if doubt := trusted.doubt_of(root):
        raise InputError(f"cannot be a scheduler's place: {doubt.what}", doubt.where, doubt.fix)


@contextlib.contextmanager
def opened(folder: Path | str, at: int | None = None) -> Iterator[int]:
    """Open a folder and yield its descriptor; one in another folder (`at`) must not be a link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if at is None else os.O_NOFOLLOW)
    descriptor = os.open(folder, flags, dir_fd=at)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _owner(top: int, uid: int | None, gid: int | None) -> tuple[int, int]:
    """Return the account that is to own `private`."""
    if uid is None:
        with contextlib.suppress(FileNotFoundError):
            there = os.stat(PRIVATE, dir_fd=top, follow_symlinks=False)
            return there.st_uid, there.st_gid
    return os.geteuid() if uid is None else uid, os.getegid() if gid is None else gid


@contextlib.contextmanager
def _opened_private(place: Place, top: int, owner: tuple[int, int]) -> Iterator[int]:
    """Open `private`, closed to others and given to its owner."""
    try:
        with opened(PRIVATE, top) as private:
            found = os.fstat(private)
            if found.st_uid != owner[0] or (os.geteuid() == 0 and _has_others_files(private, owner[0])):
                _hand_over(place, private, owner)
            if stat.S_IMODE(found.st_mode) & 0o077:
                os.fchmod(private, 0o700)
            yield private
    except PermissionError:
        raise _not_yours(place) from None
    except NotADirectoryError:
        raise InputError("is there and is not a folder", str(place.private), "remove it") from None


def _has_others_files(private: int, uid: int) -> bool:
    """Return whether a file in it has another owner, as after a hand-over that was killed."""
    found = (os.stat(name, dir_fd=private, follow_symlinks=False) for name in os.listdir(private))
    return any(one.st_uid != uid for one in found)


def _hand_over(place: Place, private: int, owner: tuple[int, int]) -> None:
    """Give `private` to another account, as root: close it to the old owner, chown the files, then the folder.

    The old owner may have put a link there, to a file that the new owner would write to: that is refused."""
    with _locked(place, private):
        os.fchown(private, os.geteuid(), os.getegid())
        for name in os.listdir(private):
            if not stat.S_ISREG(os.stat(name, dir_fd=private, follow_symlinks=False).st_mode):
                raise InputError("is not a plain file", str(place.private / name), "move it away")
            os.chown(name, *owner, dir_fd=private, follow_symlinks=False)
        os.fchown(private, *owner)


@contextlib.contextmanager
def as_owner(folder: Path) -> Iterator[None]:
    """Act as the owner of a place's private folder if the process is root: files put there cannot mislead root.

    Other accounts, and other folders, are not affected."""
    there = folder.stat() if folder.name == PRIVATE and folder.is_dir() and os.geteuid() == 0 else None
    if there is None or there.st_uid == 0:
        yield
        return
    groups, gid = os.getgroups(), os.getegid()
    try:
        os.setgroups([])
        os.setegid(there.st_gid)
        os.seteuid(there.st_uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)
        os.setgroups(groups)


def only_one(place: Place) -> IO[bytes]:
    """Return the lock of a place, held until it is closed or the process ends, however it ends."""
    try:
        with opened(place.root) as top, opened(PRIVATE, top) as private:
            return _locked(place, private)
    except PermissionError:
        raise _not_yours(place) from None
    except OSError as error:
        raise _cannot_be_used(place.private, error) from error


def _locked(place: Place, private: int) -> IO[bytes]:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.fdopen(os.open(LOCK, flags, 0o600, dir_fd=private), "ab")
    there = os.fstat(private)
    if os.fstat(lock.fileno()).st_uid != there.st_uid:
        os.fchown(lock.fileno(), there.st_uid, there.st_gid)
    take(lock, place.root)
    return lock


def take(lock: IO[bytes], root: Path) -> None:
    """Lock an open file; if another process holds the lock, name it in an exception and close the file."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder(os.fstat(lock.fileno()))
        lock.close()
        raise InputError(f"another controller uses this folder{holder}", str(root), "stop it first") from None


def _holder(found: os.stat_result) -> str:
    """Return the process that holds a file's lock, in brackets; empty: the system does not say."""
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5] == file:
                return f" (process {words[4]} of user {os.stat(f'/proc/{words[4]}').st_uid})"
    return ""


def find_journal(root: Path) -> Path:
    """Return the journal of a place, also of one that no controller of this version has opened yet."""
    place = Place(root)
    if is_there(place.journal) or not is_there(place.old_journal):
        return place.journal
    if is_there(place.journal.with_name(f"{JOURNAL}-wal")):
        raise InputError(
            "was not moved in whole into its new place",
            str(place.old_journal),
            "start the controller once: it goes on with it",
        )
    return place.old_journal


def is_there(path: Path) -> bool:
    """Return whether a file of a place exists; raise InputError where that cannot be known."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        raise _not_yours(Place(path.parent.parent if path.parent.name == PRIVATE else path.parent)) from None
    return True


def _not_yours(place: Place) -> InputError:
    what, fix = "only the account its controller runs as may open it", "do this as that account, or as root"
    return InputError(what, str(place.private), fix)


def _cannot_be_used(path: Path, error: OSError) -> InputError:
    reason = (error.strerror or str(error)).lower()
    return InputError(f"cannot be used: {reason}", str(path), "choose a folder you may write to")
