"""Jobs that share nodes: cores of their own on each, known again after a restart, and moved while they run."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from cohabit.agent.topology import CacheDomain, Core, Topology
from cohabit.backend.local.executor import LocalBackend
from cohabit.backend.local.nodes import CoreBook, VirtualNodes, cpus_of
from cohabit.backend.protocol import BackendError, Launch
from cohabit.launcher import moving, runs
from cohabit.launcher.runs import RunFolder
from cohabit.model.command import CancelJob, MoveJob, SetShares, StartJob
from cohabit.model.errors import InputError
from cohabit.model.event import JobFinished, JobStarted
from cohabit.model.units import SECOND
from tests.backend.scenes import ending, facts, play, shell, until

CPUS = sorted(os.sched_getaffinity(0))
two_cores = pytest.mark.skipif(len(CPUS) < 2, reason="needs two cores")


def on(job: str, node: int, cores: int = 1, nodes: int = 1) -> StartJob:
    return StartJob(job, 1, ((node, nodes),), 60 * SECOND, cores=cores, exclusive=False)


def server(domains: int = 2, each: int = 4, threads: int = 1) -> Topology:
    """A machine with several L3 domains, which this one need not have."""
    cores, caches, cpu = [], [], 0
    for domain in range(domains):
        behind: list[int] = []
        for _ in range(each):
            own = tuple(range(cpu, cpu + threads))
            cores.append(Core(own, 0, 0, domain))
            behind += own
            cpu += threads
        caches.append(CacheDomain(domain, tuple(behind), 32 << 20, 16))
    return Topology(tuple(cores), tuple(caches), ((0, 64 << 30),), tuple(range(cpu)), (), (), None)


def none() -> None:
    """No resctrl."""


def test_two_jobs_never_have_the_same_core() -> None:
    book = CoreBook(VirtualNodes(2, machine=server(), mount=none))
    first = book.take(("a", 1), ((0, 2),), 3, False)
    second = book.take(("b", 1), ((1, 1),), 1, False)
    assert {number: len(own) for number, own in first.items()} == {0: 3, 1: 3}
    assert not set(second[1]) & set(first[1])
    with pytest.raises(BackendError, match="node 1 has 0 free cores, and the job is to have 1"):
        book.take(("c", 1), ((0, 2),), 1, False)
    assert book.users(0)[3] == set()  # it took nothing where there was room
    with pytest.raises(BackendError, match="node 0 has 1 free cores, and the job is to have 4"):
        book.take(("c", 1), ((0, 1),), 0, True)
    book.free(("b", 1))
    assert book.take(("c", 1), ((1, 1),), 1, False) == second
    with pytest.raises(BackendError, match="nodes 0 to 1, and no node 2"):
        book.take(("d", 1), ((2, 1),), 1, False)
    with pytest.raises(BackendError, match="has 4 cores, and the job is to have 5"):
        book.take(("d", 1), ((0, 1),), 5, False)


def test_cores_of_one_job_are_behind_one_cache_where_they_can_be() -> None:
    book = CoreBook(VirtualNodes(1, machine=server(), mount=none))
    assert {core.domain for core in book.take(("a", 1), ((0, 1),), 3, False)[0]} == {0}
    assert {core.domain for core in book.take(("b", 1), ((0, 1),), 2, False)[0]} == {1}
    (last,) = book.take(("c", 1), ((0, 1),), 1, False)[0]
    assert last.domain == 0  # where it leaves nothing over
    assert {core.domain for core in book.take(("d", 1), ((0, 1),), 2, False)[0]} == {1}


def test_a_core_comes_with_all_its_threads() -> None:
    book = CoreBook(VirtualNodes("l3", machine=server(threads=2), mount=none))
    assert cpus_of(book.take(("a", 1), ((1, 1),), 2, False)[1]) == [8, 9, 10, 11]
    other = CoreBook(book.nodes)
    other.restore(("a", 1), {1: [9, 10]})
    assert [bool(users) for users in other.users(1)] == [True, True, False, False]


def test_oversubscribed_jobs_go_where_fewest_are() -> None:
    book = CoreBook(VirtualNodes(1, machine=server(1, 2), mount=none), oversubscribe=True)
    book.take(("a", 1), ((0, 1),), 1, False)
    (second,) = book.take(("b", 1), ((0, 1),), 1, False)[0]
    assert second.cpus == (1,)
    assert len(book.take(("c", 1), ((0, 1),), 2, False)[0]) == 2


def test_what_the_core_is_told_of_the_machine() -> None:
    domains = VirtualNodes("l3", machine=server(4, 8), mount=none)
    (group,) = domains.cluster("shared").groups
    assert (group.count, group.cores, group.memory_bytes, group.domains) == (4, 8, 16 << 30, 4)
    assert domains.cores(((1, 1),)) == list(range(8, 16))
    assert VirtualNodes("machine", machine=server(4, 8), mount=none).cluster().cores == 32
    more = VirtualNodes(3, (0, 1), mount=none)
    assert (more.cluster().nodes, more.cores(((0, 3),))) == (3, [])
    with pytest.raises(InputError, match='"machine", "l3" or a number'):
        VirtualNodes("socket", machine=server(), mount=none)


@two_cores
def test_neighbours_are_bound_to_different_cores_and_found_again(tmp_path: Path) -> None:
    nodes = VirtualNodes(1, tuple(CPUS[:2]))
    wait = shell("while [ ! -e go ]; do sleep 0.02; done; taskset -pc $$ | sed 's/.*: //'")
    launch = Launch(wait.command, folder=str(tmp_path))

    async def before(backend: LocalBackend) -> None:
        assert backend.capabilities.moves
        await backend.execute(on("one", 0), launch)
        await backend.execute(on("two", 0), launch)
        assert sorted((await facts(backend, 2)), key=str) == [JobStarted("one", 1), JobStarted("two", 1)]
        with pytest.raises(BackendError, match="0 free cores"):
            await backend.execute(on("three", 0), launch)

    async def after(backend: LocalBackend) -> None:
        assert {run.job_id for run in await backend.observe()} == {"one", "two"}
        with pytest.raises(BackendError, match="0 free cores"):
            await backend.execute(on("three", 0), launch)
        (tmp_path / "go").touch()
        await ending(backend)
        await backend.execute(on("three", 0), launch)  # there is room as soon as an end is told
        assert {(await ending(backend)).status for _ in range(2)} == {"done"}
        said = [backend.output(job).read_text().strip() for job in ("one", "two")]
        assert sorted(said) == [str(cpu) for cpu in CPUS[:2]]

    play(tmp_path / "place", before, nodes=nodes)
    play(tmp_path / "place", after, nodes=nodes)


def affinities(folder: RunFolder) -> list[set[int]]:
    """Of every thread of the run; some of its processes end while we ask."""
    found = []
    for thread in runs.threads_of(runs.processes_of(folder)):
        with contextlib.suppress(ProcessLookupError):
            found.append(os.sched_getaffinity(thread))
    return found


@two_cores
def test_a_running_job_is_moved_with_every_process(tmp_path: Path) -> None:
    """And nobody else gets its new core, nor waits for its old one, also after a restart."""
    nodes = VirtualNodes(2, tuple(CPUS[:2]))
    tree = "sleep 60 & (setsid env -i sleep 60 &) ; while true; do sleep 0.01; done"
    folder = RunFolder(tmp_path / "runs", "job", 1)

    async def before(backend: LocalBackend) -> None:
        await backend.execute(on("job", 0), shell(tree))
        await facts(backend, 1)
        await until(lambda: len(affinities(folder)) >= 3)
        assert set.union(*affinities(folder)) == {CPUS[0]}
        await backend.execute(MoveJob("job", 1, ((1, 1),)))
        await backend.execute(MoveJob("job", 1, ((1, 1),)))  # again: no harm
        await until(lambda: len(affinities(folder)) >= 3)
        assert set.union(*affinities(folder)) == {CPUS[1]}
        assert folder.bound() == [[1, [CPUS[1]]]]

    async def after(backend: LocalBackend) -> None:
        await backend.observe()
        with pytest.raises(BackendError, match="0 free cores"):
            await backend.execute(on("other", 1), shell("exit 0"))
        await backend.execute(on("other", 0), shell("exit 0"))
        assert await ending(backend) == JobFinished("other", 1)
        await backend.execute(CancelJob("job", 1))

    play(tmp_path, before, nodes=nodes)
    play(tmp_path, after, nodes=nodes)


@two_cores
def test_a_job_that_cannot_be_moved_is_stopped_and_says_so(tmp_path: Path) -> None:
    """Its new node has a core that this machine does not have."""

    async def scene(backend: LocalBackend) -> None:
        await backend.execute(on("job", 0), shell("sleep 60"))
        await facts(backend, 1)
        await backend.execute(MoveJob("job", 1, ((1, 1),)))
        assert await ending(backend) == JobFinished("job", 1, "stopped")
        await backend.execute(MoveJob("job", 1, ((0, 1),)))  # it is over: nothing to be done

    play(tmp_path, scene, nodes=VirtualNodes(2, (CPUS[0], 4095)))


@two_cores
def test_ranks_stay_apart_when_they_are_moved(tmp_path: Path) -> None:
    """Swapping the cores of a job of two processes that are bound to one each."""
    nodes = VirtualNodes(1, tuple(CPUS[:2]))
    pair = f"taskset -c {CPUS[0]} sleep 60 & taskset -c {CPUS[1]} sleep 60 & wait"

    async def scene(backend: LocalBackend) -> None:
        await backend.execute(on("job", 0, 2), shell(pair))
        await facts(backend, 1)
        folder = RunFolder(tmp_path / "runs", "job", 1)
        await until(lambda: [affinities(folder).count({cpu}) for cpu in CPUS[:2]] == [1, 1])
        moving.rebind(folder, CPUS[:2], CPUS[1::-1])
        found = affinities(folder)
        assert {CPUS[0]} in found
        assert {CPUS[1]} in found
        await backend.execute(CancelJob("job", 1))

    play(tmp_path, scene, nodes=nodes)


def test_dividing_the_cache_without_resctrl_is_skipped_and_said_once(tmp_path: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        assert not backend.capabilities.shares
        for _ in range(2):
            await backend.execute(SetShares(((0, 1),), (("job", 0, 4),)))
        assert [one for one in backend.notices() if "cache" in one] == [
            "the cache is not divided: resctrl is not mounted, or no job is bound to cores"
        ]

    play(tmp_path, scene, mount=none)
