"""`attach` without root: SlurmUser may steer, and is told what it cannot do; other accounts are refused."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import chown

import pytest

from tests.backend.slurm.conftest import LUA
from tests.backend.slurm.steering import jobs_of, until
from tests.support.slurm_cluster import missing, running_slurm

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
SITE = '[slurm]\npartitions = ["all"]\nconf = "{conf}"\n'


def test_slurm_user_may_steer_and_others_are_refused() -> None:
    if reason := missing():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="cohabit-user-") as above:
        Path(above).chmod(0o755)
        folder, site = Path(above) / "slurm", Path(above) / "site.toml"

        def give() -> None:
            for one in (folder, folder / "state"):
                chown(one, "daemon", "daemon")

        text = LUA.read_text(encoding="utf-8").replace("/var/lib/cohabit/lease", str(folder / "lease"))
        with running_slurm(
            folder, nodes=2, cores=4, job_submit=text, name="user", more="SlurmUser=daemon", first=give
        ) as slurm:
            site.write_text(SITE.format(conf=slurm.conf))
            (folder / "lease").write_text("9999999999 all 1\n")
            bin_ = ("setpriv", "--reuid=bin", "--regid=bin", "--clear-groups")
            job = slurm.run(*bin_, "sbatch", "--parsable", "-o/dev/null", "--chdir=/", "-n2", "--wrap=true").strip()

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
