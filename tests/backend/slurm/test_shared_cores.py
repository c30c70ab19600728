"""Two jobs that each want all cores share a node where the partition lets jobs that ask for it share cores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backend.slurm.steering import attached, jobs_of, log_of, submit, until, write_site
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm-8")]


@pytest.fixture
def sharing(empty: SlurmCluster) -> Iterator[SlurmCluster]:
    """The cluster with OverSubscribe=YES:2, as a site would write it into slurm.conf."""
    empty.run("scontrol", "update", "PartitionName=all", "OverSubscribe=YES:2")
    yield empty
    empty.run("scontrol", "update", "PartitionName=all", "OverSubscribe=NO")


def nodes_of(slurm: SlurmCluster, names: list[str]) -> list[tuple[str, ...]]:
    """Where these jobs run; jobs that do not are left out."""
    found = jobs_of(slurm)
    return [found[name].nodes for name in names if found[name].state == "RUNNING"]


def test_two_jobs_that_want_all_cores_run_on_one_node(sharing: SlurmCluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    with attached(write_site(sharing, tmp_path, "fifo-shared")):
        names = [submit(sharing, tmp_path, go, "-n28", "--time=10") for _ in range(16)]
        until(lambda: len(nodes_of(sharing, names)) == 16, 90, log_of(tmp_path))
        used = [node for nodes in nodes_of(sharing, names) for node in nodes]
        assert sorted(used) == sorted(2 * [f"n{number}" for number in range(8)])
        go.touch()
        until(lambda: all(one.state == "COMPLETED" for name, one in jobs_of(sharing).items() if name in names), 90)


def test_a_job_alone_on_its_node_is_joined_by_no_other(sharing: SlurmCluster, tmp_path: Path) -> None:
    """`--exclusive` keeps its meaning, and a plain job of another partition's kind does not get cores of ours."""
    go = tmp_path / "go"
    with attached(write_site(sharing, tmp_path, "fifo-shared")):
        alone = [submit(sharing, tmp_path, go, "-n28", "--exclusive", "--time=10") for _ in range(4)]
        others = [submit(sharing, tmp_path, go, "-n28", "--time=10") for _ in range(8)]
        until(lambda: len(nodes_of(sharing, alone + others)) == 12, 90, log_of(tmp_path))
        mine = {node for nodes in nodes_of(sharing, alone) for node in nodes}
        theirs = {node for nodes in nodes_of(sharing, others) for node in nodes}
        assert len(mine) == len(theirs) == 4
        assert not mine & theirs
        go.touch()


def test_without_the_partitions_leave_every_core_has_one_job(empty: SlurmCluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    with attached(write_site(empty, tmp_path, "fifo-shared")):
        names = [submit(empty, tmp_path, go, "-n28", "--time=10") for _ in range(9)]
        until(lambda: len(nodes_of(empty, names)) == 8, 90, log_of(tmp_path))
        assert "OverSubscribe=YES:2" in log_of(tmp_path)()
        go.touch()
