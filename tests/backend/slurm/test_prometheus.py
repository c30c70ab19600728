"""The gate of a steered Slurm listens to a real Prometheus that scrapes a real node exporter."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cohabit.live.controller.journal import open_journal
from cohabit.live.controller.place import Place
from cohabit.model import codec
from cohabit.model.event import TelemetryReduced
from cohabit.model.telemetry import Window, decode
from cohabit.predict.variability_data import TYPE_COLUMNS
from cohabit.predict.variability_file import save_variability
from cohabit.predict.variability_training import TrainedVariability
from tests.backend.slurm.conftest import idle
from tests.backend.slurm.steering import attached, log_of, until, write_site
from tests.core.test_gating import HighestAbove
from tests.ports import free_port
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.xdist_group("slurm-node")]
PROGRAMS = ("prometheus", "prometheus-node-exporter")
CONFIG = """
global: {{ scrape_interval: 1s, scrape_timeout: 1s }}
scrape_configs:
  - job_name: node
    static_configs: [{{ targets: ["127.0.0.1:{port}"], labels: {{ instance: "n0:9100" }} }}]
"""
TELEMETRY = """
[telemetry]
source = "prometheus"
url = "http://127.0.0.1:{port}"
every_s = 2
window_s = 6
"""


@contextmanager
def prometheus(folder: Path) -> Iterator[int]:
    """A server that calls this machine n0; its port."""
    exported, port = free_port(), free_port()
    (folder / "prometheus.yml").write_text(CONFIG.format(port=exported))
    calls = (
        [PROGRAMS[1], f"--web.listen-address=127.0.0.1:{exported}"],
        [PROGRAMS[0], f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
         f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
    )  # fmt: skip
    running = [subprocess.Popen(one, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for one in calls]
    try:
        yield port
    finally:
        for one in running:
            one.kill()
            one.wait()


def windows(folder: Path) -> list[Window]:
    """What the core was told."""
    journal = open_journal(Place(folder / "state").journal)
    try:
        events = [event for batch in journal.batches(after=0) for event in codec.decode_events(batch.events)]
    finally:
        journal.close()
    return [decode(event.window) for event in events if isinstance(event, TelemetryReduced)]


@pytest.mark.skipif(not all(map(shutil.which, PROGRAMS)), reason="Prometheus is not installed (make system)")
def test_the_gate_delays_by_what_prometheus_tells(empty_small: SlurmCluster, tmp_path: Path) -> None:
    """The model says variation wherever anything runs, which is always so."""
    small = empty_small
    model = replace(HighestAbove(0.5).model, columns=("load.running.max", *TYPE_COLUMNS))
    save_variability(tmp_path / "model", TrainedVariability(model, None, "made up"), {})
    with prometheus(tmp_path) as port:
        keys = 'variability = "model"\nskip_threshold = 100'
        site = write_site(small, tmp_path, "rush", keys, node=TELEMETRY.format(port=port))
        site.write_text(site.read_text().replace('partitions = ["all"]', 'partitions = ["first"]\nheld = "all"'))
        script = tmp_path / "job.sh"
        script.write_text("#!/bin/sh\nsleep 3\n")
        with attached(site, "--as-root"):
            until(lambda: windows(tmp_path), 90, log_of(tmp_path))
            options = ("--parsable", "--hold", "--output=/dev/null", "-N1", "-pfirst", "-n28", "-JCG")
            job = small.run("sbatch", *options, "--comment=cohabit:type=io", str(script)).strip()

            def why() -> str:
                place = str(tmp_path / "state/cohabit.sock")
                words = [sys.executable, "-m", "cohabit.cli", "why", job, "--server", place]
                return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False).stdout

            until(lambda: "mostly as load.running.max is" in why(), 90, why)
            odd = small.run("sbatch", *options, "--comment=cohabit:type=foo", str(script)).strip()
            said = f"job {odd}: cohabit:type=foo is not known and counts as not stated: write compute, network, io"
            until(lambda: said in log_of(tmp_path)(), 60, log_of(tmp_path))
            small.run("scancel", job, odd)
        found = windows(tmp_path)[-1]
    assert found.nodes == 1
    assert "load.running" in found.counters
    assert np.isfinite(found.mean[0]).any()
    idle(small)
