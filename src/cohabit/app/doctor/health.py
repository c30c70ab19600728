"""Examine what this host offers: a list of findings, each with a remedy where something is missing. Changes nothing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import pwd
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Tool(NamedTuple):
    """A tool to look for: programs in PATH, any of which is enough, or a Python module."""

    what: str
    programs: tuple[str, ...]
    use: str
    packages: tuple[str, str]  # of Debian and derivatives, of Fedora and derivatives; "": it has none
    otherwise: str = ""  # if there is no package


@dataclass
class Finding:
    """One item examined; state is ok, optional (absent, not needed) or missing."""

    what: str
    state: str
    found: str
    advice: str = ""  # what it would be useful for, or what is wrong
    command: str = ""  # to be typed, if it changes the finding


REQUIRED = ("numpy", "numba", "polars", "msgspec", "typer", "rich", "plotly", "psutil")
SERVING = ("fastapi", "uvicorn", "sqlalchemy")
OPTIONAL = {  # module -> distribution, its purpose, and the extra that installs it
    "distributed": ("distributed", "sweep --dask", "dask"),
    "sklearn": ("scikit-learn", "train, and reproduce colocation", "learn"),
    "skops": ("skops", "train", "learn"),
}
LEAST_DISK_GIB = 1.0
ABSENT = "not here"
TOOLS = (
    Tool("MPI", ("mpirun", "mpiexec"), "submit --framework mpi", ("openmpi-bin", "openmpi")),
    Tool("Spark", ("spark-submit",), "submit --framework spark", ("", ""), "unpack it and set SPARK_HOME"),
    Tool("Java", ("java",), "Spark", ("default-jre-headless", "java-latest-openjdk-headless")),
    Tool("valgrind", ("valgrind",), "profiles where the processor shows no counters", ("valgrind", "valgrind")),
    Tool("systemd", ("systemctl",), "serving from boot on: packaging/systemd", ("", "")),
    Tool("Slurm", ("scontrol",), "cohabit slurm", ("slurm-client", "slurm")),
    Tool("Grid Engine", ("qstat", "qconf"), "reading its logs and steering it", ("gridengine-client", "")),
)
MODULES = {  # module -> what, use
    "tensorflow": ("TensorFlow", "submit --framework tensorflow"),
    "torch": ("PyTorch", "submit --framework pytorch"),
    "psycopg": ("PostgreSQL driver", "a journal in PostgreSQL: database = in the site file"),
}


def examine() -> list[Finding]:
    """Examine everything."""
    return [
        _python(),
        *_libraries(),
        _kernels(),
        *_machine(),
        *_hardware(),
        *_sensors(),
        *look(),
        _account(),
        *_scheduler(),
    ]


def _python() -> Finding:
    good = (3, 11) <= sys.version_info[:2] <= (3, 14)
    return Finding(
        "Python",
        "ok" if good else "missing",
        platform.python_version(),
        "" if good else "use Python 3.11 to 3.14",
    )


def _libraries() -> list[Finding]:
    needed = [(name, name, "missing", "cohabit cannot work without it", name) for name in (*REQUIRED, *SERVING)]
    useful = [
        (module, name, "optional", f"only for {use}", f"'cohabit[{extra}]'")
        for module, (name, use, extra) in OPTIONAL.items()
    ]
    return [
        Finding(name, "ok", importlib.metadata.version(name))
        if importlib.util.find_spec(module) is not None
        else Finding(name, state, "not installed", advice, f"pip install {package}")
        for module, name, state, advice, package in needed + useful
    ]


def _kernels() -> Finding:
    from cohabit.compiled import is_warm

    warm = is_warm()
    return Finding(
        "compiled kernels",
        "ok" if warm else "optional",
        "ready" if warm else "not compiled yet",
        "" if warm else "the first run compiles them, once (two to three minutes)",
        "" if warm else "cohabit warm-up",
    )


def _machine() -> list[Finding]:
    import psutil

    memory = psutil.virtual_memory().total / 2**30
    disk = shutil.disk_usage(Path.cwd()).free / 2**30
    return [
        Finding("cores", "ok", str(os.cpu_count())),
        Finding("memory", "ok", f"{memory:.1f} GiB"),
        Finding(
            "free disk here",
            "ok" if disk >= LEAST_DISK_GIB else "optional",
            f"{disk:.1f} GiB",
            "" if disk >= LEAST_DISK_GIB else "a scheduler refuses new work when its disk is full",
        ),
    ]


def _sensors() -> list[Finding]:
    """Report what `cohabit measure` can read of a running program."""
    from cohabit.agent.sensors.catalogue import offered

    found = []
    for one in offered():
        why = f" ({one.reason})" if one.reason else ""
        words = f"{len(one.counters)} counters{why}" if one.available else one.reason
        state = "ok" if one.available else "optional"
        found.append(Finding(f"counters from {one.source}", state, words, *_typed(one.advice)))
    return found


def _hardware() -> list[Finding]:
    """Report the hardware features that sharing nodes uses; the simulator needs none of them."""
    from cohabit.agent.host import host_offers

    return [
        Finding(one.what, "ok" if one.available else "optional", one.found, *_typed(one.advice))
        for one in host_offers()
    ]


def _typed(advice: str) -> tuple[str, str]:
    """Split advice that is a command from the words around it."""
    found = re.match(r"((?:mount -t|sysctl|apt-get|dnf) [^(,;]+?)(?: \(as root\))?(?:, (.+))?$", advice)
    if found is None:
        return advice, ""
    return found[2] or "", found[1] if os.geteuid() == 0 else f"sudo {found[1]}"


def look() -> list[Finding]:
    """Look for programs and modules that jobs or this scheduler can use."""
    return [*(_program(one) for one in TOOLS), *(_module(name) for name in MODULES)]


def install(packages: tuple[str, str]) -> str:
    """Return the install command for this system's packages; empty: no package, or an unknown system."""
    sudo = "" if os.geteuid() == 0 else "sudo "
    for manager, package in zip(("apt-get", "dnf"), packages, strict=True):
        if package and shutil.which(manager):
            return f"{sudo}{manager} install {package}"
    return ""


def _program(tool: Tool) -> Finding:
    path = next((found for name in tool.programs if (found := shutil.which(name))), None)
    if path is None and tool.what == "Spark" and (home := os.environ.get("SPARK_HOME")):
        path = shutil.which("spark-submit", path=os.path.join(home, "bin"))
    if path is not None:
        return Finding(tool.what, "ok", path)
    advice = f"for {tool.use}" + (f": {tool.otherwise}" if tool.otherwise else "")
    return Finding(tool.what, "optional", ABSENT, advice, install(tool.packages))


def _module(name: str) -> Finding:
    what, use = MODULES[name]
    if importlib.util.find_spec(name) is not None:
        return Finding(what, "ok", "in this Python")
    advice = f"for {use}, unless jobs bring a Python of their own that has it"
    package = "psycopg[binary]" if name == "psycopg" else name
    return Finding(what, "optional", ABSENT, advice, f"pip install {package}")


def _account() -> Finding:
    """Report the account a controller started by root would run as."""
    from cohabit.live.controller.runs_as import LauncherConfig

    name = LauncherConfig().account
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError:
        sudo = "" if os.geteuid() == 0 else "sudo "
        command = f"{sudo}useradd --system --no-create-home --shell /usr/sbin/nologin {name}"
        return Finding(f"account {name}", "optional", ABSENT, "a controller that root starts runs as it", command)
    return Finding(f"account {name}", "ok", f"uid {uid}: a controller that root starts runs as it")


def _scheduler() -> list[Finding]:
    """Report whether a scheduler answers at the default address, and the account its processes run as."""
    from cohabit.app.client.client import connect
    from cohabit.app.client.connection import Unavailable
    from cohabit.model.errors import InputError

    try:
        client = connect(None)
        told = client.ping()
    except (InputError, Unavailable, OSError) as error:
        return [Finding("a running scheduler", "optional", "none answers", f"{error}".partition(";")[0], "cohabit up")]
    found = [
        Finding(
            "a running scheduler",
            "ok",
            f"{client.address}: policy {told.get('policy', '?')}, you are {told['user']} ({told['role']})",
        )
    ]
    for process, does in (("controller", "answers requests and decides"), ("launcher", "starts jobs")):
        if (uid := told.get(f"{process}_uid")) is not None:
            found.append(_process(process, int(uid), does))
    if away := told.get("store_away"):
        found.append(Finding("its profile store", "missing", "is away", f"{away}; what is learned is written later"))
    elif store := told.get("store"):
        found.append(Finding("its profile store", "ok", str(store)))
    return found


def _process(process: str, uid: int, does: str) -> Finding:
    try:
        name = f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        name = f"uid {uid}, which has no name"
    if process == "controller" and uid == 0:
        advice = "a security hole in it gives away the rights of root: start it without --as-root"
        return Finding(f"its {process}", "optional", f"runs as {name}, {does}", advice)
    return Finding(f"its {process}", "ok", f"runs as {name}, {does}")
