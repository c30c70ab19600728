"""Starting, killing and restarting controllers, and reading what their jobs wrote. Used by the kill tests."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from cohabit.backend.protocol import Launch
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
            stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
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
    """A controller's life: started again after it died, a while later, and without its fate from the second time on."""

    def __init__(self, nursery: Nursery, orders: Orders, dead_s: float = 0.0) -> None:
        self._nursery, self._orders, self._dead_s = nursery, orders, dead_s
        self.starts, self.pid, self._process, self._dead_since = 0, 0, -1, 0.0

    def keep_alive(self) -> None:
        """Call often: notices a death and brings it back when its time has come."""
        if self._process >= 0 and select.select([self._process], [], [], 0)[0]:
            self.bury()
            self._dead_since = time.monotonic()
        if self._process < 0 and (self.starts == 0 or time.monotonic() >= self._dead_since + self._dead_s):
            orders = self._orders if self.starts == 0 else msgspec.structs.replace(self._orders, die=None)
            self.pid, self._process = self._nursery.bear(orders)
            self.starts += 1

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


def doubled(runs: list[Ran]) -> str:
    """What is wrong with the runs of one job; empty: one whole run, and no two at once or under one number."""
    if sum(run.whole for run in runs) != 1:
        return f"{sum(run.whole for run in runs)} whole runs: {runs}"
    for before, after in pairwise(runs):
        if after.begin_us <= before.last_us:
            return f"two runs at once: {before} {after}"
        if before.whole:
            return f"run again after its end: {before} {after}"
    if len({run.attempt for run in runs}) != len(runs):
        return f"an attempt was started twice: {runs}"
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
        if parent == controller and b"runner.py" in words:
            os.kill(int(name), signal.SIGKILL)
            return True
    return False


def kill_runner(runs: Path, log: Path) -> bool:
    """kill -9 of the runner of some run; False: none runs just now.

    Its program is halted first and must have work left, or its end must be on record: if a runner is killed in the
    instant between the last act of its program and hearing of its exit, nobody knows how that ended, and it is started
    again (docs/launchers.md).
    """
    for claim in runs.glob("*/claim"):
        with contextlib.suppress(OSError, ValueError):
            folder, runner = claim.parent, int(claim.read_text().split()[0])
            if (folder / "ended").exists() or not (folder / "started").exists():
                continue
            program = msgspec.json.decode((folder / "started").read_bytes())["pid"]
            if not (folder / "exited").exists():
                os.kill(program, signal.SIGSTOP)
                name, _, attempt = folder.name.rpartition(".")
                ran = runs_of(log).get(unquote(name).replace(" ", "_"), [])
                if any(run.whole and run.attempt == int(attempt) for run in ran):
                    os.kill(program, signal.SIGCONT)
                    continue
            os.kill(runner, signal.SIGKILL)
            return True
    return False


def wait_for(condition: Callable[[], bool], timeout_s: float, pause_s: float = 0.02) -> bool:
    """Until it holds, or no longer."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(pause_s)
    return bool(condition())
