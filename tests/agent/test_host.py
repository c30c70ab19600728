"""What a machine offers, said plainly: recorded trees with and without, and this machine."""

from __future__ import annotations

from pathlib import Path

import machine_trees as trees

from cohabit.agent.host import HostOffer, host_offers
from tests.support.resctrl import FakeResctrl
from tests.support.resctrl_machines import INTEL

RESCTRL = "cache partitioning (resctrl)"


def named(offers: list[HostOffer], what: str) -> HostOffer:
    return next(one for one in offers if one.what == what)


def test_a_machine_with_everything(tmp_path: Path) -> None:
    tree = trees.intel_two_sockets()
    tree.files = {
        "proc/self/mounts": "resctrl /sys/fs/resctrl resctrl rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0",
        "sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory", "proc/sys/kernel/perf_event_paranoid": "1",
        "sys/bus/event_source/devices/cpu/type": "4", "sys/bus/event_source/devices/uncore_imc_0/type": "9",
        "sys/bus/event_source/devices/software/type": "1",
    }  # fmt: skip
    offers = host_offers(tree.write(tmp_path), FakeResctrl(set(), machine=INTEL))
    assert all(one.available for one in offers)
    assert named(offers, "processor").found.startswith("8 cores, 2 threads each")
    assert named(offers, RESCTRL).found == "mounted on /sys/fs/resctrl"
    assert [one.found for one in offers if one.what == "resctrl"][1] == "7 groups beside the root (classes of service)"
    assert named(offers, "hardware counters").found == "cpu; of the memory: uncore_imc_0; perf_event_paranoid = 1"
    assert named(offers, "control groups, version 2").found == "/sys/fs/cgroup: cpuset, cpu, memory"


def test_a_machine_with_nothing_says_what_would_help(tmp_path: Path) -> None:
    offers = host_offers(trees.amd_many_domains().write(tmp_path))
    assert [one.what for one in offers if not one.available] == [RESCTRL, "hardware counters", "control groups"]
    assert all(one.advice for one in offers if not one.available)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/filesystems").write_text("nodev\tproc\nnodev\tresctrl\n")
    assert "mount -t resctrl" in named(host_offers(tmp_path), RESCTRL).advice


def test_resctrl_that_is_in_the_table_and_gone(tmp_path: Path) -> None:
    tree = trees.arm_container()
    tree.files = {"proc/self/mounts": "resctrl /sys/fs/resctrl resctrl rw 0 0\ncgroup /c cgroup rw,cpu,cpuacct 0 0"}
    fake = FakeResctrl(set())
    fake.unmount()
    offers = host_offers(tree.write(tmp_path), fake)
    assert "cannot be read" in named(offers, RESCTRL).found
    assert named(offers, "control groups, version 1").found == "cpu"


def test_this_machine_is_described() -> None:
    offers = host_offers()
    assert named(offers, "processor").available
    assert all(
        one.found and (one.available or one.advice or one.what in ("resctrl", "last-level cache")) for one in offers
    )
