"""`cohabit node serve` on a real slurmd reports to a controller that steers: a run and telemetry are in its journal.

The gate delays by that telemetry and says which counter did it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cohabit.app.steer.node_channel import keys_of
from cohabit.live.controller.journal import open_journal
from cohabit.live.controller.place import Place
from cohabit.model import codec
from cohabit.model.event import Event, ProfileLearned, TelemetryReduced
from cohabit.model.telemetry import decode
from cohabit.predict.variability_data import TYPE_COLUMNS
from cohabit.predict.variability_file import save_variability
from cohabit.predict.variability_training import TrainedVariability
from tests.backend.slurm.conftest import idle
from tests.backend.slurm.steering import attached, jobs_of, log_of, until, write_site
from tests.core.test_gating import HighestAbove
from tests.ports import free_port
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm-node")]
TABLES = """
[nodes]
listen = "127.0.0.1:{port}"
[telemetry]
every_s = 1
window_s = 3
"""


def facts(folder: Path) -> list[Event]:
    """All that the core was told."""
    journal = open_journal(Place(folder / "state").journal)
    try:
        return [event for batch in journal.batches(after=0) for event in codec.decode_events(batch.events)]
    finally:
        journal.close()


@contextmanager
def served(small: SlurmCluster, folder: Path, *words: str) -> Iterator[None]:
    """The daemon of n0."""
    program = [sys.executable, "-m", "cohabit.cli", "node", "serve", "--name", "n0"]
    with (folder / "node.log").open("ab") as said:
        daemon = subprocess.Popen(
            [*program, "--folder", str(small.folder.parent / "node"), *words], stdout=said, stderr=said,
            env=small.environment,
        )  # fmt: skip
    try:
        yield
    finally:
        daemon.terminate()
        daemon.wait(60)


def run(small: SlurmCluster, folder: Path, *words: str) -> str:
    script = folder / "job.sh"
    script.write_text("#!/bin/sh\nsleep 3\n")
    options = ("sbatch", "--parsable", "--hold", "--output=/dev/null", "-N1", "-pfirst")
    return small.run(*options, *words, str(script)).strip()


def site_of(small: SlurmCluster, folder: Path, policy: str, keys: str = "") -> Path:
    tables = TABLES.format(port=free_port())
    site = write_site(small, folder, policy, keys, node=tables)
    site.write_text(site.read_text().replace('partitions = ["all"]', 'partitions = ["first"]\nheld = "all"'))
    keys_of(site).make("n0", new=False)
    return site


def test_a_run_and_telemetry_reach_the_journal(empty_small: SlurmCluster, tmp_path: Path) -> None:
    small, site = empty_small, site_of(empty_small, tmp_path, "cs")
    wrong = tmp_path / "wrong.key"
    wrong.write_text("1 " + "ab" * 32)
    wrong.chmod(0o600)
    port = keys_of(site).port
    with attached(site):
        with served(small, tmp_path, "--key", str(wrong), "--controller", f"127.0.0.1:{port}"):
            until(lambda: "not signed with the key of node n0" in (tmp_path / "node.log").read_text(), 60)
        with served(small, tmp_path, str(site)):
            until(lambda: any(isinstance(one, TelemetryReduced) for one in facts(tmp_path)), 60, log_of(tmp_path))
            job = run(small, tmp_path, "-n28", "-JCG", "--comment=cohabit:type=io")

            def learned() -> list[ProfileLearned]:
                return [one for one in facts(tmp_path) if isinstance(one, ProfileLearned)]

            until(learned, 90, lambda: f"{log_of(tmp_path)()} {(tmp_path / 'node.log').read_text()}")
    (fact,) = learned()
    ran = jobs_of(small)[job]
    assert (fact.program, fact.processes, fact.owner) == ("CG", 28, str(ran.user)), "by Slurm's word"
    assert fact.measured.time_s == pytest.approx(ran.end_s - ran.start_s, abs=5)
    window = decode(next(one.window for one in facts(tmp_path) if isinstance(one, TelemetryReduced)))
    assert window.nodes == 1
    assert "load.load_1m" in window.counters
    assert np.isfinite(window.mean[0]).any()
    idle(small)


def test_the_gate_delays_by_what_the_nodes_tell(empty_small: SlurmCluster, tmp_path: Path) -> None:
    """The model says variation wherever anything runs, which is always so."""
    small = empty_small
    model = replace(HighestAbove(0.5).model, columns=("load.running.max", *TYPE_COLUMNS))
    save_variability(tmp_path / "model", TrainedVariability(model, None, "made up"), {})
    site = site_of(small, tmp_path, "rush", 'variability = "model"\nskip_threshold = 100')
    with attached(site, "--as-root"), served(small, tmp_path, str(site)):
        until(lambda: any(isinstance(one, TelemetryReduced) for one in facts(tmp_path)), 60, log_of(tmp_path))
        job = run(small, tmp_path, "-n28", "-JCG", "--comment=cohabit:type=io")

        def why() -> str:
            words = [sys.executable, "-m", "cohabit.cli", "why", job, "--server", str(tmp_path / "state/cohabit.sock")]
            return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False).stdout

        until(lambda: "mostly as load.running.max is" in why(), 60, why)
        small.run("scancel", job)
    idle(small)
