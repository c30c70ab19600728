"""`cohabit node serve` on hosts of a real Grid Engine finds jobs by their shepherds; its controller learns of them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from cohabit.agent.node.shepherds import ShepherdProcesses
from cohabit.app.steer.node_channel import keys_of
from cohabit.live.controller.journal import open_journal
from cohabit.live.controller.place import Place
from cohabit.model import codec
from cohabit.model.event import ProfileLearned
from cohabit.store.profiles import open_store
from tests.backend.gridengine.steering import attached, rows_of, until, write_site
from tests.ports import free_port
from tests.support.gridengine_cluster import GridEngineCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("gridengine")]
BUSY = """#!/bin/sh
end=$(($(date +%s) + {seconds}))
while [ $(date +%s) -lt $end ]; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done
"""
NODES = '\n[nodes]\nlisten = "127.0.0.1:{port}"\n'


@contextmanager
def served(folder: Path, site: Path, *names: str) -> Iterator[None]:
    """The daemons of these hosts, until the block ends."""
    with ExitStack() as stack:
        for name in names:
            said = stack.enter_context((folder / f"{name}.log").open("ab"))
            words = [sys.executable, "-m", "cohabit.cli", "node", "serve", str(site), "--name", name,
                     "--folder", str(folder / "node")]  # fmt: skip
            one = subprocess.Popen(words, stdout=said, stderr=said)
            stack.callback(one.wait, 60)
            stack.callback(one.terminate)
        yield


def run(ge: GridEngineCluster, folder: Path, seconds: int, *options: str) -> str:
    """A job that works; returns when Grid Engine does not list it any more."""
    folder.chmod(0o1777)
    script = folder / f"busy-{seconds}.sh"
    script.write_text(BUSY.format(seconds=seconds))
    words = ("qsub", "-terse", "-o", "/dev/null", "-j", "y", "-l", "h_rt=600", "-N", "busy", *options, str(script))
    job = ge.run(*words).strip()
    until(lambda: not rows_of(ge), lambda: ge.run("qstat", check=False) + said(folder))
    return job


def said(folder: Path) -> str:
    return "\n".join(path.read_text(errors="replace") for path in folder.glob("*.log"))


def learned(folder: Path) -> list[ProfileLearned]:
    journal = open_journal(Place(folder / "state").journal)
    try:
        found = (one for batch in journal.batches(after=0) for one in codec.decode_events(batch.events))
        return [one for one in found if isinstance(one, ProfileLearned)]
    finally:
        journal.close()


def counted(folder: Path) -> list[ProfileLearned]:
    return [one for one in learned(folder) if one.measured.counters]


def test_runs_reach_the_controller_with_their_counters(empty: GridEngineCluster, tmp_path: Path) -> None:
    site = write_site(empty, tmp_path, "sns", "scales = [1]", more=NODES.format(port=free_port()))
    for name in empty.hosts:
        keys_of(site).make(name, new=False)
    with attached(site), served(tmp_path, site, *empty.hosts):
        until(lambda: said(tmp_path).count("serving node") == len(empty.hosts), lambda: said(tmp_path))
        until(lambda: "hardware counters" in (tmp_path / "attach.log").read_text(), lambda: said(tmp_path))
        run(empty, tmp_path, 5, "-pe", "mpi", "2")
        until(lambda: counted(tmp_path), lambda: f"{learned(tmp_path)} {said(tmp_path)}")
        fact = counted(tmp_path)[0]
        assert (fact.program, fact.processes, fact.owner) == ("busy", 2, "0"), "by Grid Engine's word"
        assert 0.1 < fact.measured.counters["task_clock_mean"] < 1.5, (
            "one slot works, as it gets time"
        )
        assert fact.measured.time_s == 0.0, "the time is the manager's"
        run(empty, tmp_path, 3, "-pe", "mpi", "2")  # for its curves, which are level here

        def whole() -> bool:
            with open_store(Place(tmp_path / "state").profiles) as store:
                found = store.get("busy", 2)
            return found is not None and found.scales[0].complete

        until(whole, lambda: f"{learned(tmp_path)} {said(tmp_path)}")
    assert "Traceback" not in said(tmp_path)


@pytest.mark.parametrize("trick", ["a user runs it", "a user could have written it"])
def test_only_grid_engines_own_shepherds_count(gridengine: GridEngineCluster, trick: str) -> None:
    """A process of the same name in a folder of the same form belongs to no job."""
    with tempfile.TemporaryDirectory(prefix="cohabit-posed-") as name:
        Path(name).chmod(0o755)
        folder, posed = Path(name) / "ge0" / "active_jobs" / "77.1", Path(name) / "sge_shepherd"
        folder.mkdir(parents=True)
        posed.write_bytes(Path("/bin/sleep").read_bytes())
        posed.chmod(0o755 if trick == "a user runs it" else 0o777)
        user = 65534 if trick == "a user runs it" else None
        with subprocess.Popen(["sge_shepherd-77", "30"], executable=posed, cwd=folder, user=user) as process:
            try:
                time.sleep(0.2)
                looked = ShepherdProcesses()
                assert process.pid in looked._folders, "it looks like one"
                assert looked.jobs("ge0") == {}
                assert looked.step_daemons("77000001", "ge0") == []
            finally:
                process.kill()
