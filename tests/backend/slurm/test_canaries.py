"""A canary before a start on a real Slurm: ring and all-reduce on the chosen nodes, by the real Open MPI, and the gate
judges with what its ranks waited. The model is made up; everything else is real."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cohabit.app.steer.canaries import ANEW, features_in, program
from cohabit.live.controller.journal import open_journal
from cohabit.live.controller.place import Place
from cohabit.model import codec
from cohabit.model.event import Event, NodeDrained, StartRefused, TelemetryReduced
from cohabit.model.telemetry import CANARY_TIMES, STATS, Window, decode
from cohabit.predict.variability_data import TYPE_COLUMNS
from cohabit.predict.variability_file import save_variability
from cohabit.predict.variability_training import TrainedVariability
from tests.backend.slurm.conftest import LUA
from tests.backend.slurm.steering import attached, jobs_of, log_of, submit, until, write_site
from tests.core.test_gating import HighestAbove
from tests.support.slurm_cluster import SlurmCluster, missing, running_slurm

REDUCE = "canary.allreduce_wait_s.max"
TABLE = """[telemetry]
source = "ldms"
files = ["load.csv"]
every_s = 1
window_s = 2
canary = {canary}
canary_python = "{python}"
canary_mb = 0.5
"""
live = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.xdist_group("slurm-canaries")]


def marked(test):  # type: ignore[no-untyped-def]
    for mark in live:
        test = mark(test)
    return test


def test_what_a_canary_writes_is_read_and_nothing_else() -> None:
    names = [f"{name}.{stat}" for name in CANARY_TIMES for stat in STATS]
    said = "cohabit:canary:" + ",".join(f"{number}e-05" for number in range(1, 10))
    assert features_in(said) == {name: float(f"{number}e-05") for number, name in enumerate(names, 1)}
    for other in ("", "cohabit:type=io", "cohabit:canary:1,2", "cohabit:canary:1,2,3,4,5,6,7,8,e"):
        assert features_in(other) is None
    compile(program(), "canary", "exec")
    assert "cohabit." not in program().replace("cohabit.agent.canary.ranks SIZE", ""), "nodes need nothing of ours"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    if reason := missing():
        pytest.skip(reason)
    if importlib.util.find_spec("mpi4py") is None or not list(Path("/usr/lib").glob("*/pmix2/lib/libpmix.so")):
        pytest.skip("needs mpi4py (cohabit[mpi]) and libpmix.so for Slurm's PMIx (Debian: libpmix-dev)")
    folder = tmp_path_factory.mktemp("canaries")
    folder.chmod(0o755)
    text = LUA.read_text().replace("/var/lib/cohabit/lease", str(folder / "slurm" / "lease"))
    with running_slurm(folder / "slurm", nodes=3, cores=4, job_submit=text, name="canaries", pmix=True) as cluster:
        yield cluster


def site_of(
    slurm: SlurmCluster, folder: Path, bound: float, keys: str, canary: str = "true", column: str = REDUCE
) -> Path:
    """The model says variation where the column exceeds the bound."""
    model = replace(HighestAbove(bound).model, columns=(column, *TYPE_COLUMNS))
    save_variability(folder / "model", TrainedVariability(model, None, "made up"), {})
    python = folder / "python"  # nodes of one machine would take each other's memory
    python.write_text(f'#!/bin/sh\nexport MPI4PY_MPIABI=openmpi OMPI_MCA_btl=^vader\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    table = TABLE.format(canary=canary, python=python)
    return write_site(slurm, folder, "rush", f'variability = "model"\n{keys}', node=table)


@contextmanager
def loads(folder: Path) -> Iterator[None]:
    """A file as LDMS writes one: a line of each node every half second."""
    path, over = folder / "load.csv", threading.Event()
    path.write_text("#Time,Time_usec,ProducerName,load_1m\n")

    def write() -> None:
        while not over.wait(0.5):
            with path.open("a") as stream:
                stream.write("".join(f"{time.time():.6f},0,n{node},1.5\n" for node in range(3)))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()


def facts(folder: Path) -> list[Event]:
    journal = open_journal(Place(folder / "state").journal)
    try:
        return [event for batch in journal.batches(after=0) for event in codec.decode_events(batch.events)]
    finally:
        journal.close()


def sung(folder: Path) -> list[Window]:
    """The windows with what canaries have measured."""
    windows = [decode(one.window) for one in facts(folder) if isinstance(one, TelemetryReduced)]
    return [one for one in windows if set(CANARY_TIMES) <= set(one.counters)]


def heard(folder: Path) -> bool:
    return any(isinstance(one, TelemetryReduced) for one in facts(folder))


@marked
def test_a_job_starts_with_a_canary_on_its_nodes(slurm: SlurmCluster, tmp_path: Path) -> None:
    site = site_of(slurm, tmp_path, 1e9, "")
    with loads(tmp_path), attached(site, "--as-root"):
        until(lambda: heard(tmp_path), 60, log_of(tmp_path))
        job = submit(slurm, tmp_path, 1, "-N2", "--exclusive", "-t5", "--comment=cohabit:type=io")
        until(lambda: jobs_of(slurm)[job].state == "COMPLETED", 120, log_of(tmp_path))
    assert "starts without a canary" not in log_of(tmp_path)()
    (refused,) = [one for one in facts(tmp_path) if isinstance(one, StartRefused)]
    assert refused.reason == ANEW
    window = sung(tmp_path)[0]
    at = [window.counters.index(name) for name in CANARY_TIMES]
    measured = np.flatnonzero(np.isfinite(window.mean[:, at]).all(axis=1)).tolist()
    assert [f"n{node}" for node in measured] == sorted(jobs_of(slurm)[job].nodes), "the job's nodes, and no other"
    assert (window.highest[measured][:, at] > 0).all()
    assert (window.lowest[measured][:, at] <= window.highest[measured][:, at]).all()
    assert not [one for one in facts(tmp_path) if isinstance(one, NodeDrained)], "a canary is no stranger on its nodes"


@marked
def test_the_gate_delays_by_what_a_canary_measured(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Every all-reduce takes longer than nothing, so the model always says variation: two skips, then the start."""
    site = site_of(slurm, tmp_path, 0.0, "skip_threshold = 2")
    with loads(tmp_path), attached(site, "--as-root"):
        until(lambda: heard(tmp_path), 60, log_of(tmp_path))
        job = submit(slurm, tmp_path, 1, "-N2", "--exclusive", "-t5", "--comment=cohabit:type=io")
        said = set()

        def over() -> bool:
            words = [sys.executable, "-m", "cohabit.cli", "why", job, "--server", str(tmp_path / "state/cohabit.sock")]
            done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
            said.add(done.stdout)
            return jobs_of(slurm)[job].state == "COMPLETED"

        until(over, 120, lambda: f"{log_of(tmp_path)()} {said}")
    text = "\n".join(said)
    assert re.search("passed over [12] of at most 2 times", text), text
    assert f"mostly as {REDUCE} is" in text, text


@marked
def test_a_canary_that_fails_delays_nothing(slurm: SlurmCluster, tmp_path: Path) -> None:
    site = site_of(slurm, tmp_path, 0.0, "skip_threshold = 100")
    (tmp_path / "python").write_text("#!/bin/sh\nexit 3\n")
    with loads(tmp_path), attached(site, "--as-root"):
        until(lambda: heard(tmp_path), 60, log_of(tmp_path))
        job = submit(slurm, tmp_path, 1, "-N2", "--exclusive", "-t5", "--comment=cohabit:type=io")
        until(lambda: jobs_of(slurm)[job].state == "COMPLETED", 120, log_of(tmp_path))
    assert f"job {job} starts without a canary on n" in log_of(tmp_path)()
    assert not sung(tmp_path)


@marked
@pytest.mark.parametrize(
    ("canary", "column", "words"),
    [
        ("false", REDUCE, "no canary is sent before a start, and the model asks for canary.allreduce_wait_s"),
        ("true", "load.load_1m.max", "no model of a gate asks for what canaries measure"),
    ],
)
def test_a_model_and_a_site_that_do_not_fit_are_refused_at_attach(
    slurm: SlurmCluster, tmp_path: Path, canary: str, column: str, words: str
) -> None:
    site = site_of(slurm, tmp_path, 0.0, "", canary, column)
    call = [sys.executable, "-m", "cohabit.cli", "slurm", "attach", "--as-root", str(site)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done
    assert words in done.stderr
