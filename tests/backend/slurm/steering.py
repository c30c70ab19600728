"""Driving a steered Slurm from tests: site files, jobs, a controller in a process of its own, and what Slurm did."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cohabit.backend.slurm.calls import Calls
from cohabit.backend.slurm.reading import JobReader
from cohabit.backend.steered.contract import ManagerAway
from cohabit.backend.steered.shapes import ManagerJob
from tests.support.slurm_cluster import SlurmCluster

SCRIPT = "#!/bin/sh\necho $SLURM_JOB_ID >> {runs}\n{work}\n"
STAY = "while [ ! -e {go} ]; do sleep 0.2; done"
STEERS = "cohabit: steering"
SITE = """place = "{place}"
{more}
[policy]
name = "{policy}"
{keys}
[slurm]
partitions = ["all"]
conf = "{conf}"
lease = "{folder}/lease"
lease_s = {lease_s}
poll_s = 0.5
start_within_s = {within_s}
"""


def write_site(
    slurm: SlurmCluster, folder: Path, policy: str = "ce", keys: str = "", lease_s: float = 60, within_s: float = 20,
    more: str = "", node: str = "",
) -> Path:  # fmt: skip
    path = folder / "site.toml"
    path.write_text(SITE.format(
        place=folder / "state", policy=policy, keys=keys, conf=slurm.conf, folder=slurm.folder, lease_s=lease_s,
        within_s=within_s, more=more,
    ) + node)  # fmt: skip
    return path


def forget_lease(folder: Path) -> None:
    """And all that is beside it."""
    for name in ("lease", "lease.off", "lease.fuses", "lease.threshold"):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "lease.d", ignore_errors=True)


def submit(slurm: SlurmCluster, folder: Path, lasts: float | Path, *options: str) -> str:
    """A batch job that notes every run of it in FOLDER/runs, and lasts so many seconds or until there is such a file;
    its number."""
    name, work = (lasts.name, STAY.format(go=lasts)) if isinstance(lasts, Path) else (f"{lasts:g}", f"sleep {lasts}")
    script = folder / f"job-{name}.sh"
    script.write_text(SCRIPT.format(runs=folder / "runs", work=work))
    return slurm.run("sbatch", "--parsable", "--output=/dev/null", *options, str(script)).strip()


def as_account(account: str, folder: Path, *words: str) -> list[str]:
    """The call that makes another account run Python (words after it): Python may lie where others cannot read, so it
    gets mounts of its own; FOLDER is a place for one."""
    home = Path(sys.executable).resolve().parents[3]  # of all versions of Python
    shown = folder / f"python-{account}"
    shown.mkdir(exist_ok=True)
    lines = (
        "mount --make-rprivate /", f"mount --bind {home} {shown}", f"mount -t tmpfs -o mode=755 none {home.parent}",
        f"mkdir {home}", f"mount --bind {shown} {home}",
        f'exec setpriv --reuid={account} --regid={account} --clear-groups {sys.executable} "$@"',
    )  # fmt: skip
    return ["unshare", "--mount", "sh", "-ec", "\n".join(lines), "sh", *words]


def jobs_of(slurm: SlurmCluster) -> dict[str, ManagerJob]:
    """All Slurm remembers, read as the product reads it: no form of JSON is spoken by all versions."""
    for _ in range(10):
        with suppress(ManagerAway):
            return {one.name: one for one in asyncio.run(JobReader(Calls(str(slurm.conf))).all())}
    raise AssertionError("Slurm does not answer")


def runs_noted(folder: Path) -> list[str]:
    """Every run of every job, as the jobs themselves say."""
    return (folder / "runs").read_text().split() if (folder / "runs").exists() else []


def until(condition: Callable[[], object], seconds: float = 60, what: Callable[[], str] | str = "") -> None:
    """Wait for it; `what` to say if it does not happen."""
    until_s = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until_s:
            raise AssertionError(what() if callable(what) else what or "it did not happen")
        time.sleep(0.1)


def log_of(folder: Path) -> Callable[[], str]:
    """What the controller has said, when it is asked for."""
    return lambda: (folder / "attach.log").read_text()


def start_attached(*sites: Path, options: tuple[str, ...] = ()) -> list[subprocess.Popen[bytes]]:
    """Controllers, at the same time; returns when all of them steer."""
    before = {site: _log(site).count(STEERS) for site in sites}
    processes = {}
    for site in sites:
        with (site.parent / "attach.log").open("ab") as said:
            processes[site] = subprocess.Popen(
                [sys.executable, "-m", "tests.backend.slurm.attach", "slurm", "attach", *options, str(site)],
                stdout=said, stderr=said, env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )  # fmt: skip

    def all_steer() -> bool:
        for site, process in processes.items():
            assert process.poll() is None, _log(site)
        return all(_log(site).count(STEERS) > before[site] for site in sites)

    until(all_steer, 120, "the controller did not start")
    return list(processes.values())


def _log(site: Path) -> str:
    path = site.parent / "attach.log"
    return path.read_text() if path.exists() else ""


def stop(process: subprocess.Popen[bytes], hard: bool = False) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGKILL if hard else signal.SIGTERM)
    process.wait(60)


@contextmanager
def attached(site: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    (process,) = start_attached(site, options=options)
    try:
        yield process
    finally:
        stop(process)
