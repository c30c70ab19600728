"""`attach` without root: SlurmUser may steer, and is told what it cannot do; other accounts are refused."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import chown

import pytest

from tests.backend.slurm.conftest import LUA
from tests.backend.slurm.steering import STEERS, as_account, jobs_of, stop, until
from tests.support.slurm_cluster import SlurmCluster, missing, running_slurm

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.xdist_group("slurm-user")]
LOOK = """
import asyncio, os, sys
from pathlib import Path
from cohabit.app.steer.slurm_site import read_slurm_site
from cohabit.backend.steered.marks import Before, run_mark
from cohabit.model.errors import InputError
os.setgroups([]), os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))  # where Python lies may be closed to others
async def steer():
    around = await read_slurm_site(Path(sys.argv[1])).look_around()
    for job in await around.manager.jobs():
        await around.manager.place(job.name, ["n1"], 2, run_mark(1, Before(1, 0, 1, 2)))
        await around.manager.release([job.name])
try:
    asyncio.run(steer())
except InputError as error:
    sys.exit(str(error))
"""
SITE = 'place = "place"\n[policy]\nname = "cs"\n[slurm]\npartitions = ["all"]\nconf = "{conf}"\n'


@contextmanager
def ruled_by_daemon() -> Iterator[tuple[SlurmCluster, Path]]:
    """A Slurm whose SlurmUser is daemon, which holds jobs for a lease in a place beside it, and that place's site."""
    if reason := missing():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="cohabit-user-") as above:
        Path(above).chmod(0o755)
        folder, place, site = Path(above) / "slurm", Path(above) / "place", Path(above) / "site.toml"
        place.mkdir()
        chown(place, "daemon", "daemon")

        def give() -> None:
            for one in (folder, folder / "state"):
                chown(one, "daemon", "daemon")

        text = LUA.read_text(encoding="utf-8").replace("/var/lib/cohabit/lease", str(place / "lease"))
        with running_slurm(
            folder, nodes=2, cores=4, job_submit=text, name="user", more="SlurmUser=daemon", first=give
        ) as slurm:
            site.write_text(SITE.format(conf=slurm.conf))
            yield slurm, site


def by_bin(slurm: SlurmCluster, *options: str) -> str:
    bin_ = ("setpriv", "--reuid=bin", "--regid=bin", "--clear-groups")
    return slurm.run(*bin_, "sbatch", "--parsable", "-o/dev/null", "--chdir=/", *options).strip()


def test_slurm_user_may_steer_and_others_are_refused() -> None:
    with ruled_by_daemon() as (slurm, site):
        (site.parent / "place" / "lease").write_text("9999999999 all 1\n")
        job = by_bin(slurm, "-n2", "--wrap=true")

        def look(uid: int) -> tuple[int, str]:
            words = [sys.executable, "-c", LOOK, str(site), str(uid)]
            done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
            return done.returncode, done.stderr

        status, said = look(2)
        assert status == 1
        assert "account 2 is neither root nor SlurmUser (1), so Slurm refuses to let it steer" in said
        assert jobs_of(slurm)[job].held
        status, said = look(1)
        assert status == 0, said
        assert "account 1 is not root: sbatch of all users is steered, but `cohabit submit` takes jobs of" in said
        until(lambda: jobs_of(slurm)[job].state == "COMPLETED", 60)
        assert jobs_of(slurm)[job].nodes == ("n1",)


@pytest.mark.parametrize("account", ["daemon", "root"])  # that types detach
def test_slurm_user_attaches_and_ends_at_detach(account: str) -> None:
    """With the whole program as that account; it has no home."""
    with ruled_by_daemon() as (slurm, site):
        log, around = site.parent / "attach.log", os.environ | {"HOME": "/nonexistent", "PYTHONUNBUFFERED": "1"}
        call = ("-m", "cohabit.cli", "slurm")
        words = as_account("daemon", site.parent, *call, "attach", str(site))
        with log.open("wb") as said:
            attach = subprocess.Popen(words, stdout=said, stderr=said, env=around, cwd="/")
        try:
            until(lambda: STEERS in log.read_text(), 400, log.read_text)  # it may compile everything
            runs = [by_bin(slurm, "-n4", "--wrap=sleep 60") for _ in range(2)]
            waits = by_bin(slurm, "-n4", "--wrap=true")
            until(lambda: all(jobs_of(slurm)[name].runs for name in runs), 60, log.read_text)
            assert jobs_of(slurm)[waits].mark.startswith("cohabit:held")
            types = as_account(account, site.parent, *call, "detach", str(site))
            done = subprocess.run(types, env=around, cwd="/", capture_output=True, text=True, timeout=120, check=False)
            assert (done.returncode, done.stdout) == (0, "1 job was given back to Slurm\n"), done.stderr
            assert attach.wait(30) == 0, log.read_text()
        finally:
            stop(attach)
        job = jobs_of(slurm)[waits]
        assert (job.held, job.mark) == (False, "cohabit:back")
        assert all(jobs_of(slurm)[name].runs for name in runs)
