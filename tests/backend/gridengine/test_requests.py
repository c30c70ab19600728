"""What jobs ask for is respected on a real Grid Engine: arrays, several queues, memory, hosts of unequal size."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cohabit.backend.gridengine.calls import Calls
from cohabit.backend.gridengine.discovery import discover
from cohabit.backend.gridengine.translate import Site
from cohabit.backend.steered.shapes import Discovered
from cohabit.model.errors import InputError
from tests.backend.gridengine.steering import attached, jobs_of, rows_of, runs_noted, submit, until, write_site
from tests.backend.gridengine.test_steering import LONG_S, all_over, begun, run
from tests.backend.slurm.steering import log_of
from tests.support.gridengine_cluster import GridEngineCluster, replaced

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("gridengine-requests")]
ALONE = "slots=4,exclusive=true"  # what every host has


def held_for_us(ge: GridEngineCluster, name: str) -> bool:
    """Whether the controller has looked at it and keeps it waiting."""
    return jobs_of(ge)[name].state == "hqw" and "cohabit_hold=s" in ge.run("qstat", "-j", name)


def hosts_of(ge: GridEngineCluster, *names: str) -> Counter[str]:
    """Jobs on each host."""
    return Counter(host for row in rows_of(ge) if row.name in names for host in row.slots_on)


@contextmanager
def second_queue(ge: GridEngineCluster) -> Iterator[None]:
    """long.q on two of the hosts."""
    text = replaced(ge.run("qconf", "-sq", "all.q"), {"qname": "long.q", "hostlist": "ge2 ge3"})
    (ge.folder / "long.q").write_text(text)
    ge.run("qconf", "-Aq", str(ge.folder / "long.q"))
    try:
        yield
    finally:
        ge.run("qconf", "-dq", "long.q")


@contextmanager
def booked_memory(ge: GridEngineCluster, each: str) -> Iterator[None]:
    """Jobs take h_vmem for each slot, and every host has so much of it."""
    before, file = ge.run("qconf", "-sc"), ge.folder / "complexes"
    lines = ["h_vmem h_vmem MEMORY <= YES YES 0 0" if one.startswith("h_vmem ") else one for one in before.splitlines()]
    file.write_text("".join(f"{line}\n" for line in lines))
    try:
        ge.run("qconf", "-Mc", str(file))
        for host in ge.hosts:
            ge.run("qconf", "-rattr", "exechost", "complex_values", f"{ALONE},h_vmem={each}", host)
        yield
    finally:
        for host in ge.hosts:
            ge.run("qconf", "-rattr", "exechost", "complex_values", ALONE, host)
        file.write_text(before)
        ge.run("qconf", "-Mc", str(file))


def test_what_a_site_can_name(gridengine: GridEngineCluster) -> None:
    def found(memory: str = "", spread: str = "", one_host: str = "", exclusive: str = "") -> tuple[Discovered, Site]:
        asked = discover(
            Calls(str(gridengine.bin)), ["all.q"], exclusive=exclusive, memory=memory, spread=spread, one_host=one_host
        )
        return asyncio.run(asked)

    cluster, site = found(memory="mem_free")  # a load value: what is built in
    assert (site.memory, cluster.terms.memory) == ("mem_free", True)
    assert cluster.cluster.groups[0].memory_bytes > 2**28
    cluster, site = found()  # nothing is consumable here but slots
    assert (site.memory, cluster.cluster.groups[0].memory_bytes) == ("", 0)
    assert (site.spread, site.one_host, site.exclusive) == ("mpi", "smp", "exclusive")
    assert found(spread="fill")[1].spread == "fill"
    for named in ({"memory": "h_rt"}, {"spread": "none"}, {"one_host": "none"}, {"exclusive": "h_vmem"}):
        with pytest.raises(InputError, match=next(iter(named.values()))):
            found(**named)


def test_nothing_comes_beside_the_tasks_of_an_array(empty: GridEngineCluster, tmp_path: Path) -> None:
    with attached(write_site(empty, tmp_path, "ce", within_s=100)):
        array = submit(empty, tmp_path, LONG_S, "-t", "1-3", "-tc", "2").partition(".")[0]
        until(lambda: runs_noted(tmp_path).count(array) == 2, lambda: str(rows_of(empty)))
        taken = set(hosts_of(empty, array))  # two tasks run and one waits
        ours = [submit(empty, tmp_path, LONG_S, "-pe", "smp", "3") for _ in range(5 - len(taken))]
        until(lambda: sum(begun(empty, tmp_path, name) for name in ours) == 4 - len(taken), log_of(tmp_path))
        waits = next(name for name in ours if not run(empty, name))
        until(lambda: held_for_us(empty, waits), lambda: str(jobs_of(empty)))
        assert set(hosts_of(empty, *ours)) == set(empty.hosts) - taken
        empty.run("qdel", array)
        until(lambda: begun(empty, tmp_path, *ours), log_of(tmp_path))
        assert "did not start it" not in log_of(tmp_path)()
        empty.run("qdel", *ours)
        all_over(empty, tmp_path, *ours)
    assert Counter(runs_noted(tmp_path)) == {array: 2} | dict.fromkeys(ours, 1)


def test_jobs_of_several_queues(empty: GridEngineCluster, tmp_path: Path) -> None:
    """Those that name a queue of ours get it, those that name none any of them, those that name two are left alone."""
    table = 'queue = ["all.q", "long.q"]'
    with second_queue(empty), attached(write_site(empty, tmp_path, "ce", table=table)):
        named = [submit(empty, tmp_path, LONG_S, "-q", "long.q") for _ in range(3)]
        until(lambda: sum(begun(empty, tmp_path, name) for name in named) == 2, log_of(tmp_path))
        assert hosts_of(empty, *named) == {"ge2": 1, "ge3": 1}
        assert "long.q@ge2" in empty.run("qstat", "-u", "*")
        third = next(name for name in named if not run(empty, name))
        until(lambda: held_for_us(empty, third), lambda: str(jobs_of(empty)))
        unnamed = [submit(empty, tmp_path, LONG_S) for _ in range(2)]
        until(lambda: begun(empty, tmp_path, *unnamed), log_of(tmp_path))
        assert hosts_of(empty, *unnamed) == {"ge0": 1, "ge1": 1}
        running = [name for name in named if name != third]
        empty.run("qdel", *running)
        until(lambda: begun(empty, tmp_path, third), log_of(tmp_path))
        assert set(hosts_of(empty, third)) <= {"ge2", "ge3"}
        both = submit(empty, tmp_path, 1, "-q", "all.q,long.q")
        empty.run("qdel", *unnamed, third)
        all_over(empty, tmp_path, *named, *unnamed, both)
    assert sorted(runs_noted(tmp_path), key=int) == sorted([*named, *unnamed, both], key=int)


def test_memory_is_booked(empty: GridEngineCluster, tmp_path: Path) -> None:
    """Jobs that would share a host by their slots, and not by their memory: none is sent where it cannot start."""
    with booked_memory(empty, "3G"), attached(write_site(empty, tmp_path, "cs", within_s=100)):
        large = [submit(empty, tmp_path, LONG_S, "-l", "h_vmem=2G") for _ in range(5)]
        until(lambda: sum(begun(empty, tmp_path, name) for name in large) == 4, log_of(tmp_path))
        assert set(hosts_of(empty, *large).values()) == {1}
        fifth = next(name for name in large if not run(empty, name))
        until(lambda: held_for_us(empty, fifth), lambda: str(jobs_of(empty)))
        small = [submit(empty, tmp_path, LONG_S, "-l", "h_vmem=500M", "-pe", "smp", "2") for _ in range(4)]
        until(lambda: begun(empty, tmp_path, *small), log_of(tmp_path))
        assert set(hosts_of(empty, *small).values()) == {1}  # two slots of them fit beside a large one
        assert not run(empty, fifth)
        assert "did not start it" not in log_of(tmp_path)()
        empty.run("qdel", *large, *small)
        all_over(empty, tmp_path, *large, *small)
    assert fifth not in runs_noted(tmp_path)


def test_hosts_of_unequal_size_are_shared(empty: GridEngineCluster, tmp_path: Path) -> None:
    """As many slots as the smallest host has are not the whole of a larger one."""
    empty.run("qconf", "-rattr", "queue", "slots", "4,[ge3=2]", "all.q")
    try:
        with attached(write_site(empty, tmp_path, "cs")):
            jobs = [submit(empty, tmp_path, LONG_S, "-pe", "smp", "2") for _ in range(7)]
            until(lambda: begun(empty, tmp_path, *jobs), log_of(tmp_path))
            assert hosts_of(empty, *jobs) == {"ge0": 2, "ge1": 2, "ge2": 2, "ge3": 1}
            empty.run("qdel", *jobs)
            all_over(empty, tmp_path, *jobs)
    finally:
        empty.run("qconf", "-purge", "queue", "slots", "all.q@ge3")
    assert sorted(runs_noted(tmp_path), key=int) == sorted(jobs, key=int)
