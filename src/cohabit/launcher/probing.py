"""Find what a job's environment offers to frameworks: which mpirun, Spark and Python. Run as the job's user.

PATH is the job's, so the programs found there belong to its owner. Standard library only. Output of programs is bounded
and not assumed to be text.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

PATIENCE_S = 15.0
SAID_MOST = 16 << 10
CREW = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "backend", "launchers", "crew.py")


def probe(framework: str, environment: Mapping[str, str], mpirun: str = "mpirun") -> dict[str, str]:
    """Return `mpirun` with its version text (`mpi_said`), `spark` and `python`; "" if missing."""
    path = environment.get("PATH", os.defpath)
    found = {"mpirun": "", "mpi_said": "", "spark": "", "python": sys.executable}
    if framework == "plain":
        return found
    found["python"] = _python()
    if framework == "mpi":
        found["mpirun"] = shutil.which(mpirun, path=path) or ""
        found["mpi_said"] = _version(found["mpirun"], environment) if found["mpirun"] else ""
    if framework == "spark":
        found["spark"] = _spark(environment, path)
    return found


def _python() -> str:
    """Return a Python that this user may execute, for the crew: the launcher's may be in a folder closed to others."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        try:
            done = subprocess.run(
                [candidate, "-I", "-S", "-c", f"open({CREW!r})"],
                timeout=PATIENCE_S,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
                cwd="/",
                env={},
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return candidate
    return sys.executable


def _version(program: str, environment: Mapping[str, str]) -> str:
    """Return the beginning of what it prints for --version."""
    try:
        with subprocess.Popen(
            [program, "--version"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        ) as process:
            assert process.stdout is not None
            try:
                said = process.stdout.read(SAID_MOST)
            finally:
                process.kill()
    except (OSError, ValueError):
        return ""
    return said.decode(errors="replace")


def _spark(environment: Mapping[str, str], path: str) -> str:
    """Return SPARK_HOME, else the folder of spark-submit; spark-class must be beside it."""
    home = environment.get("SPARK_HOME")
    submit = os.path.join(home, "bin", "spark-submit") if home else shutil.which("spark-submit", path=path)
    if not submit or not os.path.isfile(submit):
        return ""
    for folder in (os.path.dirname(submit), os.path.dirname(os.path.realpath(submit))):  # a link, in /usr/local/bin
        if os.path.isfile(os.path.join(folder, "spark-class")):
            return folder
    return ""
