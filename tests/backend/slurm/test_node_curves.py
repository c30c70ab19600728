"""From an empty store to a shared node on a real Slurm: node daemons measure the curves that decide what jobs book.

The daemon of the node is `cohabit node serve` in a process of its own, on the enforcing fake of resctrl and a processor
that counts; it reports over the signed channel and keeps no store. Programs there need eight ways of the cache.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cohabit.app.steer.node_channel import keys_of
from cohabit.live.controller.place import Place
from cohabit.model.profile import ScaleProfile
from cohabit.store.profiles import open_store
from tests.backend.slurm.conftest import idle
from tests.backend.slurm.node_serve import COUNTING
from tests.backend.slurm.steering import attached, log_of, until, write_site
from tests.cli.cli_calls import COMMAND
from tests.ports import free_port
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm-node")]
WAYS = 18
NODE = """
[node]
ways = 18
min_ways = 2
closids = 16
bandwidth_gbs = [[1, 12.0], [28, 118.26]]
[nodes]
listen = "127.0.0.1:{port}"
"""


def site_of(small: SlurmCluster, folder: Path) -> Path:
    """One node, an empty store, programs that may be learned at one scale."""
    site = write_site(small, folder, "sns", "scales = [1]", node=NODE.format(port=free_port()))
    text = site.read_text().replace('partitions = ["all"]', 'partitions = ["first"]\nheld = "all"')
    site.write_text(text.replace("[slurm]", f'[slurm]\norders = "{folder}/orders"'))
    keys_of(site).make("n0", new=False)
    return site


@contextmanager
def served(small: SlurmCluster, folder: Path, site: Path, counting: bool) -> Iterator[None]:
    """The daemon of n0."""
    words = [sys.executable, "-m", "tests.backend.slurm.node_serve", str(folder / "mount"), "serve", str(site),
             "--name", "n0", "--folder", str(small.folder.parent / "node")]  # fmt: skip
    environment = small.environment | ({COUNTING: "1"} if counting else {})
    with (folder / "node.log").open("ab") as said:
        daemon = subprocess.Popen(words, stdout=said, stderr=said, env=environment)
    try:
        until((folder / "mount").exists, 120, (folder / "node.log").read_text)
        yield
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(60)


def run(small: SlurmCluster, folder: Path, seconds: int, wait: bool = True) -> str:
    script = folder / f"job-{seconds}.sh"
    script.write_text(f"#!/bin/sh\nsleep {seconds}\n")
    options = ("sbatch", "--parsable", "--hold", "--output=/dev/null", "-pfirst", "-n14", "-JMG", "-t5")
    job = small.run(*options, str(script)).strip()
    until(lambda: not wait or not small.run("squeue", "--noheader").strip(), 90, lambda: said(folder))
    return job


def said(folder: Path) -> str:
    return f"{log_of(folder)()}\n{(folder / 'node.log').read_text()}\n{(folder / 'mount').read_text()}"


def known(folder: Path) -> ScaleProfile | None:
    store = Place(folder / "state").profiles
    if not store.exists():
        return None
    with open_store(store) as opened:
        found = opened.get("MG", 14)
    return None if found is None else found.at_scale(1)


def cohabit(*words: str | Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [COMMAND, *map(str, words)], capture_output=True, text=True, timeout=120, check=False,
        env=os.environ | (environment or {}),
    )  # fmt: skip
    return done.stdout + done.stderr


def curves_row(site: Path) -> dict[str, str]:
    rows = json.loads(cohabit("doctor", "--site", site, "--json"))["needs"]
    return next(row for row in rows if row["need"] == "curves")


def test_nodes_measure_the_curves_by_which_jobs_then_share(empty_small: SlurmCluster, tmp_path: Path) -> None:
    small, site = empty_small, site_of(empty_small, tmp_path)
    assert curves_row(site)["found"] == "no daemon of a node has reported yet"
    with attached(site), served(small, tmp_path, site, counting=True):
        until(lambda: curves_row(site)["state"] == "met", 60, lambda: f"{curves_row(site)} {said(tmp_path)}")
        run(small, tmp_path, 6)
        until(lambda: (one := known(tmp_path)) is not None and one.time_s > 0, 30, lambda: said(tmp_path))
        run(small, tmp_path, 16)
        until(lambda: (one := known(tmp_path)) is not None and one.complete, 60, lambda: said(tmp_path))
        one = known(tmp_path)
        assert one is not None
        assert one.ipc is not None
        assert one.bandwidth_gbs is not None
        assert one.ipc.ways == (2, 4, 8, WAYS)
        assert one.ipc.values == pytest.approx((0.25, 0.5, 1.0, 1.0), rel=0.05)
        assert one.bandwidth_gbs.values == pytest.approx((4.0, 4.0, 1.0, 1.0), rel=0.15)
        assert 4 <= one.time_s <= 9, "the time is that of the run before, not of the one that was slowed"
        first, second = run(small, tmp_path, 12, wait=False), run(small, tmp_path, 12, wait=False)
        until(
            lambda: small.run("squeue", "--noheader", "--states=RUNNING").count("\n") == 2, 60, lambda: said(tmp_path)
        )
        why = cohabit("why", second, "--server", tmp_path / "state/cohabit.sock")
        assert "ways" in why, why
        assert first in why, "with which job it shares the node"
        until(lambda: not small.run("squeue", "--noheader").strip(), 60)
    idle(small)


def test_a_node_that_cannot_count_says_so_and_its_programs_share_by_cores(
    empty_small: SlurmCluster, tmp_path: Path
) -> None:
    small, site = empty_small, site_of(empty_small, tmp_path)
    with attached(site), served(small, tmp_path, site, counting=False):
        lacking = "instructions are not counted (no hardware counters)"
        until(lambda: lacking in log_of(tmp_path)(), 60, lambda: said(tmp_path))
        assert lacking in (tmp_path / "node.log").read_text()
        assert lacking in cohabit("node", "status", "--name", "n0", "--folder", small.folder.parent / "node")
        until(lambda: lacking in curves_row(site)["found"], 30, lambda: str(curves_row(site)))
        assert curves_row(site)["state"] == "done without"
        run(small, tmp_path, 4)
        run(small, tmp_path, 4)
        until(lambda: (one := known(tmp_path)) is not None and one.complete, 60, lambda: said(tmp_path))
        one = known(tmp_path)
        assert one is not None
        assert one.ipc is not None
        assert set(one.ipc.values) == {1.0}
        assert "what more cache would bring is not known" in log_of(tmp_path)()
    with attached(site):  # as the controller remembers it
        assert f"on 1 of 1 nodes that report: {lacking}" in log_of(tmp_path)()
    idle(small)
