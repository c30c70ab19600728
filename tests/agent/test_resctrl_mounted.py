"""The real file system calls and the real launcher against the fake, mounted: errors come back through the kernel."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cohabit.agent.launch.process import Request, launch
from cohabit.agent.local_nodes import divide
from cohabit.agent.resctrl.actuator import Actuator
from cohabit.agent.resctrl.files import HostFiles, Mount
from cohabit.agent.resctrl.offer import read_offer
from cohabit.agent.resctrl.wanted import Placed
from cohabit.agent.sensors.resctrl import Resctrl
from cohabit.agent.topology import discover
from cohabit.model.command import SetShares
from tests.support.resctrl import FakeResctrl
from tests.support.resctrl_faults import FaultyResctrl
from tests.support.resctrl_machines import HASWELL, INTEL, INTEL_OLD_KERNEL, Machine
from tests.support.resctrl_mount import can_mount, mounted

pytestmark = [pytest.mark.system, pytest.mark.skipif(bool(can_mount()), reason=can_mount())]
SLEEPER = (sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)")


class Machinery:
    """A mounted fake of a machine whose domain 0 is this machine's."""

    def __init__(self, machine: Machine, place: Path) -> None:
        self.fake = FakeResctrl(lambda task: Path("/proc", str(task)).exists(), str(place), machine=machine)
        self.faulty = FaultyResctrl(self.fake)
        self.place, self.said = place, list[str]()
        self.mount: Mount | None = Mount(place)

    def actuator(self) -> Actuator:
        offer = read_offer(HostFiles(), Mount(self.place), "x86_64")
        nodes = divide(discover(), offer=offer)
        return Actuator(nodes, self.said.append, mount=lambda: self.mount, processor="x86_64")


def enter(pid: int, hand: Actuator) -> None:
    """Put a process that is held before it executes into its groups."""
    for file in hand.joins("real"):
        HostFiles().write(file, f"{pid}\n")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "resctrl"
    folder.mkdir()
    yield folder
    assert not os.path.ismount(folder)


def test_the_verbs_of_the_host_meet_the_kernels_errors(place: Path) -> None:
    machinery, files = Machinery(HASWELL, place), HostFiles()
    with mounted(machinery.faulty, place):
        for name in "abc":
            files.make(place / name)
        with pytest.raises(OSError) as caught:
            files.make(place / "d")
        assert caught.value.errno == errno.ENOSPC
        assert files.read(place / "info/last_cmd_status") == "Out of CLOSIDs\n"
        with pytest.raises(OSError) as caught:
            files.write(place / "a/schemata", "L3:0=5\n")
        assert caught.value.errno == errno.EINVAL
        with pytest.raises(ProcessLookupError):
            files.write(place / "a/tasks", "999999999\n")
        files.make(place / "mon_groups/m")
        files.move(place / "mon_groups/m", place / "b/mon_groups/m")
        assert files.names(place / "b/mon_groups") == ["m"]
        files.remove(place / "b")
        assert sorted(machinery.fake.classes) == ["a", "c"]


@pytest.mark.parametrize("machine", [INTEL, INTEL_OLD_KERNEL], ids=["intel", "old-kernel"])
def test_a_real_job_is_in_its_group_before_it_executes_and_can_be_moved(machine: Machine, place: Path) -> None:
    machinery = Machinery(machine, place)
    with mounted(machinery.faulty, place):
        hand = machinery.actuator()
        hand.place(Placed("real", (0,), 1))
        hand.divide(SetShares(((0, 1),), (("real", 0, 4),)))
        hand.apply()
        with launch(Request(SLEEPER)) as running:
            enter(running.pid, hand)
            name = machinery.fake.class_of(running.pid)  # held: it has not executed yet
            assert machinery.fake.classes[name].schemata["L3"][0] == 0xF
            running.release()
            assert Resctrl(place).offer().available
            hand.divide(SetShares(((0, 1),), ()))
            hand.apply(lambda _: [running.pid])
            assert machinery.fake.class_of(running.pid) == ""
            hand.divide(SetShares(((0, 1),), (("real", 2, 3),)))
            assert hand.apply(lambda _: [running.pid]).refused == {}
            name = machinery.fake.class_of(running.pid)
            assert machinery.fake.classes[name].schemata["L3"][0] == 0x1C
            assert running.wait(0.0) is None
    assert machinery.said == []


def test_unmounting_under_a_running_job(place: Path) -> None:
    machinery = Machinery(INTEL, place)
    with mounted(machinery.faulty, place) as unmount:
        hand = machinery.actuator()
        hand.place(Placed("real", (0,), 1))
        hand.divide(SetShares(((0, 1),), (("real", 0, 4),)))
        hand.apply()
        with launch(Request(SLEEPER)) as running:
            enter(running.pid, hand)
            running.release()
            unmount()
            hand.divide(SetShares(((0, 1),), (("real", 0, 5),)))
            hand.apply(lambda _: [running.pid])
            machinery.mount = None
            hand.apply(lambda _: [running.pid])
            assert machinery.said == [
                "resctrl is no longer mounted: jobs continue, the cache is not divided until it is mounted again",
                "resctrl is not mounted: jobs run, the cache is not divided",
            ]
            assert running.wait(0.0) is None
            assert list(place.iterdir()) == []


def test_a_write_that_fails_inside_the_kernel(place: Path) -> None:
    machinery = Machinery(INTEL, place)
    with mounted(machinery.faulty, place):
        hand = machinery.actuator()
        hand.place(Placed("real", (0,), 1))
        hand.divide(SetShares(((0, 1),), (("real", 0, 4),)))
        machinery.faulty.fail(2, errno.EIO)
        assert hand.apply().unfinished
        assert "input/output error" in machinery.said[0]
        assert hand.apply().refused == {}
        assert machinery.fake.classes["cohabit.class0"].schemata["L3"][0] == 0xF
