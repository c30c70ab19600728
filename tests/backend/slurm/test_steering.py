"""Forty jobs of several sizes under five policies on a real Slurm: what Slurm did is what was decided."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest

from cohabit.app.measure.profiles import profiles_of_catalogue
from cohabit.backend.slurm import commands
from cohabit.backend.steered.marks import BACK, WHOLE, run_mark
from cohabit.backend.steered.shapes import ManagerJob
from cohabit.backend.steered.translate import asked_whole, before_of
from cohabit.live.controller.journal import open_journal
from cohabit.live.controller.place import Place
from cohabit.model import codec
from cohabit.model.command import StartJob
from cohabit.store.json_form import write_json
from tests.backend.slurm.steering import attached, jobs_of, log_of, runs_noted, submit, until, write_site
from tests.breadth import few
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm-8")]
SIZES = (1, 2, 4, 7, 8, 14, 16, 20, 28, 40, 56)
PROGRAMS = ("EP", "CG", "BFS", "MG")
NODE = """[node]
ways = 20
min_ways = 2
closids = 16
bandwidth_gbs = [[1, 12.0], [28, 118.26]]
"""
POLICIES = {
    "ce": "", "cs": "", "sns": 'learn = false\npartition = "none"', "fifo-shared": "", "pair-greedy": "",
}  # fmt: skip


def submit_forty(slurm: SlurmCluster, folder: Path) -> dict[str, int]:
    """Their sizes, by name."""
    chance = random.Random(20261115)
    found = {}
    for number in range(40):
        size = SIZES[number % len(SIZES)]
        seconds = round(chance.uniform(1, 4), 1)
        name = submit(slurm, folder, seconds, f"-n{size}", f"-J{PROGRAMS[number % 4]}", "--time=10")
        found[name] = size
    return found


def decided(folder: Path) -> dict[str, StartJob]:
    """The last start of every job, from the journal."""
    journal = open_journal(Place(folder / "state").journal)
    try:
        starts = {}
        for batch in journal.batches(after=0):
            for order in codec.decode_commands(batch.commands or codec.encode([])):
                if isinstance(order, StartJob):
                    starts[order.job_id] = order
        return starts
    finally:
        journal.close()


def nodes_of(order: StartJob) -> set[str]:
    return {f"n{node}" for first, count in order.nodes for node in range(first, first + count)}


def gives_all_it_is_asked_for(slurm: SlurmCluster) -> bool:
    """Slurm up to 22.05 gives a job at least MinCPUsNode cores on each node, whatever its tasks need."""
    return slurm.run("scontrol", "version").split()[-1] < "23"


def assert_never_oversubscribed(jobs: dict[str, ManagerJob], cores: dict[str, dict[str, int]]) -> None:
    """At no start of a job its nodes had more cores in use than there are."""
    for job in jobs.values():
        used: dict[str, int] = defaultdict(int)
        for other in jobs.values():
            if other.start_s <= job.start_s < other.end_s:
                for node, count in cores[other.name].items():
                    used[node] += count
        assert all(count <= 28 for count in used.values()), (job.name, dict(used))


@pytest.mark.parametrize("policy", few(list(POLICIES), 3))
def test_what_slurm_did_is_what_was_decided(empty: SlurmCluster, tmp_path: Path, policy: str) -> None:
    write_json([one.profile for one in profiles_of_catalogue("sns12")], tmp_path / "profiles.json")
    site = write_site(empty, tmp_path, policy, POLICIES[policy], more='profiles = "profiles.json"', node=NODE)
    seen: dict[str, dict[str, int]] = {}

    def all_over() -> bool:
        jobs = jobs_of(empty)
        seen.update({name: jobs[name].cores_on for name in sizes if jobs[name].cores_on})
        return all(jobs[name].state == "COMPLETED" for name in sizes)

    with attached(site):
        sizes = submit_forty(empty, tmp_path)
        until(all_over, 240, log_of(tmp_path))
    jobs = {name: jobs_of(empty)[name] for name in sizes}
    assert sorted(runs_noted(tmp_path)) == sorted(sizes)  # every job once
    starts = decided(tmp_path)
    assert {name: set(job.nodes) for name, job in jobs.items()} == {name: nodes_of(starts[name]) for name in sizes}
    for name, cores in seen.items():
        whole, ordered = starts[name].exclusive or not starts[name].cores, starts[name].cores
        if whole or gives_all_it_is_asked_for(empty):
            assert set(cores.values()) == {28 if whole else ordered}, name
        else:  # the cores of its tasks; the last node may have one task less
            assert max(cores.values()) == ordered, name
            assert sum(cores.values()) == sizes[name], name
    assert len(seen) > 30  # the others came and went between two looks
    ordered = {
        name: dict.fromkeys(jobs[name].nodes, 28 if starts[name].exclusive else starts[name].cores) for name in sizes
    }
    assert_never_oversubscribed(jobs, ordered)
    beside = [name for name in sizes if not starts[name].exclusive]
    assert bool(beside) == (policy != "ce")
    if policy == "sns":
        assert any(starts[name].scale > 1 for name in sizes)  # and some are spread


@pytest.mark.parametrize("options", [("-n1",), ("-n4", "-c3"), ("-n2", "--ntasks-per-node=2")])
def test_whole_nodes_are_given_and_taken_back(empty: SlurmCluster, tmp_path: Path, options: tuple[str, ...]) -> None:
    """To jobs that did not ask for them, whatever they say of their tasks; back with plain Slurm they share again."""
    whole, back = (submit(empty, tmp_path, tmp_path / "go", "--hold", *options) for _ in range(2))
    for name in (whole, back):
        before = before_of(jobs_of(empty)[name])._replace(made=WHOLE)
        empty.run(*commands.place(name, ["n2"], before.cpus, run_mark(1, before), WHOLE))
    empty.run(*commands.unplace(back, before_of(jobs_of(empty)[back]), 8, BACK))
    empty.run(*commands.release([whole, back]))
    until(lambda: all(jobs_of(empty)[name].state == "RUNNING" for name in (whole, back)), 60)
    jobs = jobs_of(empty)
    assert jobs[whole].exclusive
    assert not asked_whole(jobs[whole])
    assert jobs[whole].cores_on["n2"] + jobs[whole].cpus_per_task > 28  # as many as make whole tasks
    assert sum(jobs[back].cores_on.values()) == jobs[back].cpus == jobs[back].tasks * jobs[back].cpus_per_task
    assert not jobs[back].exclusive
    (tmp_path / "go").touch()
