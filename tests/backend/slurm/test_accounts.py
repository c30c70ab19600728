"""Nodes are shared within an account (`share_with = "account"`), with the accounts of jobs on a real Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backend.slurm.steering import attached, jobs_of, log_of, submit, until, write_site
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm-8")]


def test_jobs_of_two_accounts_are_on_no_node_at_once(empty: SlurmCluster, tmp_path: Path) -> None:
    """Sixteen small jobs would fit on one node; those of two accounts are on two."""
    keys = 'share_with = "account"'
    go = tmp_path / "go"
    with attached(write_site(empty, tmp_path, "cs", keys)):
        names = {
            submit(empty, tmp_path, go, "-n1", "--time=10", f"--account={account}"): account
            for account in ("physics", "biology") * 8
        }

        def all_run() -> bool:
            found = jobs_of(empty)
            return all(found[name].state == "RUNNING" for name in names)

        until(all_run, 120, log_of(tmp_path))
        accounts_on: dict[str, set[str]] = {}
        for name, job in jobs_of(empty).items():
            for node in job.nodes if name in names else ():
                accounts_on.setdefault(node, set()).add(names[name])
        assert all(len(there) == 1 for there in accounts_on.values()), accounts_on
        assert set().union(*accounts_on.values()) == {"physics", "biology"}
        go.touch()
