"""Machines from sysfs trees (hand-written, see machine_trees) and this one; nodes made of them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import machine_trees as trees
import pytest

from cohabit.agent.local_nodes import LocalNode, divide, node_groups
from cohabit.agent.local_nodes import describe as describe_nodes
from cohabit.agent.resctrl.files import Mount
from cohabit.agent.resctrl.offer import ResctrlOffer, read_offer
from cohabit.agent.topology import describe, discover, format_cpus, parse_cpus
from cohabit.model.cluster import Cluster
from cohabit.model.errors import InputError
from tests.support.resctrl import FakeResctrl
from tests.support.resctrl_machines import AMD, ARM_CACHE_ONLY, HASWELL, INTEL, Machine


def offer_of(machine: Machine) -> ResctrlOffer:
    return read_offer(FakeResctrl(set(), machine=machine), Mount(Path("/sys/fs/resctrl")), machine.processor)


def test_lists_of_cpus() -> None:
    assert parse_cpus("0-2,8,10-11\n") == (0, 1, 2, 8, 10, 11)
    assert parse_cpus("\n") == ()
    assert format_cpus((0, 1, 2, 8, 10, 11)) == "0-2,8,10-11"
    assert format_cpus(()) == ""


def test_two_sockets_with_threads_and_a_cpu_offline(tmp_path: Path) -> None:
    found = discover(trees.intel_two_sockets().write(tmp_path))
    assert [core.cpus for core in found.cores] == [
        (0, 8), (1, 9), (2, 10), (3, 11), (4, 12), (5, 13), (6, 14), (7,),
    ]  # fmt: skip
    assert [core.package for core in found.cores] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [core.numa for core in found.cores] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [(one.number, one.ways, one.size_bytes) for one in found.domains] == [
        (0, 11, 16896 * 1024),
        (1, 11, 17301504),
    ]
    assert (found.offline, found.forbidden, found.quota_cpus) == ((15,), (), None)
    assert found.memory_bytes == 131_000_000 * 1024
    assert describe(found) == [
        "8 cores, 2 threads each on 2 sockets and 2 NUMA nodes (15 CPUs)",
        "2 L3 domains (ids 0-1) of 16.5 MiB and 11 ways", "CPUs 15 are offline",
    ]  # fmt: skip


def test_gapped_cache_ids_and_memory_without_cpus(tmp_path: Path) -> None:
    found = discover(trees.amd_many_domains().write(tmp_path))
    assert [one.number for one in found.domains] == [0, 1, 8, 9]
    assert [core.domain for core in found.cores] == [0, 0, 1, 1, 8, 8, 9, 9]
    assert found.numa_bytes == ((0, 128_000_000 * 1024), (1, 256_000_000 * 1024))
    assert "ids 0-1,8-9" in describe(found)[1]


def test_a_container_sees_only_what_it_may_use(tmp_path: Path) -> None:
    found = discover(trees.arm_container().write(tmp_path))
    assert [core.cpus for core in found.cores] == [(2,), (3,)]
    assert (found.forbidden, found.quota_cpus) == ((0, 1), 1.5)
    assert {core.package for core in found.cores} == {0}
    assert found.domains[0].size_bytes == 32 * 2**20
    said = describe(found)
    assert "an unknown number of ways" in said[1]
    assert said[2:] == ["CPUs 0-1 are outside the cpuset or affinity of this process",
                        "a control group limits the processor time to 1.5 CPUs"]  # fmt: skip


def test_a_core_of_which_only_one_thread_may_be_used(tmp_path: Path) -> None:
    tree = trees.intel_two_sockets()
    tree.allowed = "1,2,10"
    assert [core.cpus for core in discover(tree.write(tmp_path)).cores] == [(1,), (2, 10)]


def test_limits_of_control_groups_of_version_1(tmp_path: Path) -> None:
    tree = trees.arm_container()
    tree.files = {
        "proc/self/cgroup": "3:cpu,cpuacct:/a\n2:memory:/b",
        "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "250000", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
    }  # fmt: skip
    assert discover(tree.write(tmp_path)).quota_cpus == 2.5


def test_a_virtual_machine_that_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "sys/devices/system/cpu/cpu0").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/cpu1").mkdir()
    found = discover(tmp_path)
    assert [core.cpus for core in found.cores] == [(0,), (1,)]
    assert (found.domains, found.memory_bytes) == ((), 0)
    assert "no L3 cache" in describe(found)[1]
    with pytest.raises(InputError, match="no L3 caches"):
        divide(found, "l3")


def test_no_machine_and_no_cpu_to_use(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no CPU is listed"):
        discover(tmp_path)
    tree = trees.arm_container()
    tree.allowed = "7"
    with pytest.raises(InputError, match="no CPU that this process may use"):
        discover(tree.write(tmp_path))


def test_this_machine() -> None:
    found = discover()
    assert {cpu for core in found.cores for cpu in core.cpus} == os.sched_getaffinity(0)
    assert found.memory_bytes > 2**28 or not found.numa_bytes
    nodes = divide(found, len(found.cores))
    assert [len(one.cores) for one in nodes] == [1] * len(found.cores)
    assert Cluster(node_groups(nodes)).cores == len(found.cores)


def shape(nodes: tuple[LocalNode, ...]) -> list[tuple[str, tuple[int, ...], int, int, int]]:
    return [(format_cpus(one.cpus), one.domains, one.first_way, one.ways, one.classes) for one in nodes]


def test_the_machine_as_one_node(tmp_path: Path) -> None:
    found = discover(trees.intel_two_sockets().write(tmp_path))
    (node,) = divide(found, offer=offer_of(INTEL))
    assert shape((node,)) == [("0-14", (0, 1), 0, 9, 7)]  # two ways are left to devices; MB has 8 classes
    (group,) = node_groups((node,))
    assert (group.count, group.cores, group.ways, group.closids, group.domains) == (1, 8, 9, 7, 1)


def test_every_l3_domain_a_node(tmp_path: Path) -> None:
    found = discover(trees.amd_many_domains().write(tmp_path))
    nodes = divide(found, "l3", offer_of(AMD))
    assert shape(nodes) == [
        ("0-1", (0,), 0, 16, 15), ("2-3", (1,), 0, 16, 15), ("4-5", (8,), 0, 16, 15), ("6-7", (9,), 0, 16, 15),
    ]  # fmt: skip
    (group,) = node_groups(nodes)
    assert (group.count, group.cores, group.domains) == (4, 2, 4)
    assert describe_nodes(nodes)[2] == "node2: 2 cores (CPUs 4-5), 91.6 GiB, ways 0 to 15"


def test_virtual_nodes_divide_the_ways_of_the_domain_they_share(tmp_path: Path) -> None:
    found = discover(trees.intel_two_sockets().write(tmp_path))
    assert shape(divide(found, 4, offer_of(HASWELL))) == [
        ("0-1,8-9", (0,), 0, 9, 1), ("2-3,10-11", (0,), 9, 9, 1), ("4-5,12-13", (1,), 0, 9, 1),
        ("6-7,14", (1,), 9, 9, 1),
    ]  # fmt: skip
    uneven = divide(found, 3, offer_of(INTEL))
    assert [len(one.cores) for one in uneven] == [3, 3, 2]
    # The middle one spans two sockets and has no way that is its own on both.
    assert [(one.domains, one.first_way, one.ways) for one in uneven] == [((0,), 0, 6), ((0, 1), 0, 0), ((1,), 4, 5)]
    assert [group.count for group in node_groups(uneven)] == [1, 1, 1]


def test_too_few_ways_or_classes_mean_no_division(tmp_path: Path) -> None:
    found = discover(trees.intel_two_sockets().write(tmp_path))
    assert {one.ways for one in divide(found, 8, offer_of(HASWELL))} == {0}  # three classes for four nodes of a socket
    assert "cache not divided" in describe_nodes(divide(found, 8, offer_of(HASWELL)))[0]
    assert {one.ways for one in divide(found, 8, offer_of(INTEL))} == {2, 3}
    other = replace(offer_of(INTEL), cache=None)
    assert {one.ways for one in divide(found, 2, other)} == {0}


def test_domains_that_resctrl_does_not_know_are_not_divided(tmp_path: Path) -> None:
    found = discover(trees.amd_many_domains().write(tmp_path))
    ways = [one.ways for one in divide(found, "l3", offer_of(ARM_CACHE_ONLY))]  # knows domains 1 and 5
    assert ways == [0, 16, 0, 0]


@pytest.mark.parametrize(("by", "words"), [(0, "0 virtual nodes of 8"), (9, "9 virtual nodes"), ("socket", "nodes = ")])
def test_nodes_that_cannot_be(by: int | str, words: str, tmp_path: Path) -> None:
    found = discover(trees.amd_many_domains().write(tmp_path))
    with pytest.raises(InputError, match=words):
        divide(found, by)
