"""Run folders: what a run is to do and what became of it, in files that outlive launcher and controller.

    spec      what to run, where, as which user, how long   with the folder
    job/      files for the program; the job owner's        with the folder
    bound     its cores after it was moved                  the launcher
    fuse      stop at this instant unless rewritten         the launcher, any time
    stop      stop now, and why                             the launcher, once
    claim     the runner; only the first claim counts       with the folder, before the program executes
    started   process and instant                           the runner
    notes     what it has to go without, and why            the runner, before it says that the program executes
    exited    how the program ended, before tidying up      the runner
    ended     how it ended                                  the runner; the launcher where the runner is dead

A folder appears whole or not at all, and its name is (job, attempt): asking for the same run twice finds it there.
Folders belong to the launcher, and no other account can read its files: a job's name is easily guessed. Only job/ is
given to the job's owner, last of all and by descriptor. `claim` and `ended` are on the disk, with their folder, before
anything follows from them: without a claim the program never executed, and the run is made anew from the journal. Any
other file that cannot be read after a power cut is as good as none. Instants are microseconds of CLOCK_BOOTTIME.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from cohabit.agent import control_groups
from cohabit.launcher.clearing import clear
from cohabit.launcher.wire import write_all

NO_RUNNER = "nobody"  # claim of a run that must never begin
JOB = "job"
MARK = "COHABIT_RUN"  # in the environment of every process of a run
END_BYTES = 4096  # reserved for the record of the end, so that it can be written on a full disk
GONE = ".gone"  # end of the names of folders that are to be removed
CLAIMS = "runner."  # prefix of files with identities of runners
AGAIN_S = 0.5  # pause between two tries to record an end on a full disk
LOST = {"why": "lost", "fault": "", "status": None}
_DRAFT_OF_END = ".ended.draft"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
Key = tuple[str, int]  # job and attempt


@contextlib.contextmanager
def opened(path: str | os.PathLike[str], flags: int, mode: int = 0o600, dir_fd: int | None = None) -> Iterator[int]:
    """Open a descriptor that is closed at the end of the block."""
    descriptor = os.open(path, flags, mode, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class RunFolder:
    """One run's folder."""

    def __init__(self, runs: Path, job_id: str, attempt: int) -> None:
        self.job_id, self.attempt = job_id, attempt
        self.key: Key = (job_id, attempt)
        self.path = runs / f"{file_name(job_id)}.{attempt}"

    def create(
        self, spec: Mapping[str, Any], fuse_us: int | None, files: Mapping[str, str] | None = None, claim: str = ""
    ) -> bool:
        """Make the folder with all that is needed to run; return False if it exists. With a claim (`kept_claim`, a file
        with its content on the disk) the run is the caller's: that is on the disk when this returns."""
        draft, user = f".{self.path.name}.{os.getpid()}", spec.get("user")
        content = {"spec": json.dumps(spec), _DRAFT_OF_END: " " * END_BYTES}
        content |= {} if fuse_us is None else {"fuse": str(fuse_us)}
        with opened(self.path.parent, _FOLDER) as runs:
            try:
                with contextlib.suppress(FileNotFoundError):
                    os.stat(draft, dir_fd=runs, follow_symlinks=False)  # left by a process that had our process id
                    clear(draft, runs)
                os.mkdir(draft, 0o700, dir_fd=runs)
                with opened(draft, _FOLDER, dir_fd=runs) as folder:  # no other account can open it yet
                    os.mkdir(JOB, 0o700, dir_fd=folder)
                    with opened(JOB, _FOLDER, dir_fd=folder) as inner:
                        for name, text in (files or {}).items():
                            _write_new(inner, name, text, user)
                        for name, text in content.items():
                            _write_new(folder, name, text)
                        if claim:
                            os.link(claim, "claim", dst_dir_fd=folder)
                        os.rename(draft, self.path.name, src_dir_fd=runs, dst_dir_fd=runs)
                        os.fsync(folder)  # after the rename: one commit of a journaling file system has both
                        os.fsync(runs)
                        if user is not None:  # the owner gets job/ only when the folder has its name
                            os.fchown(inner, user["uid"], user["gid"])
                        os.fchmod(folder, 0o711)
                    return True
            except OSError:
                clear(draft, runs)
                if not self.path.is_dir():
                    raise
                return False

    @property
    def job(self) -> Path:
        """The folder that belongs to the job's owner."""
        return self.path / JOB

    def spec(self) -> dict[str, Any]:
        """Return what the run executes; empty if it cannot be read."""
        return self._table("spec") or {}

    def forbid_start(self) -> None:
        """Claim the run for no runner. The first claim counts, and is on the disk when this returns."""
        if self._write_first("claim", NO_RUNNER, durable=True):
            self.sync()

    def _write_first(self, name: str, text: str, durable: bool) -> bool:
        """Write a file whole; return False, and change nothing, if it exists."""
        draft = self.path / f".{name}.{os.getpid()}"
        with opened(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC) as descriptor:
            write_all(descriptor, text.encode())
            if durable:
                os.fsync(descriptor)
        try:
            os.link(draft, self.path / name)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def runner(self) -> str | None:
        """Return the claim; NO_RUNNER: the run never begins; None: there is no claim; "": it cannot be read."""
        try:
            return (self.path / "claim").read_text()
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            return ""

    def started(self) -> dict[str, Any] | None:
        """Return the process of the run; None before it exists."""
        found = self._table("started")
        return found if found is not None and type(found.get("began_us")) is int else None

    def notes(self) -> list[str]:
        """Return what the run has to go without, a sentence each."""
        found = self._read("notes")
        return [str(one) for one in found] if isinstance(found, list) else []

    def bound(self) -> list[list[Any]]:
        """Return the CPUs of the run, by node."""
        pairs = self._read("bound")
        return [[int(node), list(cpus)] for node, cpus in (self.spec().get("nodes", []) if pairs is None else pairs)]

    def ended(self) -> dict[str, Any] | None:
        """Return how the run ended; None if it has not. A record that cannot be read counts as lost."""
        try:
            content = (self.path / "ended").read_bytes()
        except FileNotFoundError:
            return None
        except OSError:
            content = b"?"
        if not content.strip(b" \0"):
            return None  # power was cut before it was on the disk, and nothing followed from it
        found = _parsed(content)
        complete = isinstance(found, dict) and isinstance(found.get("why"), str) and "status" in found
        return found if complete else LOST | {"fault": "the record of its end cannot be read"}

    def set_fuse(self, fuse_us: int) -> None:
        """Move the fuse; the runner reads it before it burns."""
        self.write("fuse", fuse_us)

    def ask_to_stop(self, why: str) -> None:
        """Write an order to stop; the first reason stays."""
        self._write_first("stop", why, durable=False)

    def bury(self) -> None:
        """Kill what a dead runner left behind, and record how the run ended if the runner has not."""
        groups = self.spec().get("groups", [])
        control_groups.kill(groups)
        kill_marked(self)
        control_groups.remove(groups, 0.2)
        if self.ended() is None:
            known = self._table("exited")
            self.record_end(known if known is not None and "why" in known and "status" in known else LOST)

    def record_end(self, facts: Mapping[str, Any]) -> None:
        """Write the end; it is on the disk when this returns. Its space was reserved at the start."""
        content = json.dumps(facts).encode().ljust(END_BYTES)
        draft = self.path / _DRAFT_OF_END
        with opened(draft, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC) as descriptor:
            os.pwrite(descriptor, content, 0)
            os.ftruncate(descriptor, len(content))
            os.rename(draft, self.path / "ended")
            os.fsync(descriptor)  # after the rename: one commit of a journaling file system has both
        self.sync()

    def remove(self) -> None:
        """Remove the folder; it disappears for other processes at once."""
        if away := self.put_away():
            clear(away)

    def put_away(self) -> str:
        """Move the folder away and return the path that is still to be removed, "" if there was no folder."""
        away = f"{self.path.parent}/.{self.path.name}{GONE}"
        try:
            os.rename(self.path, away)
        except FileNotFoundError:
            return ""
        return away

    def sync(self) -> None:
        """Flush the folder's entries to the disk."""
        with opened(self.path, _FOLDER) as folder:
            os.fsync(folder)

    def write(self, name: str, facts: Any) -> None:
        """Write a file whole or not at all."""
        draft = f"{self.path}/.{name}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with opened(draft, flags) as descriptor:
            write_all(descriptor, json.dumps(facts).encode())
        os.replace(draft, f"{self.path}/{name}")

    def _read(self, name: str) -> Any:
        """Return the content of a file; None if it cannot be read."""
        try:
            return _parsed((self.path / name).read_bytes())
        except OSError:
            return None

    def _table(self, name: str) -> dict[str, Any] | None:
        found = self._read(name)
        return found if isinstance(found, dict) else None


def claims_of(folder: Path, pid: int) -> str:
    """Return the file that all claims of one runner are links to."""
    return f"{folder}/{CLAIMS}{pid}"


def kept_claim(path: str, identity: str) -> str:
    """Write that file, flush its content to the disk and return its path."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with opened(path, _NEW) as descriptor:
        os.write(descriptor, identity.encode())
        os.fsync(descriptor)
    return path


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


def _write_new(folder: int, name: str, text: str, user: Mapping[str, Any] | None = None) -> None:
    """Write a new file; its owner is set on the descriptor."""
    with opened(name, _NEW, dir_fd=folder) as descriptor:
        write_all(descriptor, text.encode())
        if user is not None:
            os.fchown(descriptor, user["uid"], user["gid"])
            os.fchmod(descriptor, 0o644)


def repeat_until_written(write: Callable[[], None]) -> None:
    """Call `write` until the disk takes it; a folder that is gone needs no record."""
    while True:
        try:
            write()
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(AGAIN_S)


def clock_us() -> int:
    """Return the time on the clock of all files in a run's folder."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def file_name(job_id: str) -> str:
    """Return a job's name as a file name that stays below its folder and is not hidden."""
    return quote(job_id, safe="").replace(".", "%2E")


def leftovers(runs: Path, own: Path) -> list[str]:
    """Remove identities of runners; return the folders of unfinished starts and removals, which are to be removed. Call
    it only while no start is in progress, as it would take its draft."""
    for entry in os.listdir(own):
        if entry.startswith(CLAIMS):
            os.unlink(own / entry)
    found = []
    for entry in os.listdir(runs):
        if entry.startswith("."):
            away = entry if entry.endswith(GONE) else f"{entry}{GONE}"  # a new draft may get the name of an old one
            with contextlib.suppress(OSError):
                os.rename(runs / entry, runs / away)
                found.append(str(runs / away))
    return found


def all_runs(runs: Path) -> list[RunFolder]:
    """Return every run that is not settled."""
    names = (entry.rpartition(".") for entry in sorted(os.listdir(runs)) if not entry.startswith("."))
    return [RunFolder(runs, unquote(name), int(attempt)) for name, _, attempt in names if attempt.isdigit()]


def alive(runner: str) -> int | None:
    """Return a descriptor of the runner's process, readable when it ends; None if it is gone."""
    try:
        number, ticks, boot = runner.split()
        if boot != Path("/proc/sys/kernel/random/boot_id").read_text().strip():
            return None
        descriptor = os.pidfd_open(int(number))
    except (ValueError, OSError):
        return None
    try:
        with open(f"/proc/{number}/stat", "rb") as stream:
            fields = stream.read().rpartition(b")")[2].split()
        same = fields[19].decode() == ticks and fields[0] != b"Z"
    except OSError:
        same = False
    if same:
        return descriptor
    os.close(descriptor)
    return None


def processes_of(folder: RunFolder) -> set[int]:
    """Return every process of the run: those in its control groups, and those with its mark."""
    return control_groups.members(folder.spec().get("groups", [])) | set(marked(folder))


def threads_of(pids: set[int]) -> list[int]:
    """Return all threads of these processes; a process that ended meanwhile has none."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            found += [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    return sorted(found)


def marked(folder: RunFolder) -> list[int]:
    """Return the processes that have the mark of this run and belong to its user, or to root by a set-user-ID program:
    any user can give any mark to a process of their own."""
    wanted, spec = f"{MARK}={folder.path}".encode(), folder.spec()
    user = spec.get("user")
    owners = {0, os.geteuid() if user is None else int(user["uid"])} if spec else None
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError):
            if wanted in _environment(pid) and (owners is None or os.stat(f"/proc/{pid}").st_uid in owners):
                found.append(pid)
    return found


def kill_marked(folder: RunFolder) -> None:
    """Kill every process that has the mark of this run, until none is left."""
    for _ in range(100):  # a process may fork during the search
        found = marked(folder)
        if not found:
            return
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:
            return stream.read().split(b"\0")
    except OSError:
        return []
