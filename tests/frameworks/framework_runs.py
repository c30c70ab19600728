"""Run what a launcher prepared, as the local back end does: bound, in a session of its own, with only its environment.

The frameworks are in an environment of their own (`scripts/frameworks`); COHABIT_FRAMEWORKS names another one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cohabit.backend.launchers.contract import NodeShare, Placement, Request, Site
from cohabit.backend.launchers.registry import find_launcher
from cohabit.backend.local.spec import site_of
from cohabit.launcher import probing

ROOT = Path(__file__).resolve().parents[2]
PROBES = Path(__file__).with_name("probes")
HOME = Path(os.environ.get("COHABIT_FRAMEWORKS", ROOT / ".venv-frameworks"))
PYTHON = str(HOME / "bin" / "python")
CORES = sorted(os.sched_getaffinity(0))
SETTINGS = {
    "PATH": f"{HOME}/bin:{os.environ.get('PATH', os.defpath)}", "HOME": os.environ.get("HOME", "/"),
    "JAVA_TOOL_OPTIONS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",  # most of Spark's time here is six Java machines
    "TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0",
}  # fmt: skip
two_cores = pytest.mark.skipif(len(CORES) < 2, reason="needs two cores, to tell one from the other")


def detect(framework: str, environment: Mapping[str, str], mpirun: str = "mpirun") -> Site:
    """What there is, as a job of ours would find it."""
    return site_of(probing.probe(framework, environment, mpirun), os.geteuid())


def needs(package: str) -> pytest.MarkDecorator:
    """Skip where the environment of the frameworks lacks it."""
    return pytest.mark.skipif(not version_of(package), reason=f"needs {package} (make test-frameworks installs it)")


def version_of(package: str) -> str:
    """Of a package in the environment of the frameworks; empty: it is not there."""
    ask = f"import importlib.metadata as m; print(m.version({package!r}))"
    if not Path(PYTHON).exists():
        return ""
    try:
        said = subprocess.run([PYTHON, "-c", ask], capture_output=True, text=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        return ""
    return said.stdout.strip()


def nodes(*cores: tuple[int, ...]) -> Placement:
    """Nodes of this machine with these cores, counted from the first that we may use."""
    shares = [NodeShare("localhost", len(own), tuple(CORES[at] for at in own), n) for n, own in enumerate(cores)]
    return Placement(tuple(shares))


class Running:
    """A job under way."""

    def __init__(
        self, folder: Path, framework: str, command: tuple[str, ...], placement: Placement,
        mpirun: str = "mpirun", settings: Mapping[str, str] | None = None, **wishes: Any,
    ) -> None:  # fmt: skip
        environment, self.folder = SETTINGS | dict(settings or {}), folder
        self.job_id = f"job-{uuid.uuid4().hex[:12]}"
        request = Request(self.job_id, command, str(folder), environment=environment, **wishes)
        self.prepared = find_launcher(framework)(request, placement, detect(framework, environment, mpirun))
        for name, text in self.prepared.files.items():
            (folder / name).write_text(text)
        cores = {core for node in placement.nodes for core in node.cores}
        self.process = subprocess.Popen(
            self.prepared.argv, env=environment | self.prepared.environment, cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores) if cores else None,
        )  # fmt: skip

    def end(self, timeout_s: float = 500.0) -> tuple[int, list[dict[str, Any]], str]:
        """Its status, the JSON lines its probes wrote, and its errors; nobody is left."""
        try:
            out, err = self.process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(self.give_up(timeout_s))
        until = time.monotonic() + 60
        while (left := self.left()) and time.monotonic() < until:
            time.sleep(0.1)
        if left:
            self.kill()
        assert not left, left
        return self.process.returncode, [json.loads(line) for line in out.splitlines() if line.startswith("{")], err

    def give_up(self, timeout_s: float) -> str:
        """Kill all of it, and all there is to say about why it did not end."""
        left = "\n".join(self.left())
        logs = sorted(self.folder.rglob("*.log")) + sorted(self.folder.rglob("stderr"))
        tails = "\n".join(f"{log}:\n{log.read_text(errors='replace')[-1500:]}" for log in logs)
        self.kill()
        try:
            out, err = self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            out, err = "", "(somebody still holds its output)"
        return (
            f"not over after {timeout_s:g} s (load {os.getloadavg()[0]:.1f})\nstill there:\n{left}\n"
            f"logs end:\n{tails}\nsaid:\n{out}\nerrors end:\n{err[-3000:]}"
        )

    def kill(self) -> None:
        """Whoever carries the job's name, wherever it went."""
        for _ in range(20):
            found = self.marked()
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not found:
                return
            time.sleep(0.1)

    def left(self) -> list[str]:
        """Processes that carry the job's name, with what each waits for."""
        found = []
        for pid in self.marked():
            said = {"wchan": "", "cmdline": ""}
            for name in said:
                with contextlib.suppress(OSError):
                    said[name] = Path("/proc", str(pid), name).read_text().replace("\0", " ")[:200]
            found.append(f"{pid} {said['wchan']} {said['cmdline']}")
        return found

    def marked(self) -> list[int]:
        """The same by number."""
        found, mark = [], f"COHABIT_JOB={self.job_id}".encode()
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if mark in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                    found.append(int(entry))
        return found


def run(
    folder: Path, framework: str, command: tuple[str, ...], placement: Placement, **rest: Any
) -> list[dict[str, Any]]:
    """What the probes of a job that ends well report, by rank."""
    status, reports, err = Running(folder, framework, command, placement, **rest).end()
    assert status == 0, err
    return sorted(reports, key=lambda report: int(report.get("rank", 0)))


def probe(name: str, python: str = PYTHON) -> tuple[str, ...]:
    """The command of a probe."""
    return (python, str(PROBES / f"{name}.py"))


OWN_PYTHON = sys.executable
