"""The enforcing fake refuses what the kernel refuses, with its error and its words; what it accepts, it shows."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.resctrl import FakeResctrl
from tests.support.resctrl_faults import FaultyResctrl
from tests.support.resctrl_machines import AMD, ARM, HASWELL, INTEL, INTEL_CDP, INTEL_MBPS, INTEL_OLD_KERNEL, Machine

ROOT = Path("/sys/fs/resctrl")
A = ROOT / "a"


def refused(do: Callable[[], object]) -> int | None:
    with pytest.raises(OSError) as caught:
        do()
    return caught.value.errno


def status(fake: FakeResctrl) -> str:
    return fake.read(ROOT / "info/last_cmd_status").strip()


def with_group(machine: Machine = INTEL) -> FakeResctrl:
    fake = FakeResctrl({7, 8}, machine=machine)
    fake.make(A)
    return fake


@pytest.mark.parametrize(
    ("machine", "text", "words"),
    [
        (INTEL, "L3:0=f", "ok"),  # no newline: refused without words
        (INTEL, "L3:0=5\n", "non-consecutive"),
        (INTEL, "L3:0=0\n", "out of range"),
        (INTEL, "L3:0=fff\n", "out of range"),
        (INTEL, "L3:0=g\n", "Non-hex"),
        (INTEL, "L3:0=3;0=f\n", "Duplicate domain 0"),
        (INTEL, "L3:7=f\n", "ok"),
        (INTEL, "L3:x=f\n", "non-numeric domain"),
        (INTEL, "L3 0=f\n", "Missing ':'"),
        (INTEL, "L3:\n", "Missing 'L3' value"),
        (INTEL, "L2:0=f\n", "Unknown or unsupported resource name 'L2'"),
        (INTEL, "MB:0=5\n", "out of range [10,100]"),
        (INTEL, "MB:0=110\n", "out of range"),
        (INTEL, "MB:0=many\n", "Invalid MB value"),
        (HASWELL, "L3:0=1\n", "Need at least 2 bits"),
        (HASWELL, "MB:0=50\n", "Unknown or unsupported"),
        (INTEL_CDP, "L3:0=f\n", "Unknown or unsupported"),
        (AMD, "L3:4=f\n", "ok"),  # a gap in the ids
        (AMD, "MB:0=2049\n", "out of range"),
        (ARM, "MB:1=0\n", "out of range"),
        (replace(AMD, min_bits=2), "L3:0=d\n", "Need at least 2 bits"),  # the first run counts
    ],
)
def test_schemata_that_are_refused_change_nothing(machine: Machine, text: str, words: str) -> None:
    fake = with_group(machine)
    before = fake.read(A / "schemata")
    assert refused(lambda: fake.write(A / "schemata", text)) == errno.EINVAL
    assert words in status(fake)
    assert fake.read(A / "schemata") == before


def test_schemata_are_staged_and_only_named_domains_change() -> None:
    fake = with_group()
    assert refused(lambda: fake.write(A / "schemata", "L3:0=3\nMB:0=5\n")) == errno.EINVAL
    assert fake.read(A / "schemata") == "    L3:0=7ff;1=7ff\n    MB:0=100;1=100\n"
    fake.write(A / "schemata", "L3:1=0x3\nMB:0=31\n")
    assert fake.read(A / "schemata") == "    L3:0=7ff;1=003\n    MB:0=40;1=100\n"  # rounded up to the grain
    assert status(fake) == "ok"


def test_other_processors_take_other_values() -> None:
    fake = with_group(AMD)
    fake.write(A / "schemata", "L3:8=a5\nMB:8=17\n")
    assert "8=00a5" in fake.read(A / "schemata")
    assert "8=17" in fake.read(A / "schemata")
    fake = with_group(INTEL_MBPS)
    fake.write(A / "schemata", "MB:0=123456\n")
    assert "0=123456;1=4294967295" in fake.read(A / "schemata")
    fake = with_group(INTEL_CDP)
    fake.write(A / "schemata", "L3CODE:0=3\nL3DATA:0=c\n")
    assert "L3CODE:0=003;1=7ff" in fake.read(A / "schemata")


def test_classes_run_out() -> None:
    fake = FakeResctrl(set(), machine=HASWELL)
    for name in "abc":
        fake.make(ROOT / name)
    assert refused(lambda: fake.make(ROOT / "d")) == errno.ENOSPC
    assert status(fake) == "Out of CLOSIDs"
    assert refused(lambda: fake.make(A)) == errno.EEXIST
    fake.remove(A)
    fake.make(ROOT / "d")


def test_where_groups_cannot_be() -> None:
    fake = with_group()
    assert refused(lambda: fake.make(ROOT / "x\ny")) == errno.EINVAL
    assert refused(lambda: fake.make(A / "inside")) == errno.EPERM
    assert refused(lambda: fake.make(ROOT / "mon_groups/mon_groups")) == errno.EPERM
    assert refused(lambda: fake.remove(ROOT / "info")) == errno.EPERM
    assert refused(lambda: fake.remove(ROOT / "mon_groups")) == errno.EPERM
    assert refused(lambda: fake.remove(ROOT / "nobody")) == errno.ENOENT
    assert refused(lambda: fake.write(A / "size", "1\n")) == errno.EACCES


def test_tasks_fall_back_to_the_group_above_when_theirs_is_removed() -> None:
    fake = with_group()
    fake.make(A / "mon_groups/m")
    assert refused(lambda: fake.write(A / "mon_groups/m/tasks", "7\n")) == errno.EINVAL
    assert "different control group" in status(fake)
    fake.write(A / "tasks", "7\n")
    fake.write(A / "mon_groups/m/tasks", "7\n")
    assert (fake.classes["a"].own.tasks, fake.read(A / "mon_groups/m/tasks")) == (set(), "7\n")
    assert fake.read(A / "tasks") == "7\n"  # the class shows all of its tasks
    assert refused(lambda: fake.write(A / "tasks", "7,9,8\n")) == errno.ESRCH
    assert (status(fake), fake.read(A / "tasks")) == ("No task 9", "7\n")  # those before the fault stay moved
    fake.write(A / "mon_groups/m/tasks", "7\n")
    fake.remove(A)
    assert (fake.class_of(7), fake.read(ROOT / "tasks")) == ("", "7\n")


def test_a_monitoring_group_moves_with_tasks_and_counters() -> None:
    fake = with_group()
    fake.make(ROOT / "mon_groups/m")
    fake.write(ROOT / "mon_groups/m/tasks", "7\n")
    fake.tick(7, 100, 60, 4096)
    fake.move(ROOT / "mon_groups/m", A / "mon_groups/m")
    assert fake.class_of(7) == "a"
    assert fake.read(A / "mon_groups/m/mon_data/mon_L3_00/mbm_total_bytes") == "100\n"
    assert fake.read(A / "mon_data/mon_L3_00/mbm_total_bytes") == "100\n"  # a class shows its groups' traffic too
    assert refused(lambda: fake.move(A, ROOT / "b")) == errno.EPERM
    old = with_group(INTEL_OLD_KERNEL)
    old.make(ROOT / "mon_groups/m")
    assert refused(lambda: old.move(ROOT / "mon_groups/m", A / "mon_groups/m")) == errno.EPERM


def test_exclusive_groups_do_not_overlap() -> None:
    fake = with_group()
    assert refused(lambda: fake.write(A / "mode", "exclusive\n")) == errno.EINVAL
    assert status(fake) == "Schemata overlaps"
    fake.write(A / "schemata", "L3:0=3;1=3\n")
    fake.write(ROOT / "schemata", "L3:0=7fc;1=7fc\n")
    fake.write(A / "mode", "exclusive\n")
    assert refused(lambda: fake.write(ROOT / "schemata", "L3:0=7ff\n")) == errno.EINVAL
    assert status(fake) == "Overlaps with exclusive group"
    assert refused(lambda: fake.write(A / "schemata", "L3:0=7\n")) == errno.EINVAL
    assert status(fake) == "Overlaps with other group"
    fake.make(ROOT / "b")
    assert "L3:0=7fc;1=7fc" in fake.read(ROOT / "b/schemata")
    assert refused(lambda: fake.write(A / "mode", "locked\n")) == errno.EINVAL


def test_monitoring_ids_run_out_and_rest_in_limbo() -> None:
    fake = FakeResctrl(set(), ids=2, limbo_calls=1)
    fake.make(A)
    assert refused(lambda: fake.make(ROOT / "mon_groups/m")) == errno.ENOSPC
    assert status(fake) == "Out of RMIDs"
    fake.remove(A)
    assert refused(lambda: fake.make(ROOT / "mon_groups/m")) == errno.EBUSY
    fake.make(ROOT / "mon_groups/m")


def test_foreign_groups_are_watched_and_unmounting_takes_everything() -> None:
    fake = FakeResctrl({7})
    fake.add_foreign_class("theirs")
    with pytest.raises(AssertionError, match="not ours"):
        fake.write(ROOT / "theirs/tasks", "7\n")
    with pytest.raises(AssertionError, match="not ours"):
        fake.remove(ROOT / "theirs")
    fake.unmount()
    assert fake.names(ROOT) == []
    assert refused(lambda: fake.read(ROOT / "schemata")) == errno.ENOENT
    assert refused(lambda: fake.make(A)) == errno.ENOENT


def test_faults_come_when_ordered_and_changes_are_counted() -> None:
    fake = FakeResctrl({7})
    faulty = FaultyResctrl(fake)
    seen: list[int] = []
    faulty.after_each(lambda: seen.append(len(fake.classes)))
    faulty.fail(2, errno.EIO)
    faulty.before(3, lambda: fake.add_foreign_class("theirs"))
    faulty.make(A)
    assert refused(lambda: faulty.make(ROOT / "b")) == errno.EIO
    faulty.make(ROOT / "b")
    assert (seen, [verb for verb, _, _ in faulty.changes]) == ([1, 3], ["make"] * 3)
