"""`attach` without root: as SlurmUser it steers everybody's jobs, and as any other account it is refused."""

from __future__ import annotations

import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import chown

import pytest

import cohabit
from tests.backend.slurm.conftest import LUA
from tests.backend.slurm.steering import jobs_of, until
from tests.support.slurm_cluster import SlurmCluster, missing, running_slurm

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.xdist_group("slurm-user")]
PYTHON = "/usr/bin/python3"  # one that an ordinary account may run
RUN = "from cohabit.cli.start import run; run()"
SITE = """place = "{mine}/state"
[policy]
name = "ce"
[slurm]
partitions = ["all"]
conf = "{conf}"
lease = "{folder}/lease"
poll_s = 0.5
"""


def as_user(user: str) -> list[str]:
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


@pytest.fixture(scope="module")
def python() -> Iterator[str]:
    """A Python with this package that the accounts of the test may run."""
    with tempfile.TemporaryDirectory(prefix="cohabit-python-") as folder:
        Path(folder).chmod(0o755)
        made = subprocess.run([PYTHON, "-m", "venv", "--without-pip", folder], capture_output=True, check=False)
        for packages in Path(folder).glob("lib/python3*/site-packages"):
            where = (Path(cohabit.__file__).parents[1], sysconfig.get_path("purelib"))
            (packages / "cohabit.pth").write_text("".join(f"{one}\n" for one in where))
        python = f"{folder}/bin/python"
        if made.returncode or subprocess.run([*as_user("bin"), python, "-c", "import cohabit.cli.start, numba"],
                                             cwd="/", capture_output=True, check=False).returncode:  # fmt: skip
            pytest.skip(f"{PYTHON} cannot run this package as an ordinary account")
        yield python


@contextmanager
def cluster_of(user: str) -> Iterator[tuple[SlurmCluster, Path]]:
    """A Slurm whose SlurmUser is this one, and a folder of each account."""
    with tempfile.TemporaryDirectory(prefix="cohabit-user-") as above:
        folder, text = Path(above) / "slurm", LUA.read_text(encoding="utf-8")
        Path(above).chmod(0o755)
        for one in ("daemon", "bin"):
            (Path(above) / one).mkdir()
            chown(Path(above) / one, one, one)

        def give() -> None:
            for one in (folder, folder / "state"):
                chown(one, user, user)

        text = text.replace("/var/lib/cohabit/lease", str(folder / "lease"))
        with running_slurm(
            folder, nodes=2, cores=4, job_submit=text, name="user", more=f"SlurmUser={user}", first=give
        ) as cluster:
            yield cluster, Path(above)


def test_attach_as_slurm_user_and_as_another(python: str) -> None:
    if reason := missing():
        pytest.skip(reason)
    with cluster_of("daemon") as (slurm, above):

        def words(user: str, verb: str) -> list[str]:
            site = above / user / "site.toml"
            site.write_text(SITE.format(mine=above / user, conf=slurm.conf, folder=slurm.folder))
            around = ["env", "-u", "PYTHONPATH", f"HOME={above / user}", "PATH=/usr/bin:/bin:/usr/sbin"]
            return [*as_user(user), *around, python, "-c", RUN, "slurm", verb, str(site)]

        refused = subprocess.run(words("bin", "attach"), cwd="/", capture_output=True, text=True, check=False)
        assert refused.returncode == 2
        assert "account 2 is neither root nor SlurmUser (1)" in refused.stderr
        log = above / "log"
        with log.open("wb") as said:
            process = subprocess.Popen(words("daemon", "attach"), cwd="/", stdout=said, stderr=said)
        try:
            until(lambda: "steering" in log.read_text() or process.poll() is not None, 120, log.read_text)
            assert "account 1 is not root" in log.read_text()
            submit = [*as_user("bin"), "sbatch", "--parsable", "--output=/dev/null", "--chdir=/", "-n2", "--wrap=true"]
            job = slurm.run(*submit).strip()
            until(lambda: jobs_of(slurm)[job].state == "COMPLETED", 60, log.read_text)
            assert jobs_of(slurm)[job].mark.startswith("cohabit:run:1:")
            slurm.run(*words("daemon", "detach"))
            assert process.wait(180) == 0, log.read_text()
        finally:
            process.kill()
