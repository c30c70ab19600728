"""External programs that jobs or this scheduler can use, and the command to install each. Changes nothing."""

from __future__ import annotations

import importlib.util
import os
import shutil
from typing import NamedTuple


class Tool(NamedTuple):
    """A tool to look for: programs in PATH, any of which is enough, or a Python module."""

    what: str
    programs: tuple[str, ...]
    use: str
    packages: tuple[str, str]  # of Debian and derivatives, of Fedora and derivatives; "": it has none
    otherwise: str = ""  # if there is no package


class Looked(NamedTuple):
    """The result for one tool."""

    what: str
    found: str  # empty: it is not installed
    advice: str
    command: str  # to be typed; empty: there is none


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


def look() -> list[Looked]:
    """Look for all of them."""
    return [*(_program(one) for one in TOOLS), *(_module(name) for name in MODULES)]


def install(packages: tuple[str, str]) -> str:
    """Return the install command for this system's packages; empty: no package, or an unknown system."""
    sudo = "" if os.geteuid() == 0 else "sudo "
    for manager, package in zip(("apt-get", "dnf"), packages, strict=True):
        if package and shutil.which(manager):
            return f"{sudo}{manager} install {package}"
    return ""


def _program(tool: Tool) -> Looked:
    path = next((found for name in tool.programs if (found := shutil.which(name))), None)
    if path is None and tool.what == "Spark" and (home := os.environ.get("SPARK_HOME")):
        path = shutil.which("spark-submit", path=os.path.join(home, "bin"))
    if path is not None:
        return Looked(tool.what, path, "", "")
    return Looked(tool.what, "", f"for {tool.use}" + (f": {tool.otherwise}" if tool.otherwise else ""),
                  install(tool.packages))  # fmt: skip


def _module(name: str) -> Looked:
    what, use = MODULES[name]
    if importlib.util.find_spec(name) is not None:
        return Looked(what, "in this Python", "", "")
    return Looked(what, "", f"for {use}, unless jobs bring a Python of their own that has it",
                  f"pip install {'psycopg[binary]' if name == 'psycopg' else name}")  # fmt: skip
