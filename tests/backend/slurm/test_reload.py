"""Another policy while jobs wait and run: nothing is lost or doubled, and every stretch is replayed under its own."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cohabit.app.client.client import connect
from cohabit.app.serve.replaying import replay_live
from cohabit.app.steer.deciding import verify_journal
from cohabit.app.steer.slurm_site import read_slurm_site
from tests.backend.slurm.steering import (
    jobs_of,
    log_of,
    runs_noted,
    start_attached,
    stop,
    submit,
    until,
    write_site,
)
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm-8")]


def running(slurm: SlurmCluster) -> int:
    return sum(job.runs for job in jobs_of(slurm).values())


def held(slurm: SlurmCluster) -> set[str]:
    return {name for name, job in jobs_of(slurm).items() if job.held}


def all_over(slurm: SlurmCluster, names: list[str]) -> bool:
    jobs = jobs_of(slurm)
    return all(jobs[name].state == "COMPLETED" for name in names)


def edit(site: Path, before: str, after: str) -> None:
    text = site.read_text()
    assert before in text
    site.write_text(text.replace(before, after))


def replayed(site: Path) -> tuple[str, int]:
    found = asyncio.run(verify_journal(read_slurm_site(site)))
    assert replay_live(site) == replay_live(site.parent / "state") == found  # as `cohabit replay` does, without Slurm
    return found.difference, found.stretches


def policy_told(site: Path) -> str:
    """As callers are told, and the page."""
    return str(connect(str(site.parent / "state" / "cohabit.sock")).ping()["policy"])


def typed(verb: str, site: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "cohabit.cli", "slurm", verb, str(site), *options]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


def test_reload_changes_the_policy_of_a_running_attach(empty: SlurmCluster, tmp_path: Path) -> None:
    site = write_site(empty, tmp_path, "cs", lease_s=600)
    go = tmp_path / "go"
    (process,) = start_attached(site)
    names = [submit(empty, tmp_path, go, "-n14") for _ in range(20)]
    try:
        until(lambda: running(empty) == 16, 60, log_of(tmp_path))
        assert "policy cs goes on: nothing else in the file has changed" in typed("reload", site).stdout
        for wrong, after, said in (
            ('name = "cs"', 'name = "csx"', "csx"),
            ('name = "cs"', 'nme = "cs"', "nme"),
            ("poll_s = 0.5", "poll_s = 0.7", "slurm.poll_s cannot change while it steers"),
            ('name = "cs"', 'name = "cs"\ngate = "variability"\nvariability = "absent.model"', "absent.model"),
        ):
            edit(site, wrong, after)
            refused = typed("reload", site)
            assert (refused.returncode, refused.stdout) == (2, ""), refused.stdout + refused.stderr
            assert said in refused.stderr
            edit(site, after, wrong)
        assert json.loads(typed("status", site, "--json").stdout)["policy"].partition(" ")[0] == "cs"
        before = policy_told(site)
        edit(site, 'name = "cs"', 'name = "ce"')
        told = typed("reload", site)
        assert told.stdout == "policy cs -> ce: 4 waiting and 16 running jobs are kept\n", told.stderr
        assert "policy ce" in typed("status", site).stdout
        assert "policy cs -> ce" in log_of(tmp_path)()
        assert policy_told(site) != before
        assert len(held(empty)) == 4
        stop(process, hard=True)
        (process,) = start_attached(site)
        assert "has changed since the last attach" not in log_of(tmp_path)()
        edit(site, 'name = "ce"', 'name = "cohabit"')
        assert json.loads(typed("reload", site, "--json").stdout)["running"] == 16
        late = submit(empty, tmp_path, 1, "-n28")
        go.touch()
        until(lambda: all_over(empty, [*names, late]), 120, log_of(tmp_path))
    finally:
        go.touch()
        stop(process)
    assert sorted(runs_noted(tmp_path)) == sorted([*names, late])
    assert replayed(site) == ("", 3)


def test_kill_nine_at_any_instant_of_a_reload_leaves_one_policy(empty: SlurmCluster, tmp_path: Path) -> None:
    """Whichever it leaves, the journal is replayed, and the next attach goes on under the one in the file."""
    chance = random.Random(3)
    site = write_site(empty, tmp_path, "cs", lease_s=600)
    (process,) = start_attached(site)
    names = [submit(empty, tmp_path, chance.choice((1, 2, 4)), f"-n{chance.choice((4, 14, 28))}") for _ in range(40)]
    policies, stretches = ["cs", "ce"], 1
    try:
        for _ in range(3):
            edit(site, f'name = "{policies[0]}"', f'name = "{policies[1]}"')
            policies.reverse()
            words = [sys.executable, "-m", "cohabit.cli", "slurm", "reload", str(site)]
            reload = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0.3, 2.0))
            stop(process, hard=True)
            reload.wait(60)
            difference, found = replayed(site)
            assert (difference, found in (stretches, stretches + 1)) == ("", True)
            stretches += 1
            (process,) = start_attached(site)
        until(lambda: all_over(empty, names), 240, log_of(tmp_path))
    finally:
        stop(process)
    assert sorted(runs_noted(tmp_path)) == sorted(names)
    assert replayed(site) == ("", stretches)


def test_an_attach_under_another_policy_goes_on_with_all_jobs(empty: SlurmCluster, tmp_path: Path) -> None:
    site = write_site(empty, tmp_path, "cs", lease_s=600)
    (process,) = start_attached(site)
    go = tmp_path / "go"
    names = [submit(empty, tmp_path, go, "-n14") for _ in range(20)]
    try:
        until(lambda: running(empty) == 16, 60, log_of(tmp_path))
        stop(process, hard=True)
        edit(site, 'name = "cs"', 'name = "ce"')
        (process,) = start_attached(site)
        assert "policy cs -> ce: 4 waiting and 16 running jobs are kept" in log_of(tmp_path)()
        assert len(held(empty)) == 4
        go.touch()
        until(lambda: all_over(empty, names), 120, log_of(tmp_path))
        stop(process)
        edit(site, 'name = "ce"', 'name = "cohabit"')  # nothing is left: it goes on all the same
        (process,) = start_attached(site)
        names.append(submit(empty, tmp_path, 1, "-n1"))
        until(lambda: all_over(empty, names), 60, log_of(tmp_path))
    finally:
        go.touch()
        stop(process)
    assert sorted(runs_noted(tmp_path)) == sorted(names)
    assert replayed(site) == ("", 3)


def test_what_was_given_back_and_still_waits_is_taken_again(empty: SlurmCluster, tmp_path: Path) -> None:
    """What ended meanwhile, what runs, and what others hold is not."""
    site = write_site(empty, tmp_path, "ce", lease_s=600)
    go, brief = tmp_path / "go", tmp_path / "brief"
    (process,) = start_attached(site)
    names = [submit(empty, tmp_path, go, "-n28") for _ in range(7)]
    brief_one = submit(empty, tmp_path, brief, "-n28")
    waiting = [submit(empty, tmp_path, go, "-n28") for _ in range(4)]
    ends, by_owner = waiting[0], waiting[1]
    try:
        until(lambda: running(empty) == 8 and len(held(empty)) == 4, 60, log_of(tmp_path))
        given = json.loads(typed("detach", site, "--json").stdout)
        assert sorted(given["released"]) == sorted(waiting)
        process.wait(60)
        status = json.loads(typed("status", site, "--json").stdout)
        assert (status["disagreements"], status["cohabit"]["queued"]) == ([], 0)
        empty.run("scancel", ends)
        empty.run("scontrol", "hold", by_owner)
        brief.touch()
        until(lambda: jobs_of(empty)[waiting[2]].runs, 60, "Slurm did not start what was given back")
        (process,) = start_attached(site)
        assert f"1 job that was given back and still waits is taken again: {waiting[3]}" in log_of(tmp_path)()
        ours = ("cohabit:held", "cohabit:run:1")
        until(lambda: jobs_of(empty)[waiting[3]].mark.startswith(ours), 60, log_of(tmp_path))
        assert jobs_of(empty)[by_owner].mark == "cohabit:back"
        go.touch()
        until(lambda: all_over(empty, [*names, brief_one, waiting[2], waiting[3]]), 120, log_of(tmp_path))
        assert jobs_of(empty)[waiting[3]].mark.startswith("cohabit:run:1:")
        assert jobs_of(empty)[by_owner].held
    finally:
        for file in (go, brief):
            file.touch()
        stop(process)
        empty.run("scancel", by_owner)
    assert sorted(runs_noted(tmp_path)) == sorted([*names, brief_one, waiting[2], waiting[3]])
    assert replayed(site) == ("", 1)
