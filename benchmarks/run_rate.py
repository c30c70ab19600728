"""Jobs of /bin/true per second, from their submission to the record of their end, and what each of them costs.

A real `cohabit up` and real HTTP over its UNIX socket. Two loads: single submissions over
a few connections, and one array. Processor time is that of everything the controller started (a control group counts
it; without the right to make one, that of the whole machine), split into controller, launcher and the rest: runners and
programs. The reference is a bare loop of `subprocess.run(["/bin/true"])` in the same run.

    python -m benchmarks.run_rate [--jobs 1000] [--as-root] [--place DIR] [--json FILE]

As root the controller is separate from its launcher, and the jobs belong to an ordinary uid; `--as-root` keeps both
root, and an ordinary user's own place has one account for everything.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.processes import TICKS, UnixConnection, below, cpu_s, pss_mb, words

OWNER = 12_345  # the uid of jobs where root starts the controller
CONNECTIONS = 4
TARGET_PER_S, TARGET_CPU_S = 100.0, 10.0
# As `cohabit up` writes it, without the caps on how much one user may queue.
SITE = 'nodes = "machine"\nplace = "."\n[policy]\nname = "cs"\n[limits]\nmax_queued = -1\nmax_array = 20000\n'
PATIENCE_S = 300.0


class _Unix(UnixConnection):
    """A connection that as root is made in the name of OWNER."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        with _as_owner():  # the server asks the kernel who connected
            self.connect()


@contextlib.contextmanager
def _as_owner() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    os.setresgid(-1, OWNER, -1)
    os.setresuid(-1, OWNER, -1)
    try:
        yield
    finally:
        os.setresuid(-1, 0, -1)
        os.setresgid(-1, 0, -1)


class _Group:
    """A control group of version 2 that counts processor time; without one, the whole machine is counted."""

    def __init__(self) -> None:
        self.path = self._make()
        self.kind = "of its processes" if self.path else "of the whole machine"

    def _make(self) -> Path | None:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        for mount in (Path(one[1]) for one in mounts if one[2] == "cgroup2"):
            own = next((one[3:] for one in Path("/proc/self/cgroup").read_text().splitlines() if one[:3] == "0::"), "/")
            path = mount / own.lstrip("/") / f"cohabit-bench-{os.getpid()}"
            with contextlib.suppress(OSError):
                path.mkdir()
                return path
        return None

    def join(self) -> None:
        """In a child, before it executes."""
        if self.path is not None:
            (self.path / "cgroup.procs").write_text("0")

    def used_s(self) -> float:
        """User and system time so far."""
        if self.path is not None:
            return int((self.path / "cpu.stat").read_text().split()[1]) / 1e6
        fields = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
        return (sum(fields[:3]) + fields[5] + fields[6]) / TICKS

    def remove(self) -> None:
        """Once its processes are gone."""
        if self.path is None:
            return
        for folder in sorted((one for one in self.path.rglob("*") if one.is_dir()), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
        with contextlib.suppress(OSError):
            self.path.rmdir()


def _launcher_of(pid: int) -> int:
    """The child of the controller that executes launcher/serve.py."""
    for one in below(pid):
        if one.parent == pid and any("serve.py" in word for word in words(one.pid)):
            return one.pid
    raise SystemExit("no launcher was found")


@contextlib.contextmanager
def _served(place: Path, as_root: bool, group: _Group) -> Iterator[tuple[str, int]]:
    """A controller on all cores of this machine; its socket and its process."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "site.toml").write_text(SITE)
    command = [sys.executable, "-m", "cohabit.cli", "up", "--place", str(place), *(["--as-root"] if as_root else [])]
    log = open(place / "log", "w")  # noqa: SIM115
    server = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=group.join)
    path = place / "cohabit.sock"
    try:
        while not _answers(path):
            if server.poll() is not None:
                raise SystemExit(f"the controller ended: {(place / 'log').read_text()}")
            time.sleep(0.05)
        yield str(path), server.pid
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
        log.close()


def _answers(path: Path) -> bool:
    try:
        _Unix(str(path)).close()
    except OSError:
        return False
    return True


def _ask(link: _Unix, method: str, path: str, body: Any = None) -> Any:
    content = None if body is None else json.dumps(body)
    link.request(method, path, content, {"Content-Type": "application/json"})
    answer = link.getresponse()
    text = answer.read()
    if answer.status >= 300:
        raise SystemExit(f"{method} {path}: {text.decode()}")
    return json.loads(text)


BODY = {"command": ["/bin/true"], "limit_s": 60, "environment": {"PATH": os.defpath}}


def _single(path: str, jobs: int) -> None:
    """Submit one by one, each when the one before is durable, over a few connections."""

    def work(link: _Unix, count: int) -> None:
        for _ in range(count):
            _ask(link, "POST", "/v1/jobs", BODY)

    links = [_Unix(path) for _ in range(CONNECTIONS)]
    counts = [jobs // CONNECTIONS + (number < jobs % CONNECTIONS) for number in range(CONNECTIONS)]
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(work, links, counts))


def _array(path: str, jobs: int) -> None:
    """Submit one array."""
    _ask(_Unix(path), "POST", "/v1/jobs", BODY | {"array": f"1-{jobs}"})


LOADS = {"single": _single, "array": _array}


def measure(kind: str, jobs: int, as_root: bool, parent: Path | None) -> dict[str, Any]:
    """One load in a fresh place, after a few jobs that warm it up."""
    group = _Group()
    with tempfile.TemporaryDirectory(prefix="cohabit-rate-", dir=parent) as folder:
        os.chmod(folder, 0o755)
        with _served(Path(folder) / "place", as_root, group) as (path, controller):
            launcher, watch = _launcher_of(controller), _Unix(path)
            LOADS[kind](path, 20)
            _wait_idle(watch)
            before = (group.used_s(), cpu_s(controller), cpu_s(launcher))
            begun = time.perf_counter()
            LOADS[kind](path, jobs)
            submitted_s = time.perf_counter() - begun
            _wait_idle(watch)
            wall_s = time.perf_counter() - begun
            after = (group.used_s(), cpu_s(controller), cpu_s(launcher))
            done = _count_done(watch)
            memory = {"controller_mb": pss_mb(controller), "launcher_mb": pss_mb(launcher)}
    group.remove()
    if done != jobs + 20:
        raise SystemExit(f"{done} of {jobs + 20} jobs ended well")
    total, own, root = (1000 / jobs * (late - early) for early, late in zip(before, after, strict=True))
    return {
        "load": kind, "jobs": jobs, "per_s": round(jobs / wall_s, 1), "submitted_per_s": round(jobs / submitted_s, 1),
        "cpu_s_per_1000": round(total, 2), "controller_cpu_s": round(own, 2), "launcher_cpu_s": round(root, 2),
        "runners_cpu_s": round(total - own - root, 2), "cpu_counted": group.kind,
        **{name: round(value, 1) for name, value in memory.items()},
    }  # fmt: skip


def _wait_idle(link: _Unix) -> None:
    """Until no job waits or runs. The latest is waited for, so that asking costs next to nothing."""
    until = time.monotonic() + PATIENCE_S
    while left := _ask(link, "GET", "/v1/jobs?limit=1")["jobs"]:
        if time.monotonic() > until:
            raise SystemExit(f"jobs do not end: {left[0]}")
        _ask(link, "GET", f"/v1/jobs/{left[0]['job']}/wait?timeout_s=20")


def _count_done(link: _Unix) -> int:
    count, before = 0, ""
    while True:
        page = _ask(link, "GET", f"/v1/jobs?state=finished&limit=500{before}")
        count += sum(one["state"] == "done" for one in page["jobs"])
        if page["next"] is None:
            return count
        before = f"&before={page['next']}"


def reference(jobs: int) -> dict[str, Any]:
    """The same programs without a scheduler."""
    began, used = time.perf_counter(), _all_used_s()
    for _ in range(jobs):
        subprocess.run(["/bin/true"], check=True)
    wall_s = time.perf_counter() - began
    return {"per_s": round(jobs / wall_s, 1), "cpu_s_per_1000": round((_all_used_s() - used) * 1000 / jobs, 2)}


def _all_used_s() -> float:
    """By this process and its children."""
    used = [resource.getrusage(one) for one in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    """Measure, print, and say whether the targets hold."""
    parser = argparse.ArgumentParser(description="Short jobs per second of a real controller.")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--load", choices=[*LOADS, "both"], default="both")
    parser.add_argument("--as-root", action="store_true", help="the controller keeps root's rights")
    parser.add_argument("--place", type=Path, help="a folder on the disk to measure; else the one of temporary files")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    bare = reference(min(chosen.jobs, 500))
    print(f"a loop of subprocess.run: {bare['per_s']:.0f} per second, {bare['cpu_s_per_1000']:.2f} s of CPU per 1,000")
    found = []
    for kind in LOADS if chosen.load == "both" else [chosen.load]:
        one = measure(kind, chosen.jobs, chosen.as_root, chosen.place)
        found.append(one)
        print(
            f"{kind:>6}: {one['per_s']:.1f} jobs per second (submitted at {one['submitted_per_s']:.0f}), "
            f"{one['cpu_s_per_1000']:.1f} s of CPU per 1,000 ({one['cpu_counted']}): controller "
            f"{one['controller_cpu_s']:.1f}, launcher {one['launcher_cpu_s']:.1f}, runners {one['runners_cpu_s']:.1f}; "
            f"controller {one['controller_mb']:.0f} MB, launcher {one['launcher_mb']:.0f} MB"
        )
    met = all(one["per_s"] >= TARGET_PER_S and one["cpu_s_per_1000"] <= TARGET_CPU_S for one in found)
    target = f"at least {TARGET_PER_S:.0f} per second, at most {TARGET_CPU_S:.0f} s of CPU per 1,000"
    print(f"target ({target}): {'met' if met else 'NOT met'}")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps({"reference": bare, "loads": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
