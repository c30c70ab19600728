"""Another policy while jobs wait and run, and jobs that were given back: the same as under Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backend.gridengine.steering import jobs_of, runs_noted, start_attached, submit, until, write_site
from tests.backend.gridengine.test_deaths import verb_verify
from tests.backend.gridengine.test_steering import LONG_S, all_over, begun, verb
from tests.backend.slurm.steering import log_of, stop
from tests.support.gridengine_cluster import GridEngineCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("gridengine-deaths")]


def test_reload_and_what_was_given_back(empty: GridEngineCluster, tmp_path: Path) -> None:
    site = write_site(empty, tmp_path, "cs", lease_s=600)
    process = start_attached(site)
    running = [submit(empty, tmp_path, LONG_S, "-pe", "smp", "4") for _ in range(4)]
    try:
        until(lambda: begun(empty, tmp_path, *running), log_of(tmp_path))
        waiting = submit(empty, tmp_path, 1, "-pe", "smp", "2")
        until(lambda: "h" in jobs_of(empty)[waiting].state, log_of(tmp_path))
        site.write_text(site.read_text().replace('name = "cs"', 'name = "ce"'))
        until(lambda: verb("status", site)["cohabit"]["queued"] == 1, log_of(tmp_path))
        told = verb("reload", site)
        assert (told["was"], told["policy"], told["waiting"], told["running"]) == ("cs", "ce", 1, 4)
        assert verb("status", site)["policy"] == "ce"
        assert verb("detach", site)["released"] == [waiting]
        process.wait(60)
        assert jobs_of(empty)[waiting].state == "qw"
        process = start_attached(site)
        assert f"1 job that was given back and still waits is taken again: {waiting}" in log_of(tmp_path)()
        until(lambda: "h" in jobs_of(empty)[waiting].state, log_of(tmp_path))
        empty.run("qdel", *running)
        all_over(empty, tmp_path, waiting)
    finally:
        stop(process)
    assert runs_noted(tmp_path).count(waiting) == 1
    assert verb_verify(site)
