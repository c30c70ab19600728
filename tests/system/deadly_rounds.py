"""Starting, killing and restarting controllers, and reading what their jobs wrote. Used by the kill tests."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from cohabit.backend.protocol import DONE, Launch
from tests.system.deadly_controller import Orders

ROOT = Path(__file__).resolve().parents[2]
SLEEPER = Path(__file__).with_name("sleeper.py")


def sleeper(log: Path, seconds: float, *more: str, **asked: Any) -> Launch:
    """What a test's job executes."""
    return Launch((sys.executable, "-I", "-S", str(SLEEPER), str(log), str(seconds), *more), **asked)


class Nursery:
    """Where controllers come from: a process that has loaded everything and forks them off."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.deadly_controller"], cwd=ROOT, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, start_new_session=True,
            env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        )  # fmt: skip

    def bear(self, orders: Orders) -> tuple[int, int]:
        """Start a controller; its process, by number and by descriptor."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(orders) + b"\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        return pid, os.pidfd_open(pid)

    def close(self) -> None:
        """Nobody is born any more; whoever lives is killed by those who hold it."""
        self._process.communicate()


class Controller:
    """A controller's lives: started again after it died, a while later, each time with the next of its fates."""

    def __init__(
        self, nursery: Nursery, orders: Orders, dead_s: float = 0.0, fates: Sequence[tuple[str, int] | None] = ()
    ) -> None:
        self._nursery, self._orders, self._dead_s = nursery, orders, dead_s
        self._fates = list(fates or [orders.die])
        self.starts, self.pid, self._process, self._dead_since = 0, 0, -1, 0.0

    def keep_alive(self) -> None:
        """Call often: notices a death and brings it back when its time has come."""
        if self._process >= 0 and select.select([self._process], [], [], 0)[0]:
            self.bury()
            self._dead_since = time.monotonic()
        if self._process < 0 and (self.starts == 0 or time.monotonic() >= self._dead_since + self._dead_s):
            die = self._fates.pop(0) if self._fates else None
            self.starts, self._dead_since = self.starts + 1, time.monotonic()
            with contextlib.suppress(ProcessLookupError):  # it is dead already: it could not even begin
                self.pid, self._process = self._nursery.bear(msgspec.structs.replace(self._orders, die=die))

    def tell_where(self) -> None:
        """Have it write into its log where its threads are."""
        if self._process >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGUSR2)
                time.sleep(0.5)

    def kill(self) -> None:
        """kill -9, now."""
        if self._process >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            select.select([self._process], [], [], 10)
            self.bury()

    def bury(self) -> None:
        os.close(self._process)
        self._process = -1


@dataclass
class Ran:
    """One run of a job as the job itself saw it."""

    attempt: int
    begin_us: int
    last_us: int
    whole: bool = False


def runs_of(log: Path) -> dict[str, list[Ran]]:
    """Every run, by job, in order of their starts."""
    found: dict[str, list[Ran]] = {}
    for line in log.read_text().splitlines() if log.exists() else ():
        word, job, attempt, at_us = line.split()
        runs = found.setdefault(job, [])
        if word == "start":
            runs.append(Ran(int(attempt), int(at_us), int(at_us)))
            continue
        one = next(run for run in reversed(runs) if run.attempt == int(attempt))
        one.last_us, one.whole = int(at_us), one.whole or word == "end"
    return found


class End(NamedTuple):
    """How a run ended, as the journal was told."""

    status: str
    exit_status: int | None
    exit_signal: int | None


Ends = Mapping[tuple[str, int], End]


def ends_of(notes: Path) -> dict[tuple[str, int], End]:
    """Every end any controller heard of, by job and attempt."""
    found = {}
    for line in (notes / "ends").read_text().splitlines() if (notes / "ends").exists() else ():
        job, attempt, status, *exits = line.split()
        found[job, int(attempt)] = End(status, *(None if word == "None" else int(word) for word in exits))
    return found


def well_ended(notes: Path) -> int:
    """How many jobs have."""
    return sum(end.status == DONE for end in ends_of(notes).values())


def doubled(job: str, runs: Sequence[Ran], ends: Ends, well: bool = True) -> str:
    """What is wrong with the runs of one job; empty: it ran to its end once, last of all, and no two at once.

    A run has ended well if the executor saw that, and then the program must have done all its work. One that had done
    all its work may still have been killed, by its fuse or with its runner, before it could exit (on a busy machine it
    waits for a core between the two): nobody but the program itself knows then, and it is rightly run again. An exit
    that was seen must count. `well` is False for a job that was made to fail: it has no good end.
    """
    if len({run.attempt for run in runs}) != len(runs):
        return f"{job}: an attempt was started twice: {runs}"
    for before, after in pairwise(runs):
        if after.begin_us <= before.last_us:
            return f"{job}: two runs at once: {before} {after}"
    good = [run for run in runs if (job, run.attempt) in ends and ends[job, run.attempt].status == DONE]
    if len(good) != int(well) or good[:1] != list(runs[len(runs) - int(well) :]):
        return f"{job}: {len(good)} runs ended well: {runs} {ends}"
    for run in runs:
        end = ends.get((job, run.attempt))
        if run in good and not run.whole:
            return f"{job}: counts as done and had work left: {run} {end}"
        if run not in good and end is not None and end.exit_status == 0:
            return f"{job}: ended by itself and did not count: {run} {end}"
    return ""


def cores_of(log: Path) -> dict[tuple[str, int], set[int]]:
    """The cores of every run, as the run itself saw them."""
    found = {}
    for line in Path(f"{log}.cores").read_text().splitlines():
        job, attempt, cores = line.split()
        found[job, int(attempt)] = {int(core) for core in cores.split(",")}
    return found


def kill_launcher(controller: int) -> bool:
    """kill -9 of the process that forks runners for this controller; False: it has none just now."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[1])
            words = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if parent == controller and b"launcher/serve.py" in words:
            os.kill(int(name), signal.SIGKILL)
            return True
    return False


def kill_runner(runs: Path, log: Path) -> bool:
    """kill -9 of the runner of some run; False: none runs just now.

    Its program is halted first and must have work left, or its end must be on record: if a runner is killed in the
    instant between the last act of its program and hearing of its exit, nobody knows how that ended, and it is started
    again (docs/launchers.md).
    """
    for claim in sorted(runs.glob("*/claim")):
        with contextlib.suppress(OSError, ValueError):
            folder, runner = claim.parent, int(claim.read_text().split()[0])
            if (folder / "ended").exists() or not (folder / "started").exists():
                continue
            program = program_of(folder)
            if (folder / "exited").exists() or halted(folder, log):
                os.kill(runner, signal.SIGKILL)
                with contextlib.suppress(ProcessLookupError):  # one that has not become the program yet ends by itself
                    os.kill(program, signal.SIGCONT)
                return True
    return False


def kill_program(runs: Path, log: Path) -> tuple[str, int] | None:
    """kill -9 of the program of some run that has work left; its job and attempt. None: none runs just now."""
    for started in sorted(runs.glob("*/started")):
        with contextlib.suppress(OSError, ValueError):
            if not (started.with_name("exited")).exists() and (run := halted(started.parent, log)):
                os.kill(program_of(started.parent), signal.SIGKILL)
                return run
    return None


def in_flight(runs: Path) -> bool:
    """Whether some program runs."""
    return any(not started.with_name("exited").exists() for started in runs.glob("*/started"))


def program_of(folder: Path) -> int:
    """The first process of a run."""
    return int(msgspec.json.decode((folder / "started").read_bytes())["pid"])


def halted(folder: Path, log: Path) -> tuple[str, int] | None:
    """Halt the program of a run; its job and attempt, or None where it had no work left and goes on to its exit."""
    os.kill(program := program_of(folder), signal.SIGSTOP)
    name, _, number = folder.name.rpartition(".")
    job, attempt = unquote(name).replace(" ", "_"), int(number)
    if any(run.whole and run.attempt == attempt for run in runs_of(log).get(job, [])):
        os.kill(program, signal.SIGCONT)
        return None
    return job, attempt


def wait_for(condition: Callable[[], bool], timeout_s: float, pause_s: float = 0.02) -> bool:
    """Until it holds, or no longer."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(pause_s)
    return bool(condition())
