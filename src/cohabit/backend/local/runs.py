"""Run folders: what the controller and the runner of a job tell each other, in files that outlive both.

    spec      what to run, where, as whom, how long     written whole with the folder
    job/      files of its launcher; the job's own      with the folder; belongs to the job's user
    bound     its cores after it was moved              the controller
    fuse      stop at this instant unless rewritten     the controller, any time
    stop      stop now, and why                         the controller, once
    claim     whose run this is; only the first counts  the runner, or the controller to make sure it never begins
    started   process and instant                       the runner
    notes     what it has to go without, and why        the runner, before it says that the program executes
    exited    how the program ended, before tidying up  the runner
    spare.*   room for `stop` and `ended` on a full disk with the folder
    ended     how it ended                              the runner; the controller where the runner is gone

A folder appears whole or not at all, and its name is (job, attempt): asking for the same run twice finds it there.
Only job/ is open to the job's user: everything else is for us alone, as it decides what runs as whom.
Instants in here are microseconds of CLOCK_BOOTTIME.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from cohabit.agent import control_groups, spare_room
from cohabit.backend.protocol import CANCELLED, DONE, FAILED, KILLED, LOST, STOPPED

NOBODY = "nobody"
JOB = "job"
MARK = "COHABIT_RUN"  # in the environment of every process of a run
_ENDINGS = {"limit": KILLED, "burnt": STOPPED, "cancelled": CANCELLED, "stopped": STOPPED, "lost": LOST}


class RunFolder:
    """One run's folder."""

    def __init__(self, runs: Path, job_id: str, attempt: int) -> None:
        self.job_id, self.attempt = job_id, attempt
        self.path = runs / f"{file_name(job_id)}.{attempt}"

    def create(self, spec: dict[str, Any], fuse_us: int | None, files: Mapping[str, str] | None = None) -> bool:
        """Make the folder with all that is needed to run, `files` of a launcher too; False if it is there already."""
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        shutil.rmtree(draft, ignore_errors=True)
        try:
            self._fill(draft, spec, fuse_us, files or {})
            os.rename(draft, self.path)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            if not self.path.is_dir():
                raise
            return False
        return True

    @staticmethod
    def _fill(draft: Path, spec: dict[str, Any], fuse_us: int | None, files: Mapping[str, str]) -> None:
        (draft / JOB).mkdir(parents=True)
        draft.chmod(0o711)
        for name, text in files.items():
            (draft / JOB / name).write_text(text)
        (draft / JOB).chmod(0o700)
        if (user := spec.get("user")) is not None:
            for path in (draft / JOB, *(draft / JOB).iterdir()):
                os.chown(path, user["uid"], user["gid"])
        with open(os.open(draft / "spec", os.O_WRONLY | os.O_CREAT, 0o600), "wb") as stream:
            stream.write(msgspec.json.encode(spec))
        if fuse_us is not None:
            (draft / "fuse").write_text(str(fuse_us))
        spare_room.keep(str(draft))

    @property
    def job(self) -> Path:
        """The folder that is the job's own."""
        return self.path / JOB

    def spec(self) -> dict[str, Any]:
        """What it is to run; empty where the folder is gone."""
        return self._read("spec") or {}

    def exists(self) -> bool:
        """Whether such a run was asked for and is not settled."""
        return self.path.is_dir()

    def fence(self) -> bool:
        """Make sure that the run never begins; False: it has."""
        return self._link("claim", NOBODY)

    def runner(self) -> str | None:
        """Who claimed the run; NOBODY: it will never begin; None: nobody yet."""
        try:
            return (self.path / "claim").read_text()
        except FileNotFoundError:
            return None

    def started(self) -> dict[str, Any] | None:
        """The process of the run, once there is one."""
        return self._read("started")

    def notes(self) -> list[str]:
        """What the run has to go without, a sentence each."""
        try:
            found: list[str] = msgspec.json.decode((self.path / "notes").read_bytes())
        except FileNotFoundError:
            return []
        return found

    def bound(self) -> dict[int, list[int]]:
        """The CPUs of the run, by node."""
        try:
            pairs = msgspec.json.decode((self.path / "bound").read_bytes())
        except FileNotFoundError:
            pairs = self.spec().get("nodes", [])
        return {int(node): list(cpus) for node, cpus in pairs}

    def bind(self, cpus: Mapping[int, list[int]]) -> None:
        """It was moved, or is about to be."""
        self._write("bound", msgspec.json.encode([[node, own] for node, own in cpus.items()]))

    def ended(self) -> dict[str, Any] | None:
        """How the run ended, once it has."""
        return self._read("ended")

    def set_fuse(self, fuse_us: int) -> None:
        """Move the fuse; the runner looks before it burns."""
        self._write("fuse", str(fuse_us).encode())

    def ask_to_stop(self, why: str) -> None:
        """The first reason stays."""
        self._link("stop", why)

    def bury(self) -> None:
        """The runner is dead and has not finished its work: kill what it left, and say how the run ended, if it could
        still say that itself."""
        groups = self.spec().get("groups", [])
        control_groups.kill(groups)
        kill_marked(str(self.path))
        control_groups.remove(groups, 0.2)
        if self.ended() is None:
            known = self._read("exited") or {"why": "lost", "fault": "", "status": None}
            self._write("ended", msgspec.json.encode(known))

    def never_began(self, why: str) -> None:
        """It was stopped before it began."""
        self._write("ended", msgspec.json.encode({"why": why, "fault": "", "status": None}))

    def remove(self) -> None:
        """All of it goes, at once for whoever looks."""
        away = self.path.with_name(f".{self.path.name}.gone")
        try:
            os.rename(self.path, away)
        except FileNotFoundError:
            return
        shutil.rmtree(away, ignore_errors=True)

    def _link(self, name: str, content: str) -> bool:
        if (self.path / name).exists():
            return False  # a full disk may have no room to find that out by trying
        draft = spare_room.write_draft(str(self.path), name, content.encode())
        try:
            os.link(draft, self.path / name)
        except FileExistsError:
            return False
        finally:
            os.unlink(draft)
        return True

    def _write(self, name: str, content: bytes) -> None:
        os.replace(spare_room.write_draft(str(self.path), name, content), self.path / name)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = msgspec.json.decode((self.path / name).read_bytes())
        except FileNotFoundError:
            return None
        return found


def clock_us() -> int:
    """The clock of everything in a run's folder."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def file_name(job_id: str) -> str:
    """A job's name as the name of a file: whatever it is, it stays below its folder and is not hidden."""
    return quote(job_id, safe="").replace(".", "%2E")


def all_runs(runs: Path) -> list[RunFolder]:
    """Every run that is not settled; leftovers of unfinished moves are swept away."""
    found = []
    for entry in sorted(os.listdir(runs)):
        if entry.startswith("."):
            shutil.rmtree(runs / entry, ignore_errors=True)
            continue
        name, _, attempt = entry.rpartition(".")
        if attempt.isdigit():
            found.append(RunFolder(runs, unquote(name), int(attempt)))
    return found


def status_of(ended: dict[str, Any]) -> str:
    """The status the core is told."""
    if ended["why"]:
        return _ENDINGS[ended["why"]]
    return DONE if ended["status"] == 0 and not ended["fault"] else FAILED


def exit_of(ended: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """The exit status of the program, or the signal that ended it; (None, None): nobody saw its end."""
    status = ended.get("status")
    if status is None:
        return None, None
    return (status, None) if status >= 0 else (None, -status)


def alive(runner: str) -> int | None:
    """A descriptor of the runner's process, readable when it ends; None if it is gone."""
    if runner == NOBODY:
        return None
    number, ticks, boot = runner.split()
    if boot != Path("/proc/sys/kernel/random/boot_id").read_text().strip():
        return None
    try:
        descriptor = os.pidfd_open(int(number))
    except ProcessLookupError:
        return None
    try:
        with open(f"/proc/{number}/stat", "rb") as stream:
            fields = stream.read().rpartition(b")")[2].split()
        same = fields[19].decode() == ticks and fields[0] != b"Z"
    except (FileNotFoundError, ProcessLookupError):
        same = False
    if same:
        return descriptor
    os.close(descriptor)
    return None


def processes_of(folder: RunFolder) -> set[int]:
    """Every process of the run: those in its control groups, and those that carry its mark."""
    return control_groups.members(folder.spec().get("groups", [])) | set(marked(str(folder.path)))


def threads_of(pids: set[int]) -> list[int]:
    """All threads of these processes; who ended meanwhile has none."""
    found = []
    for pid in pids:
        try:
            found += [int(name) for name in os.listdir(f"/proc/{pid}/task")]
        except OSError:
            continue
    return sorted(found)


def marked(folder: str) -> list[int]:
    """The processes that carry the mark of this run."""
    wanted = f"{MARK}={folder}".encode()
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if wanted in _environment(pid)]


def kill_marked(folder: str) -> None:
    """Kill every process that carries the mark of this run, until none is left."""
    for _ in range(100):  # a process may fork while it is looked for
        found = marked(folder)
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:
            return stream.read().split(b"\0")
    except OSError:
        return []
