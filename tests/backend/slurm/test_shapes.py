"""Tasks of small jobs stay together, stated numbers of nodes are kept without taking them whole, and what can never run
goes back queued."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from cohabit.backend.slurm.calls import Calls
from cohabit.backend.slurm.steering import SlurmManager
from cohabit.backend.steered.contract import ManagerRefused
from cohabit.backend.steered.handback import hand_back
from cohabit.backend.steered.lease import write_lease
from cohabit.backend.steered.watchdog import watch
from cohabit.model.event import NodeDrained, StartRefused
from tests.backend.slurm.steering import attached, jobs_of, log_of, start_attached, stop, submit, until, write_site
from tests.backend.slurm.test_slurms_own_changes import facts
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm-2")]


def test_tasks_stay_together_and_stated_shapes_are_kept(two_idle: SlurmCluster, tmp_path: Path) -> None:
    slurm = two_idle

    def run(name: str) -> bool:
        return jobs_of(slurm)[name].runs

    with attached(write_site(slurm, tmp_path, "cs")):
        three = [submit(slurm, tmp_path, tmp_path / "go", "-n3") for _ in range(2)]
        until(lambda: all(run(name) for name in three), 60, log_of(tmp_path))
        assert {jobs_of(slurm)[name].nodes for name in three} == {("n0",), ("n1",)}
        scattered = submit(slurm, tmp_path, tmp_path / "there", "-n2")  # one core is free on each node
        one = submit(slurm, tmp_path, 0.5, "-n1")
        until(lambda: jobs_of(slurm)[one].state == "COMPLETED", 60, log_of(tmp_path))  # the queue was looked at
        assert jobs_of(slurm)[scattered].held
        (tmp_path / "go").touch()
        until(lambda: run(scattered), 60, log_of(tmp_path))
        assert len(jobs_of(slurm)[scattered].nodes) == 1
        (tmp_path / "there").touch()
        shaped = {
            submit(slurm, tmp_path, tmp_path / "last", *options): cores
            for options, cores in (
                (("-N2", "-n2"), {"n0": 1, "n1": 1}),
                (("--ntasks-per-node=1", "-n2"), {"n0": 1, "n1": 1}),
                (("-N2", "-n2", "-c2"), {"n0": 2, "n1": 2}),
            )
        }
        until(lambda: all(run(name) for name in shaped), 60, log_of(tmp_path))  # all at once, on all eight cores
        jobs = jobs_of(slurm)
        assert {name: jobs[name].cores_on for name in shaped} == shaped
        (tmp_path / "last").touch()
        until(lambda: all(jobs_of(slurm)[name].state == "COMPLETED" for name in shaped), 60, log_of(tmp_path))
        assert all(jobs_of(slurm)[name].mark.startswith("cohabit:run:1:") for name in (scattered, *shaped))


def test_what_can_never_run_goes_back_queued(two_idle: SlurmCluster, tmp_path: Path) -> None:
    """Slurm refuses to change such a job; it must not be left held, neither by a living controller nor by detach."""
    slurm, site = two_idle, write_site(two_idle, tmp_path, "cs")
    (process,) = start_attached(site)
    living = submit(slurm, tmp_path, 1, "-n300")
    until(lambda: not jobs_of(slurm)[living].held, 30, log_of(tmp_path))
    stop(process)
    dead, fine = submit(slurm, tmp_path, 1, "-n300"), submit(slurm, tmp_path, 1, "-n1")
    assert jobs_of(slurm)[dead].held
    said = slurm.run("python", "-m", "tests.backend.slurm.attach", "slurm", "detach", str(site))
    assert "2 jobs were given back to Slurm" in said
    until(lambda: jobs_of(slurm)[fine].state == "COMPLETED", 30)
    jobs = jobs_of(slurm)
    assert {(jobs[name].state, jobs[name].held, jobs[name].reason) for name in (living, dead)} == {
        ("PENDING", False, "PartitionConfig")
    }
    assert {jobs[name].mark for name in (living, dead)} == {"cohabit:back"}


class Refusing(SlurmManager):
    """Slurm, but that it does not let one job go until it may."""

    def __init__(self, slurm: SlurmCluster, name: str) -> None:
        super().__init__(Calls(str(slurm.conf)))
        self.name, self.may = name, False

    async def release(self, names: Sequence[str]) -> None:
        if self.name in names and not self.may:
            raise ManagerRefused("Requested operation is presently disabled")
        await super().release(names)


def test_what_cannot_be_given_back_is_said_and_tried_again(
    two_idle: SlurmCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By the watchdog, until Slurm takes it; what could be given back is not kept by it."""
    slurm, lease = two_idle, two_idle.folder / "lease"
    write_lease(lease, time.time() + 60, ("all",))
    stuck, fine = (submit(slurm, tmp_path, 1, "-n1") for _ in range(2))
    assert {jobs_of(slurm)[name].mark for name in (stuck, fine)} == {"cohabit:held:open"}
    write_lease(lease, 0, ("all",))
    manager = Refusing(slurm, stuck)
    handed = asyncio.run(hand_back(manager, ["all"]))
    assert (handed.released, handed.failed) == ((fine,), {stuck: "Requested operation is presently disabled"})

    async def watched() -> None:
        watching = asyncio.create_task(watch(lease, manager, all_held=False))
        await asyncio.sleep(3)
        assert not watching.done()
        manager.may = True
        await asyncio.wait_for(watching, 20)

    asyncio.run(watched())
    said = f"job {stuck} could not be given back and is tried again: Requested operation is presently disabled"
    assert caplog.text.count(said) == 1
    until(lambda: all(jobs_of(slurm)[name].state == "COMPLETED" for name in (stuck, fine)), 30)
    assert {jobs_of(slurm)[name].mark for name in (stuck, fine)} == {"cohabit:back"}


def test_shared_nodes_that_a_reservation_or_a_drain_closes(two_idle: SlurmCluster, tmp_path: Path) -> None:
    """On shared nodes, too, no job is sent where Slurm would refuse it: its limit reaches into a coming reservation, or
    the node is drained. Short jobs use the node until then."""
    slurm = two_idle
    slurm.run("scontrol", "create", "reservation", "ReservationName=cooling", "Nodes=n0", "StartTime=now+5minutes",
              "Duration=60", "Users=root", "Flags=MAINT")  # fmt: skip
    try:
        with attached(write_site(slurm, tmp_path, "cs", within_s=4)):
            long = submit(slurm, tmp_path, tmp_path / "go", "-n4", "--time=10")
            until(lambda: jobs_of(slurm)[long].runs, 60, log_of(tmp_path))
            waits = submit(slurm, tmp_path, 0.5, "-n2", "--time=10")
            short = submit(slurm, tmp_path, 0.5, "-n2", "--time=2")
            until(lambda: jobs_of(slurm)[short].state == "COMPLETED", 60, log_of(tmp_path))
            slurm.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test")
            until(lambda: any(isinstance(one, NodeDrained) for one in facts(tmp_path)), 30, log_of(tmp_path))
            (tmp_path / "go").touch()
            until(lambda: jobs_of(slurm)[long].state == "COMPLETED", 60, log_of(tmp_path))
            again = submit(slurm, tmp_path, 0.5, "-n2", "--time=2")
            until(lambda: jobs_of(slurm)[again].state == "COMPLETED", 60, log_of(tmp_path))
            jobs = jobs_of(slurm)
            assert [jobs[name].nodes for name in (long, short, again)] == [("n1",), ("n0",), ("n0",)]
            assert jobs[waits].held
            slurm.run("scontrol", "delete", "ReservationName=cooling")
            until(lambda: jobs_of(slurm)[waits].nodes == ("n0",), 60, log_of(tmp_path))
            assert not [one for one in facts(tmp_path) if isinstance(one, StartRefused)]
    finally:
        slurm.run("scontrol", "delete", "ReservationName=cooling", check=False)
        slurm.run("scontrol", "update", "NodeName=n1", "State=RESUME", check=False)
