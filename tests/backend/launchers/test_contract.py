"""How processes are laid on cores, and what every job finds in its environment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.backend.launchers.contract import (
    NodeShare,
    Placement,
    checked,
    cores_text,
    processes_of,
    processes_with_threads,
    thread_environment,
)
from cohabit.backend.launchers.registry import LAUNCHERS, find_launcher
from cohabit.model.errors import InputError
from tests.backend.launchers.placements import OPEN_MPI, on, wish

shapes = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(1, 9)), min_size=1, max_size=6)


@given(shapes, st.integers(1, 4), st.data())
def test_no_core_has_two_processes_and_counts_are_even(shape, threads, data):
    placement = checked(wish(), on(*shape))
    room = [node.slots // threads for node in placement.nodes]
    wanted = data.draw(st.integers(0, sum(room))) if sum(room) else 0
    request = wish(threads=threads, processes=wanted * threads)
    if sum(room) == 0:
        with pytest.raises(InputError, match="its cores hold 0"):
            processes_of(request, placement, threads)
        return
    found = processes_of(request, placement, threads)
    assert [one.rank for one in found] == list(range(wanted or sum(room)))
    assert [one.node for one in found] == sorted(one.node for one in found)
    cores = [(placement.nodes[one.node].host, core) for one in found for core in one.cores]
    assert len(cores) == len(set(cores)) == threads * len(found)
    for one in found:
        assert set(one.cores) <= set(placement.nodes[one.node].cores)
    counts = [sum(one.node == at for one in found) for at in range(len(room))]
    assert all(count <= space for count, space in zip(counts, room, strict=True))
    unfilled = [count for count, space in zip(counts, room, strict=True) if count < space]
    assert not unfilled or max(counts) - min(unfilled) <= 1


def test_five_processes_on_two_nodes_of_three_cores() -> None:
    found = processes_of(wish(processes=5), on(("a", 3), ("b", 3)), 1)
    assert [(one.node, one.cores) for one in found] == [(0, (0,)), (0, (1,)), (0, (2,)), (1, (0,)), (1, (1,))]


def test_more_than_the_cores_hold_only_if_asked() -> None:
    with pytest.raises(InputError, match="wants 4 processes of 1 threads, but its cores hold 2"):
        processes_of(wish(processes=4), on(("a", 2)), 1)
    found = processes_of(wish(processes=4, oversubscribe=True), on(("a", 2)), 1)
    assert [one.cores for one in found] == [(0,), (1,), (0,), (1,)]


def test_threads_must_divide_the_cores() -> None:
    with pytest.raises(InputError, match="5 cores, which 2 threads per process do not divide"):
        processes_of(wish(processes=5), on(("a", 6)), 2)


def test_without_a_wish_for_threads_there_is_one_process_per_node() -> None:
    found, threads = processes_with_threads(wish(processes=7), on(("a", 5), ("b", 2)))
    assert [one.cores for one in found] == [(0, 1, 2, 3, 4), (0, 1)]
    assert threads == 2


def test_nodes_of_one_machine_stand_together() -> None:
    placement = checked(wish(), on(("b", 1), ("a", 1), ("b", 1)))
    assert [(node.host, node.number) for node in placement.nodes] == [("b", 0), ("b", 2), ("a", 1)]


@pytest.mark.parametrize(
    ("request_", "placement", "words"),
    [
        (wish(threads=-1), on(("a", 1)), "negative"),
        (wish(), Placement(()), "no nodes"),
        (wish(), Placement((NodeShare("a", 2, (0,)),)), "2 cores on a, but 1 named"),
    ],
)
def test_what_cannot_be_is_refused_by_every_launcher(request_, placement, words) -> None:
    for name in LAUNCHERS:
        with pytest.raises(InputError, match=words):
            find_launcher(name)(request_, placement, OPEN_MPI)


@pytest.mark.parametrize("name", LAUNCHERS)
def test_every_launcher_says_what_the_job_has_and_changes_nothing(name: str) -> None:
    request, placement = wish(memory_bytes=4 << 30), on(("localhost", 2), ("localhost", 2), scale=2)
    first = find_launcher(name)(request, placement, OPEN_MPI)
    assert find_launcher(name)(request, placement, OPEN_MPI) == first
    told = first.environment
    assert told["COHABIT_JOB"] == "job 7"
    assert told["COHABIT_FRAMEWORK"] == name
    assert (told["COHABIT_NODES"], told["COHABIT_NODE_COUNT"]) == ("0,1", "2")
    assert (told["COHABIT_HOSTS"], told["COHABIT_CORES"]) == ("localhost,localhost", "2,2")
    assert told["COHABIT_SCALE"] == "2"
    assert all("/" not in file for file in first.files)


def test_the_owners_thread_counts_stay_unless_threads_were_asked_for() -> None:
    mine = {"OMP_NUM_THREADS": "9"}
    assert thread_environment(wish(environment=mine), 2, ["OMP_NUM_THREADS"]) == {"COHABIT_THREADS": "2"}
    asked = thread_environment(wish(environment=mine, threads=2), 2, ["OMP_NUM_THREADS"])
    assert asked == {"COHABIT_THREADS": "2", "OMP_NUM_THREADS": "2"}


def test_cores_as_taskset_reads_them() -> None:
    assert cores_text([3, 0, 1, 2, 8, 10, 11]) == "0-3,8,10-11"
    assert cores_text([]) == ""
