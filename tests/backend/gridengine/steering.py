"""Driving a steered Grid Engine from tests: site files, jobs, a controller in its own process, and what was done."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cohabit.backend.gridengine import xml_output
from cohabit.backend.gridengine.xml_output import Listed
from tests.backend.slurm import steering as of_slurm
from tests.backend.slurm.steering import stop
from tests.support.gridengine_cluster import GridEngineCluster

PATIENCE_S = 240  # on a machine that does much else besides
SCRIPT = "#!/bin/sh\necho $JOB_ID $(date +%s.%N) >> {runs}\nexec sleep {seconds}\n"
SITE = """place = "{place}"
[policy]
name = "{policy}"
{keys}
[gridengine]
{table}
bin = "{bin}"
lease = "{folder}/lease"
lease_s = {lease_s}
poll_s = 0.5
start_within_s = {within_s}
"""


def until(condition: Callable[[], object], what: Callable[[], str] | str = "") -> None:
    """Wait for it; `what` to say if it does not happen."""
    of_slurm.until(condition, PATIENCE_S, what)


def write_site(
    ge: GridEngineCluster, folder: Path, policy: str = "ce", keys: str = "", lease_s: float = 60, within_s: float = 20,
    more: str = "", table: str = 'queue = "all.q"',
) -> Path:  # fmt: skip
    """A site file; its state is beside it. `table`: lines of [gridengine], `more`: other tables."""
    path = folder / "site.toml"
    path.write_text(SITE.format(
        place=folder / "state", policy=policy, keys=keys, bin=ge.bin, folder=ge.folder, lease_s=lease_s,
        within_s=within_s, table=table,
    ) + more)  # fmt: skip
    return path


def submit(ge: GridEngineCluster, folder: Path, seconds: float, *options: str, user: str = "") -> str:
    """A batch job that notes every run of it in FOLDER/runs; its number."""
    folder.chmod(0o1777)
    script = folder / f"job-{seconds:g}.sh"
    script.write_text(SCRIPT.format(runs=folder / "runs", seconds=seconds))
    words = ("qsub", "-terse", "-o", "/dev/null", "-j", "y", "-l", "h_rt=600", *options, str(script))
    return ge.run(*words, user=user).strip()


def rows_of(ge: GridEngineCluster) -> list[Listed]:
    """All that Grid Engine lists; every task of an array that runs is a row."""
    return xml_output.listed(ge.run("qstat", "-xml", "-u", "*", "-g", "t"))


def jobs_of(ge: GridEngineCluster) -> dict[str, Listed]:
    """The same by names, for jobs that are no arrays."""
    return {one.name: one for one in rows_of(ge)}


def runs_noted(folder: Path) -> list[str]:
    """Every run of every job, as the jobs themselves say."""
    found = folder / "runs"
    return [line.split()[0] for line in found.read_text().splitlines()] if found.exists() else []


def start_attached(site: Path) -> subprocess.Popen[bytes]:
    """A controller; returns when it steers."""
    log = site.parent / "attach.log"
    before = log.read_text().count("cohabit: steering") if log.exists() else 0
    with log.open("ab") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.backend.gridengine.attach", "gridengine", "attach", str(site)], stdout=said,
            stderr=said, env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip

    def steers() -> bool:
        assert process.poll() is None, log.read_text()
        return log.read_text().count("cohabit: steering") > before

    until(steers, "the controller did not start")
    return process


@contextmanager
def attached(site: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A controller until the block ends."""
    process = start_attached(site)
    try:
        yield process
    finally:
        stop(process)
