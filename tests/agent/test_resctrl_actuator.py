"""The agent's hand on the cache against the enforcing fake: orders, restarts, faults. Jobs always run on."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cohabit.agent.local_nodes import LocalNode
from cohabit.agent.resctrl.actuator import Actuator
from cohabit.agent.resctrl.bandwidth import rates_gbs
from cohabit.agent.resctrl.files import Mount, Patience, find_mount, read_traffic
from cohabit.agent.resctrl.groups import job_name, job_of
from cohabit.agent.resctrl.offer import describe, read_offer
from cohabit.agent.resctrl.schemata import Run, longest_run, parse, run_of
from cohabit.agent.resctrl.wanted import Placed
from cohabit.agent.topology import Core
from cohabit.model.command import SetShares
from cohabit.model.errors import InputError
from tests.support.resctrl import FakeResctrl
from tests.support.resctrl_faults import FaultyResctrl
from tests.support.resctrl_machines import AMD, ARM, HASWELL, INTEL, INTEL_CDP, INTEL_MBPS, INTEL_UNMONITORED, Machine

ROOT = Path("/sys/fs/resctrl")
TASKS = {"a": 11, "b": 12, "c": 13, "d": 14}


def node(domains: tuple[int, ...], ways: int, first_way: int = 0, number: int = 0) -> LocalNode:
    cores = tuple(Core((cpu,), 0, 0, domains[0]) for cpu in range(4))
    return LocalNode(f"node{number}", cores, domains, 2**33, first_way, ways, 1, 7)


class Bench:
    """An actuator on a fake, and what it says."""

    def __init__(self, machine: Machine = INTEL, nodes: tuple[LocalNode, ...] = (), **more: int) -> None:
        self.fake = FakeResctrl(set(TASKS.values()), machine=machine, **more)
        self.files = FaultyResctrl(self.fake)
        self.said: list[str] = []
        self.nodes = nodes or (node(machine.domains, machine.ways),)
        self.hand = self.another()

    def another(self, always: bool = False) -> Actuator:
        """As after a restart of the agent."""
        mbps = ("mba_MBps",) if self.fake.machine.mba_mbps else ()
        return Actuator(
            self.nodes, self.said.append, self.files,
            mount=lambda: Mount(ROOT, mbps) if self.fake.mounted else None,
            reach=lambda _, cores: 10.0 * cores, processor=self.fake.machine.processor,
            patience=Patience(3, 0.0, lambda _: None), always=always,
        )  # fmt: skip

    def hold(self, *jobs: str) -> None:
        """As after a look at memory that is full, in every domain."""
        self.hand._held = {(job, domain) for job in jobs for domain in self.fake.machine.domains}

    def place(self, *jobs: str, nodes: tuple[int, ...] = (0,)) -> None:
        for job in jobs:
            self.hand.place(Placed(job, nodes, 4))

    def start(self, *jobs: str) -> None:
        """What the launcher does between fork and exec."""
        for job in jobs:
            for place in self.hand.joins(job):
                self.fake.write(place, f"{TASKS[job]}\n")

    def masks(self, job: str) -> dict[int, int]:
        name = self.fake.class_of(TASKS[job])
        return dict(self.fake.classes[name].schemata[self.fake.machine.caches[0]]) if name else {}


def running(job: str) -> list[int]:
    return [TASKS[job]]


def whole_node(*shares: tuple[str, int, int], nodes: tuple[tuple[int, int], ...] = ((0, 1),)) -> SetShares:
    return SetShares(nodes, shares)


def test_shares_become_masks_and_jobs_start_inside_them() -> None:
    bench = Bench()
    bench.place("a", "b", "c")
    bench.hand.divide(whole_node(("a", 0, 4), ("b", 4, 7)))
    assert bench.hand.apply().refused == {}
    bench.start("a", "b", "c")
    assert (bench.masks("a"), bench.masks("b")) == ({0: 0xF, 1: 0xF}, {0: 0x7F0, 1: 0x7F0})
    assert bench.fake.class_of(13) == ""  # nothing of its own: monitored, and no class spent
    assert len(bench.fake.classes) == 2
    assert bench.fake.read(ROOT / "mon_groups" / job_name("c") / "tasks") == "13\n"
    bench.hand.divide(whole_node(("a", 0, 2), ("b", 2, 9)))
    assert len(bench.hand.apply().writes) == 2
    assert bench.hand.apply().writes == []
    assert (bench.masks("a")[1], bench.masks("b")[1]) == (0x3, 0x7FC)
    for job in "abc":
        bench.hand.forget(job)
    bench.hand.apply()
    assert (bench.fake.classes, bench.fake.groups) == ({}, {})


def test_a_dry_run_shows_the_shell_lines_and_writes_nothing() -> None:
    bench = Bench()
    bench.place("my job", "b")
    bench.hand.divide(whole_node(("my job", 0, 4)))
    assert bench.hand.preview() == [
        "mkdir /sys/fs/resctrl/cohabit.class0",
        "echo 'L3:0=f;1=f' > /sys/fs/resctrl/cohabit.class0/schemata",
        "echo 'MB:0=100;1=100' > /sys/fs/resctrl/cohabit.class0/schemata",
        "mkdir /sys/fs/resctrl/cohabit.class0/mon_groups/cohabit.job.my%20job",
        "mkdir /sys/fs/resctrl/mon_groups/cohabit.job.b",
    ]
    assert bench.files.changes == []


def test_nodes_that_are_domains_share_classes() -> None:
    """On a processor of eight domains: sixteen jobs with ways of their own need two classes."""
    nodes = tuple(node((number,), 16, number=at) for at, number in enumerate(AMD.domains))
    bench = Bench(AMD, nodes)
    bench.fake._exists = lambda _: True
    for at in range(8):
        bench.place(f"x{at}", f"y{at}", nodes=(at,))
        bench.hand.divide(whole_node((f"x{at}", 0, 5), (f"y{at}", 5, at + 1), nodes=((at, 1),)))
    assert bench.hand.apply().refused == {}
    assert len(bench.fake.classes) == 2
    masks = [group.schemata["L3"] for group in bench.fake.classes.values()]
    assert all(
        {one[number] for one in masks} == {0x1F, ((1 << at + 1) - 1) << 5} for at, number in enumerate(AMD.domains)
    )


def test_virtual_nodes_of_one_domain_keep_to_their_own_ways() -> None:
    bench = Bench(HASWELL, (node((0,), 9, 0), node((0,), 9, 9, 1)))
    bench.place("a", nodes=(0,))
    bench.place("b", nodes=(1,))
    bench.place("c", nodes=(0, 1))
    bench.hand.divide(whole_node(("a", 0, 4), ("c", 4, 5)))
    bench.hand.divide(whole_node(("b", 4, 5), ("c", 0, 4), nodes=((1, 1),)))
    bench.hand.apply()
    bench.start("a", "b", "c")
    assert (bench.masks("a")[0], bench.masks("b")[0], bench.masks("c")[0]) == (0xF, 0x3E000, 0x1FF0)


@pytest.mark.parametrize(
    ("machine", "line"),
    [(INTEL, "MB:0=20;1=20"), (ARM, "MB:1=20;5=20"), (INTEL_MBPS, "MB:0=3815;1=3815"), (INTEL_CDP, "MB:0=20;1=20"),
     (AMD, "MB:0=8;1=8;2=8;3=8;8=8;9=8;10=8;11=8")],
)  # fmt: skip
def test_a_booked_bandwidth_is_kept(machine: Machine, line: str) -> None:
    bench = Bench(machine)
    bench.hold("a")
    bench.hand.place(Placed("a", (0,), 4, bandwidth_gbs=8.0))
    bench.hand.apply()
    bench.start("a")
    name = bench.fake.class_of(11)
    assert line in bench.fake.read(ROOT / name / "schemata").replace(" ", "")
    assert set(bench.masks("a").values()) == {machine.mask}
    bench.hand.place(Placed("a", (0,), 4))
    bench.hand.apply()
    assert (bench.fake.class_of(11), bench.fake.classes) == ("", {})


def test_the_valve_holds_a_job_to_its_booking_while_the_memory_is_full() -> None:
    """The one node can draw 40 GB/s, half of it through the domain that the fake counts."""
    bench = Bench()
    bench.hand.place(Placed("a", (0,), 4, bandwidth_gbs=8.0))
    bench.hand.place(Placed("b", (0,), 4, bandwidth_gbs=16.0))
    bench.hand.divide(whole_node(("a", 0, 4), ("b", 4, 7)))
    bench.hand.apply()
    bench.start("a", "b")

    def second(now_s: float, a_gbs: float, b_gbs: float) -> tuple[bool, dict[str, int]]:
        bench.fake.tick(11, int(a_gbs * 1e9), 0, 0)
        bench.fake.tick(12, int(b_gbs * 1e9), 0, 0)
        changed = bench.hand.relieve(now_s)
        assert bool(bench.hand.apply().writes) is changed
        return changed, {job: bench.fake.classes[bench.fake.class_of(TASKS[job])].schemata["MB"][0] for job in "ab"}

    assert second(1.0, 9.0, 9.0) == (False, {"a": 100, "b": 100})  # the first look
    assert second(2.0, 9.0, 6.0) == (False, {"a": 100, "b": 100})  # above its booking, but there is room
    assert second(3.0, 12.0, 8.0) == (True, {"a": 20, "b": 100})
    assert second(4.0, 8.5, 8.0) == (False, {"a": 20, "b": 100})
    silent = bench.fake.classes[bench.fake.class_of(11)].inner[job_name("a")]
    silent.unavailable.add("mbm_total_bytes")
    assert second(4.5, 0.0, 0.0) == (False, {"a": 20, "b": 100})  # not measured is not idle
    assert second(4.6, 0.0, 0.0) == (False, {"a": 20, "b": 100})  # no earlier value to compare with
    assert second(5.6, 4.0, 8.0) == (True, {"a": 100, "b": 100})


def test_with_always_jobs_are_held_to_their_booking_from_the_first_look_on() -> None:
    bench = Bench()
    bench.hand = bench.another(always=True)
    bench.hand.place(Placed("a", (0,), 4, bandwidth_gbs=8.0))
    bench.hand.place(Placed("b", (0,), 4))  # has booked nothing
    bench.hand.divide(whole_node(("a", 0, 4), ("b", 4, 7)))
    bench.hand.apply()
    bench.start("a", "b")
    assert bench.hand.relieve(1.0)
    bench.hand.apply()
    values = {job: bench.fake.classes[bench.fake.class_of(TASKS[job])].schemata["MB"][0] for job in "ab"}
    assert values == {"a": 20, "b": 100}
    assert not bench.hand.relieve(2.0)
    bench.hand.forget("a")
    assert not bench.hand.relieve(3.0), "a job that has gone needs no second look"


def test_a_counter_that_is_absent_or_starts_anew_says_nothing() -> None:
    assert rates_gbs({"a": {0: 5_000_000_000, 3: 9}}, {"a": {0: 9_000_000_000, 3: 2}, "b": {0: 7}}, 2.0) == {
        0: {"a": 2.0}
    }
    fake = FakeResctrl({11}, domains=(0, 10))
    assert read_traffic(fake, ROOT) == {0: 0, 10: 0}
    fake.default.own.unavailable.add("mbm_total_bytes")
    assert read_traffic(fake, ROOT) == {10: 0}  # the first domain was asked first
    assert read_traffic(fake, ROOT / "gone") == {}
    assert read_traffic(FakeResctrl({11}, machine=HASWELL), ROOT) == {}


def test_orders_that_do_not_fit_the_processor_are_refused_with_a_reason() -> None:
    bench = Bench(HASWELL)
    bench.place("a", "b", "c", "d")
    bench.hand.divide(whole_node(("a", 0, 1), ("b", 18, 3), ("c", 4, 4), ("gone", 8, 2)))
    refused = bench.hand.apply().refused
    assert refused["a"] == "mask 1 has 1 ways in a row, the least is 2"
    assert refused["b"] == "ways 18 to 20 are not among the 20 of node0"
    assert set(refused) == {"a", "b"}
    assert len(bench.said) == 2
    bench.hand.apply()
    assert len(bench.said) == 2  # once is enough


def test_classes_run_out_and_others_hold_some() -> None:
    bench = Bench(HASWELL)
    bench.fake.add_foreign_class("theirs")
    bench.place("a", "b", "c")
    bench.hand.divide(whole_node(("a", 0, 4), ("b", 4, 4), ("c", 8, 4)))
    refused = bench.hand.apply().refused
    assert refused == {"c": "all 3 classes of service are in use (1 by others): the job runs without ways of its own"}
    bench.start("a", "b", "c")
    assert bench.fake.class_of(13) == ""
    bench.hand.forget("a")
    assert bench.hand.apply(running).refused == {}
    assert bench.masks("c") == {0: 0xF00, 1: 0xF00}  # a class became free: the running job is moved into it


@pytest.mark.parametrize(("machine", "refused"), [(INTEL, []), (AMD, ["b"])], ids=["intel", "amd"])
def test_equal_shares_share_the_last_class_unless_they_would_share_a_limit(
    machine: Machine, refused: list[str]
) -> None:
    bench = Bench(replace(machine, closids=2, bandwidth_closids=2))
    bench.hold("a", "b")
    for job in "ab":
        bench.hand.place(Placed(job, (0,), 4, bandwidth_gbs=8.0))
    bench.hand.divide(whole_node(("a", 0, 4), ("b", 0, 4)))
    assert list(bench.hand.apply().refused) == refused
    bench.start("a", "b")
    assert (bench.masks("a") == bench.masks("b")) is not bool(refused)


def test_a_foreign_group_that_appears_meanwhile_takes_the_last_class() -> None:
    bench = Bench(HASWELL)
    for name in ("theirs", "also"):
        bench.fake.add_foreign_class(name)
    bench.files.before(1, lambda: bench.fake.add_foreign_class("sudden"))
    bench.place("a", "b")
    bench.hand.divide(whole_node(("a", 0, 4)))
    refused = bench.hand.apply().refused
    assert refused["a"] == (
        "Make group cohabit.class0 for job a failed: the processor is out of classes of service (Out of CLOSIDs); "
        "it runs without them"
    )
    bench.start("a", "b")
    assert {"theirs", "also", "sudden"} == set(bench.fake.classes)
    assert set(bench.fake.groups) == {job_name("a"), job_name("b")}


def test_an_exclusive_group_of_others_stands_in_the_way() -> None:
    bench = Bench()
    bench.fake.default.schemata["L3"] = {0: 0x7F0, 1: 0x7F0}
    bench.fake.add_foreign_class("theirs", "exclusive", {0: 0xF, 1: 0xF})
    bench.place("a", "b")
    bench.hand.divide(whole_node(("a", 0, 4), ("b", 4, 7)))
    refused = bench.hand.apply().refused
    assert list(refused) == ["a"]
    assert refused["a"].endswith("(Overlaps with exclusive group)")
    bench.start("a", "b")
    assert (bench.masks("a"), bench.masks("b")[0]) == ({}, 0x7F0)


def test_monitoring_ids_run_out() -> None:
    bench = Bench(ids=4)  # the root, a's class and group, b's class
    bench.place("a", "b", "c")
    bench.hand.divide(whole_node(("a", 0, 4), ("b", 4, 7)))
    result = bench.hand.apply()
    bench.start("a", "b", "c")
    assert bench.masks("a") == {0: 0xF, 1: 0xF}
    assert all("monitoring ids (Out of RMIDs)" in why for why in result.refused.values())
    assert bench.hand.joins("c") == ()  # it starts all the same


def test_ids_in_limbo_are_waited_for_and_asked_for_again_later() -> None:
    bench = Bench(limbo_calls=2)
    bench.fake.limbo = 2
    bench.place("a")
    assert not bench.hand.apply().unfinished  # three tries
    bench.fake.limbo = 50
    bench.place("b")
    result = bench.hand.apply()
    assert (result.unfinished, list(result.refused)) == (True, ["b"])
    assert "must wait" in result.refused["b"]
    bench.fake.limbo = 0
    assert bench.hand.apply().refused == {}
    assert set(bench.fake.groups) == {job_name("a"), job_name("b")}


@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize("error", [errno.EIO, errno.EBUSY, errno.ENOSPC, errno.EINVAL, errno.ENOENT, errno.EPERM])
def test_any_write_may_fail_with_anything(number: int, error: int) -> None:
    """Nothing is raised, everybody can start, and once the fault is over the orders are carried out in full."""
    bench = Bench()
    bench.place("a", "b", "c")
    bench.hand.divide(whole_node(("a", 0, 4), ("b", 4, 7)))
    bench.files.fail(number, error, times=3)
    first = bench.hand.apply()
    bench.start("a", "b", "c")
    assert first.refused or first.unfinished
    assert bench.said
    assert all(sentence.count("\n") == 0 for sentence in bench.said)
    bench.files.heal()
    second = bench.hand.apply(running)
    assert (second.refused, second.unfinished) == ({}, False)
    assert (bench.masks("a")[0], bench.masks("b")[0], bench.masks("c")) == (0xF, 0x7F0, {})


def test_unmounting_while_jobs_run() -> None:
    bench = Bench()
    bench.place("a", "b")
    bench.hand.divide(whole_node(("a", 0, 4), ("b", 4, 7)))
    bench.files.before(3, bench.fake.unmount)
    result = bench.hand.apply()
    assert result.unfinished
    (said,) = bench.said
    assert said == "resctrl is no longer mounted: jobs continue, the cache is not divided until it is mounted again"
    assert bench.hand.joins("a") == ()
    bench.hand.apply()
    assert len(bench.said) == 2  # from now on it is simply not there
    bench.hand.apply()
    assert len(bench.said) == 2
    bench.fake.mounted = True
    assert bench.hand.apply(running).refused == {}
    assert bench.said[2:] == ["resctrl is there (again): the cache is divided as ordered"]
    assert bench.masks("b")[0] == 0x7F0  # jobs that ran on are put into their groups


def test_an_agent_that_was_killed_finds_everything_again() -> None:
    bench = Bench(nodes=(node((0,), 11), node((1,), 11, number=1)))
    bench.place("a", "b", nodes=(0,))
    bench.place("c", nodes=(1,))
    bench.hand.divide(SetShares(((0, 1),), (("a", 0, 4), ("b", 4, 7)), caps=(("a", 30),)))
    bench.hand.divide(whole_node(("c", 0, 3), nodes=((1, 1),)))
    bench.hand.apply()
    bench.start("a", "b", "c")
    bench.hand = bench.another()
    bench.place("a", nodes=(0,))
    bench.place("c", nodes=(1,))  # b ended while nobody looked
    bench.hand.adopt()
    changes = len(bench.files.changes)
    bench.hand.apply(running)
    assert [verb for verb, _, _ in bench.files.changes[changes:]] == ["remove"]
    assert (bench.masks("a")[0], bench.masks("c")[1]) == (0xF, 0x7)
    assert bench.fake.classes[bench.fake.class_of(TASKS["a"])].schemata["MB"][0] == 30


def test_without_monitoring_a_class_has_one_job() -> None:
    bench = Bench(INTEL_UNMONITORED)
    bench.place("a", "b")
    bench.hand.divide(whole_node(("a", 0, 4)))
    bench.hand.apply()
    assert bench.hand.joins("a") == (ROOT / "cohabit.job.a" / "tasks",)
    assert bench.hand.joins("b") == ()
    bench.start("a")
    bench.hand.divide(whole_node(("b", 0, 5)))
    bench.hand.apply(running)
    assert (bench.masks("a"), bench.masks("b")[0]) == ({}, 0x1F)


def test_a_class_named_after_its_job_is_given_up_where_there_is_monitoring() -> None:
    """Left over from an agent that could not monitor: it has no monitoring group that could be moved."""
    bench = Bench()
    bench.fake.make(ROOT / "cohabit.job.a")
    bench.fake.write(ROOT / "cohabit.job.a/tasks", "11\n")
    bench.place("a")
    bench.hand.apply(running)
    assert bench.fake.classes == {}
    assert bench.fake.groups[job_name("a")].tasks == {11}


def test_somebody_writes_into_our_group() -> None:
    bench = Bench()
    bench.place("a")
    bench.hand.divide(whole_node(("a", 0, 4)))
    bench.hand.apply()
    bench.fake.classes["cohabit.class0"].schemata["L3"][1] = 0x1
    (write,) = bench.hand.apply().writes
    assert getattr(write, "values", None) == {"L3": {1: 0xF}}
    bench.fake.remove(ROOT / "cohabit.class0")
    bench.hand.apply()
    bench.start("a")
    assert bench.masks("a")[1] == 0xF


def test_what_is_written_is_read_back() -> None:
    bench = Bench()
    real: Callable[[Path, str], None] = bench.files.inner.write

    def forgetful(path: Path, text: str) -> None:
        if path.name != "schemata":
            real(path, text)

    bench.fake.write = forgetful  # type: ignore[method-assign]
    bench.place("a")
    bench.hand.divide(whole_node(("a", 0, 4)))
    assert bench.hand.apply().unfinished
    assert "was accepted, but the group shows L3:0=7ff;1=7ff" in bench.said[0]


def test_names_of_groups_cannot_leave_their_folder() -> None:
    for job in ("../../etc", "a/b", "..", ".", "x\ny", "é", "%2F", "plain"):
        name = job_name(job)
        assert "/" not in name
        assert "\n" not in name
        assert job_of(name) == job
    assert job_of("cohabit-12-0") is None  # the sensor's groups are not ours to remove
    with pytest.raises(InputError, match="too long"):
        job_name("x" * 300)


def test_what_is_offered_in_plain_words() -> None:
    def said(machine: Machine) -> list[str]:
        return describe(read_offer(FakeResctrl(set(), machine=machine), Mount(ROOT), machine.processor))

    assert said(INTEL) == [
        "cache: 11 ways, 2 of them also used by devices, at least 1 per group, 2 domains",
        "7 groups beside the root (classes of service)",
        "memory bandwidth: 10 to 100 % of each core's requests in steps of 10",
        "monitoring: llc_occupancy, mbm_total_bytes, mbm_local_bytes (224 ids)",
    ]
    assert said(ARM)[0] == "cache: 16 ways, at least 1 per group, 2 domains"  # devices may use all: then none is theirs
    assert said(AMD)[2] == "memory bandwidth: limits in eighths of GB/s"
    assert said(INTEL_CDP)[0].endswith("code and data apart")
    assert said(replace(INTEL, ways=0))[0] == "the cache cannot be divided"
    assert said(replace(HASWELL, events=()))[2:] == ["memory bandwidth cannot be limited", "no monitoring"]


def test_what_makes_no_sense_is_refused_at_once() -> None:
    bench = Bench()
    with pytest.raises(InputError, match="this machine has nodes 0 to 0"):
        bench.place("a", nodes=(1,))


def test_where_it_is_mounted(tmp_path: Path) -> None:
    table = tmp_path / "mounts"
    assert find_mount(table) is None
    table.write_text("proc /proc proc rw 0 0\nresctrl /sys/fs/resctrl resctrl rw,cdp,mba_MBps 0 0\n")
    assert find_mount(table) == Mount(ROOT, ("rw", "cdp", "mba_MBps"))


def test_masks_and_lines() -> None:
    assert parse("    L3:0=fffff;2=00f0\n    MB:0=100;2= 50\n") == {"L3": {0: 0xFFFFF, 2: 0xF0}, "MB": {0: 100, 2: 50}}
    assert (run_of(0x3C), run_of(0x5), run_of(0)) == (Run(2, 4), None, None)
    assert (longest_run(0x1CF), longest_run(0)) == (Run(0, 4), Run(0, 0))
