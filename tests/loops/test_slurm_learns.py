"""On a real Slurm, with an empty store: one program, submitted again and again, is explored as on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cohabit.app.client.client import Client, connect
from cohabit.app.client.connection import Refused
from cohabit.live.controller.journal import open_journal
from cohabit.live.controller.place import Place
from cohabit.model import codec
from cohabit.model.event import ProfileForgotten, ProfileLearned, ProfileStored
from cohabit.store.profiles import open_store
from tests.backend.slurm.conftest import LUA
from tests.backend.slurm.steering import attached, log_of, until, write_site
from tests.support.slurm_cluster import SlurmCluster, missing, running_slurm

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.xdist_group("slurm-loops")]
CORES = 4


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[SlurmCluster]:
    """Eight empty nodes of four cores."""
    if reason := missing():
        pytest.skip(reason)
    tmp_path.chmod(0o755)
    text = LUA.read_text(encoding="utf-8").replace("/var/lib/cohabit/lease", str(tmp_path / "slurm" / "lease"))
    with running_slurm(tmp_path / "slurm", nodes=8, cores=CORES, job_submit=text) as cluster:
        yield cluster


def run(slurm: SlurmCluster, script: Path) -> None:
    """Submit one more run of the program and wait for its end."""
    slurm.run("sbatch", "--output=/dev/null", f"-n{CORES}", "-t2", "-Jtriad", str(script))
    until(lambda: not slurm.run("squeue", "--noheader").strip(), 30, lambda: slurm.run("squeue"))


def why(client: Client, job: str) -> str:
    try:
        return str(client.why(job)["profile"])
    except Refused:  # it has not heard of it yet
        return ""


def told(folder: Path, kind: type) -> list[object]:
    journal = open_journal(Place(folder / "state").journal)
    try:
        return [
            one
            for batch in journal.batches(after=0)
            for one in codec.decode_events(batch.events)
            if isinstance(one, kind)
        ]
    finally:
        journal.close()


def test_an_unknown_program_is_explored_on_slurm_and_the_store_has_it(slurm: SlurmCluster, tmp_path: Path) -> None:
    script = tmp_path / "triad.sh"
    script.write_text("#!/bin/sh\nsleep $((4 / SLURM_JOB_NUM_NODES))\n")
    site = write_site(slurm, tmp_path, "sns")
    store = Place(tmp_path / "state").profiles
    with attached(site):
        for _ in range(4):
            run(slurm, script)

        def scales() -> list[int]:
            with open_store(store) as opened:
                found = opened.get("triad", CORES)
            return [] if found is None else [one.scale for one in found.scales if one.time_s > 0]

        until(lambda: store.exists() and scales() == [1, 2], 20, log_of(tmp_path))
        with open_store(store) as opened:
            found = opened.get("triad", CORES)
        assert found is not None
        assert found.owner == "0"
        assert 3 <= found.scales[0].time_s <= 7
        assert 1 <= found.scales[1].time_s <= 5
        client = connect(str(tmp_path / "state"))
        assert [one["program"] for one in client.profiles()["profiles"]] == ["triad"]
        later = slurm.run(
            "sbatch", "--parsable", "--output=/dev/null", f"-n{CORES}", "-t2", "-Jtriad", str(script)
        ).strip()
        until(lambda: why(client, later).startswith(f"triad with {CORES} processes, from its owner's runs: "), 20)
        assert "at scale 2" in why(client, later)
        slurm.run("scancel", later)
        assert client.forget_profile("triad", "0", None)["forgotten"] == 1
        assert client.profiles()["profiles"] == []
    assert told(tmp_path, ProfileLearned)
    assert not told(tmp_path, ProfileStored), "what the controller wrote itself came back"
    assert len(told(tmp_path, ProfileForgotten)) == 1
