"""Spark: a cluster with the job's cores and memory, which goes with the job."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.frameworks.framework_runs import CORES, Running, needs, nodes, probe, run, two_cores

pytestmark = [
    pytest.mark.system, pytest.mark.slow, two_cores, needs("pyspark"),
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java (Debian: default-jre-headless)"),
]  # fmt: skip
PROGRAM = probe("of_spark")[1:]


def test_two_nodes_have_a_worker_each(tmp_path: Path) -> None:
    (found,) = run(tmp_path, "spark", PROGRAM, nodes((0,), (1,)), memory_bytes=3 << 30)
    assert found["master"].startswith("spark://localhost:")
    assert found["executors"] == 2
    assert found["cores"] == [[CORES[0]], [CORES[1]]]
    assert found["driver"] == [CORES[0]]
    assert (found["parallel"], found["each"], found["memory"]) == (2, "1", "1280m")
    assert found["sum"] == 5050
    assert not (tmp_path / "spark").exists()
    assert "with 1 cores, 1280.0 MiB RAM" in (tmp_path / "spark-worker-1.log").read_text()


def test_one_node_of_two_cores_and_a_program_that_fails(tmp_path: Path) -> None:
    job = Running(tmp_path, "spark", ("spark-submit", *PROGRAM, "3"), nodes((0, 1)), memory_bytes=2 << 30)
    status, (found,), _ = job.end()
    assert status == 3
    assert (found["executors"], found["each"], found["cores"]) == (1, "2", [CORES[:2]])


def test_asked_to_end_nothing_of_it_is_left(tmp_path: Path) -> None:
    job = Running(tmp_path, "spark", (*PROGRAM, "wait"), nodes((0,), (1,)), memory_bytes=3 << 30)
    until = time.monotonic() + 400
    log = tmp_path / "spark-worker-1.log"
    while not (log.exists() and "Asked to launch executor" in log.read_text()) and time.monotonic() < until:
        assert job.process.poll() is None
        time.sleep(0.2)
    assert len(job.left()) >= 4
    os.killpg(job.process.pid, signal.SIGTERM)
    began = time.monotonic()
    status, _, _ = job.end(120)
    assert status == 128 + signal.SIGTERM
    assert time.monotonic() - began < 60
    assert not (tmp_path / "spark").exists()
