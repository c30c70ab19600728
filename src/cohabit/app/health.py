"""What this host offers: a list of findings, each with what to do where something is missing. Changes nothing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

REQUIRED = ("numpy", "numba", "polars", "msgspec", "typer", "rich", "plotly", "psutil")
OPTIONAL = {  # module -> distribution, and what it is for
    "distributed": ("distributed", "sweep --dask (install cohabit[dask])"),
    "sklearn": ("scikit-learn", "train and reproduce colocation (install cohabit[learn])"),
    "skops": ("skops", "train (install cohabit[learn])"),
}


@dataclass
class Finding:
    """One thing looked at; state is ok, optional (not there, not needed) or missing."""

    what: str
    state: str
    found: str
    advice: str = ""


def examine() -> list[Finding]:
    """Look at everything."""
    return [_python(), *_libraries(), _kernels(), *_machine(), *_hardware(), *_sensors()]


def _python() -> Finding:
    good = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Finding(
        "Python", "ok" if good else "missing", platform.python_version(), "" if good else "use Python 3.11 to 3.13"
    )


def _libraries() -> list[Finding]:
    found = []
    for name in REQUIRED:
        present = importlib.util.find_spec(name) is not None
        version = importlib.metadata.version(name) if present else "not installed"
        found.append(Finding(name, "ok" if present else "missing", version, "" if present else "run make setup"))
    for module, (name, use) in OPTIONAL.items():
        present = importlib.util.find_spec(module) is not None
        version = importlib.metadata.version(name) if present else "not installed"
        found.append(Finding(name, "ok" if present else "optional", version, "" if present else f"only for {use}"))
    return found


def _kernels() -> Finding:
    from cohabit.compiled import is_warm

    warm = is_warm()
    return Finding(
        "compiled kernels", "ok" if warm else "optional", "ready" if warm else "not compiled yet",
        "" if warm else "the first run compiles them, once (about half a minute); `cohabit warm-up` does it now",
    )  # fmt: skip


def _machine() -> list[Finding]:
    import psutil

    memory = psutil.virtual_memory().total / 2**30
    disk = shutil.disk_usage(Path.cwd()).free / 2**30
    return [
        Finding("cores", "ok", str(os.cpu_count())),
        Finding("memory", "ok", f"{memory:.1f} GiB"),
        Finding("free disk here", "ok", f"{disk:.0f} GiB"),
    ]


def _sensors() -> list[Finding]:
    """What `cohabit measure` can read of a running program."""
    from cohabit.agent.sensors import offered

    found = []
    for one in offered():
        why = f" ({one.reason})" if one.reason else ""
        words = f"{len(one.counters)} counters{why}" if one.available else one.reason
        state = "ok" if one.available else "optional"
        found.append(Finding(f"counters from {one.source}", state, words, one.advice))
    return found


def _hardware() -> list[Finding]:
    """What sharing nodes and steering Slurm use; the simulator needs none of it."""
    from cohabit.agent.host import host_offers

    found = [
        Finding(one.what, "ok" if one.available else "optional", one.found, one.advice) for one in host_offers()
    ]  # fmt: skip
    slurm = shutil.which("scontrol")
    return [*found, Finding("Slurm", "ok", "present") if slurm else Finding("Slurm", "optional", "not here")]
