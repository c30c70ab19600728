"""docs/install.md is typed on a real Slurm, block by block, the removal included: then Slurm is as it was."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backend.slurm.steering import jobs_of, until
from tests.support.slurm_cluster import SlurmCluster, missing, running_slurm

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.xdist_group("slurm-install")]
ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "install.md"
BLOCK = re.compile(r"^```sh( systemd)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
REMOVAL = "## Removal"
LONG = "#!/bin/sh\nsleep 600\n"


def blocks(text: str) -> list[str]:
    """What can be typed here; what is for systemd is left out, and there is some."""
    found = BLOCK.findall(text)
    assert any(systemd for systemd, _ in found)
    return [lines for systemd, lines in found if not systemd]


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[SlurmCluster]:
    """A Slurm nobody has touched."""
    if reason := missing():
        pytest.skip(reason)
    tmp_path.chmod(0o755)
    with running_slurm(tmp_path / "slurm", nodes=2, cores=4) as cluster:
        yield cluster


def environment(plain: SlurmCluster) -> dict[str, str]:
    """The usual paths in a folder of the test; the package is the one under test."""
    base, packages = plain.folder.parent, Path(sys.executable).parent
    return os.environ | {
        "SLURM_CONF": str(plain.conf), "COHABIT_PREFIX": str(packages.parent), "COHABIT_ETC": str(base / "etc"),
        "COHABIT_STATE": str(base / "state"), "COHABIT_RUN": str(base / "run"), "COHABIT_UNITS": str(base / "units"),
        "PATH": f"{packages}:{os.environ['PATH']}:/usr/sbin",
    }  # fmt: skip


def type_in(lines: list[str], around: dict[str, str]) -> str:
    """In one shell, as a person would; the first line that fails ends it."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)], cwd=ROOT, env=around, capture_output=True, text=True,
        timeout=600, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_the_guide_from_install_to_removal(plain: SlurmCluster) -> None:
    install, _, removal = GUIDE.read_text(encoding="utf-8").partition(REMOVAL)
    around, base = environment(plain), plain.folder.parent
    before, mode = plain.conf.read_bytes(), plain.conf.stat().st_mode
    script = base / "long.sh"
    script.write_text(LONG)
    submit = ("sbatch", "--parsable", "--output=/dev/null", "-n4", "-N1", str(script))
    running = plain.run(*submit).strip()
    until(lambda: jobs_of(plain)[running].state == "RUNNING", 60)
    try:
        said = type_in(blocks(install), around)
        assert "AdminComment=cohabit:run" in said  # it was steered
        assert "cohabit: steering" in (base / "state" / "attach.log").read_text()
        kept = plain.run("scontrol", "show", "config")
        assert re.search(r"JobSubmitPlugins\s*= lua", kept)
        assert re.search(rf"Prolog(\[0\])?\s*= {base}/etc/prolog.sh", kept)
        others = [plain.run(*submit).strip() for _ in range(3)]  # the first runs; two wait, held for Cohabit
        until(lambda: jobs_of(plain)[others[0]].state == "RUNNING", 60, (base / "state" / "attach.log").read_text)
        until(lambda: all(jobs_of(plain)[job].held for job in others[1:]), 60)
        first = next(line for line in install.splitlines() if line.startswith("export SLURM_CONF"))
        exports = [line for line in install.splitlines() if line.startswith("export ")]
        assert first in exports
        said = type_in([*exports, *blocks(removal)], around | {"job": ""})
        assert "is as it was" in said
    finally:
        pid = base / "state" / "attach.pid"
        if pid.exists():
            subprocess.run(["kill", "-KILL", pid.read_text().strip()], check=False, capture_output=True)
    assert plain.conf.read_bytes() == before
    assert plain.conf.stat().st_mode == mode
    left = sorted(path.name for path in base.iterdir())
    assert left == ["etc", "long.sh", "slurm", "state", "units"]
    assert [path.name for path in (base / "etc").iterdir()] == ["slurm.toml"]  # kept, and said so
    assert f"kept: {base}/etc/slurm.toml" in said
    assert f"kept: {base}/state" in said
    assert list((base / "units").iterdir()) == []
    assert not [path for path in plain.folder.iterdir() if "cohabit" in path.name or path.name == "job_submit.lua"]
    jobs = jobs_of(plain)
    assert [jobs[job].state for job in (running, others[0])] == ["RUNNING", "RUNNING"]
    for job in others[1:]:  # given back: they wait for nodes, not for us, with what their owner asked for
        assert (jobs[job].state, jobs[job].held, jobs[job].cpus) == ("PENDING", False, 4)
    kept = plain.run("scontrol", "show", "config")
    assert re.search(r"^JobSubmitPlugins\s*= \(null\)$", kept, re.MULTILINE)
    assert f"{base}/etc" not in kept
    plain.run("scancel", running)
    until(lambda: jobs_of(plain)[others[1]].state == "RUNNING", 60)  # plain Slurm starts it
    assert {line.split()[1] for line in plain.run("sinfo", "-hN", "-o", "%N %T").splitlines()} == {"allocated"}


def test_a_slurm_with_scripts_of_its_own_is_left_alone(plain: SlurmCluster) -> None:
    around = environment(plain)
    for line in ("JobSubmitPlugins=lua", "Prolog=/etc/slurm/prolog", "epilog = /etc/slurm/epilog"):
        text = plain.conf.read_text()
        plain.conf.write_text(text + line + "\n")
        done = subprocess.run(
            ["packaging/install.sh", "controller"], cwd=ROOT, env=around, capture_output=True, text=True
        )
        assert done.returncode == 2
        assert "already: join the two by hand" in done.stderr
        assert plain.conf.read_text() == text + line + "\n"
        assert not Path(around["COHABIT_ETC"]).exists()
        plain.conf.write_text(text)


def test_later_changes_of_the_operator_stay(plain: SlurmCluster) -> None:
    """Only the block goes; empty lines and a line added after it stay."""
    around, text = environment(plain), plain.conf.read_text()
    plain.conf.write_text(text + "\n\n# the end")  # no newline at the end
    before = plain.conf.read_text()
    for step in ("node", "controller"):
        subprocess.run(["packaging/install.sh", step], cwd=ROOT, env=around, check=True, capture_output=True)
    plain.conf.write_text(plain.conf.read_text() + "MaxJobCount=20000\n")
    said = subprocess.run(
        ["packaging/install.sh", "remove"], cwd=ROOT, env=around, check=True, capture_output=True, text=True
    ).stdout
    assert "our block is out" in said
    assert plain.conf.read_text() == before + "\nMaxJobCount=20000\n"
    assert Path(f"{plain.conf}.before-cohabit").read_text() == before
