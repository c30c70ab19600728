"""What this machine offers to launchers: which mpirun, which Spark, who we are. Looks and asks; changes nothing.

Only what a framework needs is looked for: a plain job costs nothing here. PATH is the job's, so what is found there is
its owner's and is asked as its owner, never with more rights than the job will have.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from cohabit.backend.launchers.contract import Site
from cohabit.backend.launchers.crew_plan import PROGRAM
from cohabit.backend.launchers.mpi import parse_version

PATIENCE_S = 20.0


def detect(
    framework: str, environment: Mapping[str, str], mpirun: str = "mpirun", user: tuple[int, int] | None = None
) -> Site:
    """The site as a job with this environment finds it; `user` is (uid, gid) of a job that is not ours."""
    path = environment.get("PATH", os.defpath)
    found = shutil.which(mpirun, path=path) if framework == "mpi" else None
    mpi, version = parse_version(_ask(found, environment, user)) if found else ("", "")
    name = socket.gethostname()
    return Site(
        python=sys.executable if user is None or framework == "plain" else _python(*user),
        mpirun=found or "", mpi=mpi, mpi_version=version,
        spark=_spark(environment, path) if framework == "spark" else "",
        root=(os.geteuid() if user is None else user[0]) == 0,
        here=frozenset({"localhost", "127.0.0.1", name, name.partition(".")[0]}),
    )  # fmt: skip


@lru_cache(maxsize=64)
def _python(uid: int, gid: int) -> str:
    """A Python this user may execute, for the crew: ours may be in a folder that is closed to others."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        try:
            done = subprocess.run(
                [candidate, "-I", "-S", "-c", f"open({PROGRAM!r})"], timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
                capture_output=True, check=False, user=uid, group=gid, extra_groups=[], cwd="/", env={},
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return candidate
    return sys.executable


def _ask(program: str, environment: Mapping[str, str], user: tuple[int, int] | None) -> str:
    uid, gid = user or (None, None)
    try:
        done = subprocess.run(
            [program, "--version"], env=dict(environment), capture_output=True, text=True, timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL, check=False, user=uid, group=gid, extra_groups=None if user is None else [],
            cwd="/",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _spark(environment: Mapping[str, str], path: str) -> str:
    """SPARK_HOME, else where spark-submit is; spark-class must be beside it."""
    home = environment.get("SPARK_HOME")
    submit = str(Path(home, "bin", "spark-submit")) if home else shutil.which("spark-submit", path=path)
    if not submit or not Path(submit).is_file():
        return ""
    folder = Path(submit).parent
    return str(folder) if (folder / "spark-class").is_file() else str(_resolved(folder))


def _resolved(folder: Path) -> Path | str:
    """A link into another folder, as /usr/local/bin often is."""
    real = (folder / "spark-submit").resolve().parent
    return real if (real / "spark-class").is_file() else ""
