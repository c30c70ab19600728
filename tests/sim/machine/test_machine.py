"""The machine of many nodes against a naive recomputation, node by node, from the laws by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from cohabit.model.cluster import NodeGroup
from cohabit.model.command import SetShares, StartJob
from cohabit.model.profile import footprint
from cohabit.model.units import SECOND
from cohabit.sim.machine.machine import Machine
from cohabit.sim.machine.recorder import BandwidthRecorder
from cohabit.sim.machine.truth import Truth
from tests.breadth import examples
from tests.sim.machine import laws_by_hand
from tests.sim.machine.laws_by_hand import HandJob
from tests.sim.machine.machines import (
    BY_HAND,
    FLAT,
    as_program,
    machine_of,
    node_group,
    plain_program,
    random_program,
    seeds,
    shares,
    start_on,
)

EXACT = {"rel": 1e-9, "abs": 1e-12}
NODES = 12


@dataclass
class NaiveMachine:
    """Every node by itself, everything computed anew."""

    nodes: list[dict[str, float | None]] = field(default_factory=lambda: [{} for _ in range(NODES)])
    jobs: dict[str, HandJob] = field(default_factory=dict)
    contention: str = "share"
    _seen: dict[tuple[tuple[str, int, int, float | None], ...], list[float]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def start(self, job_id: str, program: str, job: HandJob, where: list[int]) -> None:
        self.jobs[job_id], self.names[job_id] = job, program
        for node in where:
            self.nodes[node][job_id] = None

    def stop(self, job_id: str) -> None:
        for node in self.nodes:
            node.pop(job_id, None)
        del self.jobs[job_id]

    def set_shares(self, command: SetShares) -> None:
        for first, count in command.nodes:
            for node in range(first, first + count):
                self.nodes[node] = dict.fromkeys(self.nodes[node])
                for job_id, _, ways in command.shares:
                    if job_id in self.nodes[node]:
                        self.nodes[node][job_id] = float(ways)

    def rates(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for node in self.nodes:
            for job_id, rate in zip(node, self._on(node) if node else [], strict=True):
                progress = rate * laws_by_hand.progress(self.jobs[job_id], BY_HAND)
                found[job_id] = min(progress, found.get(job_id, np.inf))
        return found

    def _on(self, node: dict[str, float | None]) -> list[float]:
        jobs = [self.jobs[job_id] for job_id in node]
        key = tuple(
            (self.names[job_id], job.processes, job.scale, ways)
            for job, (job_id, ways) in zip(jobs, node.items(), strict=True)
        )
        if key not in self._seen:
            placed = [
                HandJob(job.program, job.processes, job.scale, ways)
                for job, ways in zip(jobs, node.values(), strict=True)
            ]
            self._seen[key] = laws_by_hand.rates(placed, BY_HAND, occupancy=self.contention == "occupancy")
        return self._seen[key]


def spread_of(rng: np.random.Generator, naive: NaiveMachine, processes: int, scale: int) -> list[int] | None:
    """Random nodes with room for it."""
    spread = footprint(processes, 28, scale)
    room = [
        node for node, there in enumerate(naive.nodes)
        if sum(naive.jobs[one].cores(BY_HAND) for one in there) + spread.cores <= 28 and len(there) < 8
    ]  # fmt: skip
    if len(room) < spread.nodes:
        return None
    return sorted(rng.choice(room, spread.nodes, replace=False).tolist())


def random_shares(rng: np.random.Generator, naive: NaiveMachine) -> SetShares | None:
    """A full division of the cache on a node and on those with the same residents."""
    busy = [node for node, there in enumerate(naive.nodes) if there]
    if not busy:
        return None
    there = naive.nodes[int(rng.choice(busy))]
    alike = [node for node, other in enumerate(naive.nodes) if list(other) == list(there)]
    cuts = np.sort(rng.choice(np.arange(1, 20), len(there) - 1, replace=False)) if len(there) > 1 else []
    ways = np.diff([0, *cuts, 20]).tolist()
    some = sorted(rng.choice(alike, int(rng.integers(1, len(alike) + 1)), replace=False).tolist())
    return shares(some, *zip(there, ways, strict=True))


@pytest.mark.slow
@given(seeds)
@settings(max_examples=examples(5), deadline=None)
def test_any_sequence_of_orders_agrees_with_a_naive_machine(seed: int) -> None:
    rng = np.random.default_rng(seed)
    contention = "share" if rng.random() < 0.7 else "occupancy"
    programs = {f"p{number}": random_program(rng) for number in range(3)}
    machine = machine_of(programs, NODES, contention, keep_segments=True)
    naive = NaiveMachine(contention=contention)
    rates: dict[str, float] = {}
    partitioned = bool(rng.random() < 0.7)
    for number in range(25):
        for _ in range(int(rng.integers(1, 4))):  # several orders in one instant
            step(rng, machine, naive, programs, str(number) + str(_), partitioned)
        changed = machine.rates_changed(number)
        expected = naive.rates()
        rates = {job_id: rate for job_id, rate in (rates | changed).items() if job_id in naive.jobs}
        assert rates == pytest.approx(expected, **EXACT)
        assert not machine.rates_changed(number)
        check_classes(machine, naive)


def step(
    rng: np.random.Generator,
    machine: Machine,
    naive: NaiveMachine,
    programs: dict[str, dict[str, object]],
    name: str,
    partitioned: bool,
) -> None:
    deed = rng.random()
    if deed < 0.5:
        program, processes = str(rng.choice(list(programs))), int(rng.choice([16, 28, 8, 3, 40]))
        scale = int(rng.choice([1, 2, 4]))
        where = spread_of(rng, naive, processes, scale)
        if where is not None:
            naive.start(name, program, HandJob(programs[program], processes, scale), where)
            machine.start(name, program, processes, start_on(name, where, processes, scale))
            if partitioned and (divide := _all_masked(naive, where)):
                for command in divide:
                    naive.set_shares(command)
                    machine.set_shares(command)
    elif deed < 0.75 and naive.jobs:
        gone = str(rng.choice(list(naive.jobs)))
        naive.stop(gone)
        machine.stop(gone)
    elif partitioned and (command := random_shares(rng, naive)):
        naive.set_shares(command)
        machine.set_shares(command)


def _all_masked(naive: NaiveMachine, where: list[int]) -> list[SetShares]:
    """Every touched node divided equally, one order per node."""
    commands = []
    for node in where:
        there = list(naive.nodes[node])
        each, more = divmod(20, len(there))
        commands.append(shares([node], *((job_id, each + (at < more)) for at, job_id in enumerate(there))))
    return commands


def check_classes(machine: Machine, naive: NaiveMachine) -> None:
    """Nodes are in the same class exactly if they have the same residents and masks."""
    labels: dict[tuple[tuple[str, float | None], ...], set[int]] = {}
    for node, there in enumerate(naive.nodes):
        labels.setdefault(tuple(sorted(there.items())), set()).add(int(machine.class_of_node[node]))
    assert all(len(found) == 1 for found in labels.values())
    assert len({next(iter(found)) for found in labels.values()}) == len(labels)
    assert machine.class_count <= len(labels) + 1  # the class of idle nodes may be empty


def test_an_exclusive_run_has_rate_one_times_its_speed() -> None:
    machine = machine_of({"p": plain_program()})
    machine.start("a", "p", 16, start_on("a", [0], 16, exclusive=True))
    machine.start("b", "p", 16, start_on("b", [1, 2, 3, 4], 16, 4, exclusive=True))
    assert machine.rates_changed(0) == {"a": 1.0, "b": 1.3}
    assert machine.ways("b") == 20


def test_a_job_is_as_fast_as_its_slowest_node() -> None:
    machine = machine_of({"p": plain_program(), "q": plain_program((0.3, 0.4, 0.5, 1.0), mu=0.9)})
    machine.start("a", "p", 16, start_on("a", [0, 1], 16, 2))
    alone = machine.rates_changed(0)["a"]
    machine.start("b", "q", 16, start_on("b", [1], 16))
    slowed = machine.rates_changed(1)["a"]
    job, other = HandJob(plain_program(), 16, 2), HandJob(plain_program((0.3, 0.4, 0.5, 1.0), mu=0.9), 16, 1)
    assert alone == 1.2
    assert slowed == pytest.approx(1.2 * laws_by_hand.rates([job, other], BY_HAND)[0], **EXACT)
    machine.stop("b")
    assert machine.rates_changed(2) == {"a": alone}


def test_only_jobs_on_touched_nodes_are_looked_at() -> None:
    machine = machine_of({"p": plain_program()}, 100)
    for node in range(50):
        machine.start(str(node), "p", 14, start_on(str(node), [node], 14))
    machine.rates_changed(0)
    machine.start("new", "p", 14, start_on("new", [7], 14))
    assert set(machine.rates_changed(1)) == {"7", "new"}


def test_masks_stay_when_a_neighbour_ends_and_go_with_the_last_job() -> None:
    machine = machine_of({"p": plain_program()})
    for name in "ab":
        machine.start(name, "p", 14, start_on(name, [0], 14))
    machine.set_shares(shares([0], ("a", 4), ("b", 16)))
    machine.rates_changed(0)
    assert (machine.ways("a"), machine.ways("b")) == (4, 16)
    machine.stop("b")
    machine.rates_changed(1)
    assert machine.ways("a") == 4
    machine.set_shares(shares([0], ("a", 20)))
    assert machine.rates_changed(2) == {"a": 1.0}
    machine.stop("a")
    machine.start("c", "p", 14, start_on("c", [0], 14))
    assert machine.rates_changed(3) == {"c": 1.0}


def test_whoever_has_no_mask_shares_what_is_left() -> None:
    machine = machine_of({"p": plain_program()})
    for name in "abc":
        machine.start(name, "p", 8, start_on(name, [0], 8))
    machine.set_shares(shares([0], ("a", 6)))
    machine.rates_changed(0)
    assert machine.ways("a") == 6
    assert machine.ways("b") == machine.ways("c") == pytest.approx(7)


def test_names_that_are_not_there_are_passed_over() -> None:
    machine = machine_of({"p": plain_program()})
    machine.start("a", "p", 8, start_on("a", [0], 8))
    machine.set_shares(shares([0], ("gone", 6), ("a", 14)))
    machine.rates_changed(0)
    assert machine.ways("a") == 14


@pytest.mark.parametrize(
    "masks",
    [(("a", 0, 12), ("b", 10, 10)), (("a", 0, 10), ("b", 10, 11)), (("a", -1, 4), ("b", 4, 4)), (("a", 0, 0),)],
)
def test_impossible_masks_are_noticed(masks: tuple[tuple[str, int, int], ...]) -> None:
    machine = machine_of({})
    for name in "ab":
        machine.start(name, "p", 8, start_on(name, [0], 8))
    with pytest.raises(AssertionError):
        machine.set_shares(SetShares(((0, 1),), masks))


def test_too_many_masks_for_the_hardware_are_noticed() -> None:
    machine = Machine(Truth({}, [node_group(closids=1)]))
    for name in "ab":
        machine.start(name, "p", 8, start_on(name, [0], 8))
    with pytest.raises(AssertionError):
        machine.set_shares(shares([0], ("a", 4), ("b", 4)))


@pytest.mark.parametrize("exclusive", [(True, False), (False, True)])
def test_company_of_an_exclusive_job_is_noticed(exclusive: tuple[bool, bool]) -> None:
    machine = machine_of({})
    machine.start("a", "p", 8, start_on("a", [0], 8, exclusive=exclusive[0]))
    with pytest.raises(AssertionError, match="exclusive"):
        machine.start("b", "p", 8, start_on("b", [0], 8, exclusive=exclusive[1]))


def test_too_many_cores_are_noticed() -> None:
    machine = machine_of({})
    machine.start("a", "p", 16, start_on("a", [0], 16))
    with pytest.raises(AssertionError, match="32 of 28 cores"):
        machine.start("b", "p", 16, start_on("b", [0], 16))
    all_cores = machine_of({})
    all_cores.start("a", "p", 1, StartJob("a", 1, ((0, 1),), 10, exclusive=False))
    with pytest.raises(AssertionError, match="cores"):
        all_cores.start("b", "p", 1, start_on("b", [0], 1))


def test_kinds_of_nodes_have_their_own_law() -> None:
    small = NodeGroup(2, 28, ways=20, bandwidth_gbs=((1, 5.0), (28, 30.0)))
    truth = Truth({"p": as_program("p", plain_program())}, [node_group(2), small])
    machine = Machine(truth)
    machine.start("a", "p", 14, start_on("a", [1], 14))
    machine.start("b", "p", 14, start_on("b", [1], 14))
    machine.start("c", "p", 14, start_on("c", [2], 14))
    machine.start("d", "p", 14, start_on("d", [2], 14))
    rates = machine.rates_changed(0)
    assert [machine.group_of(node) for node in range(4)] == [0, 0, 1, 1]
    assert rates["a"] == rates["b"] > rates["c"] == rates["d"]


# ---- metamorphic ----------------------------------------------------------------------------------------------------


def history(rng: np.random.Generator, renamed: bool, nodes: list[int]) -> list[dict[str, float]]:
    """Rates after each of a number of random orders."""
    programs = {f"p{number}": random_program(rng) for number in range(3)}
    names = {name: f"zz{9 - number}" if renamed else name for number, name in enumerate(programs)}
    machine = machine_of({names[name]: plain for name, plain in programs.items()}, NODES)
    naive, found = NaiveMachine(), []
    for number in range(40):
        program, processes, scale = str(rng.choice(list(programs))), int(rng.choice([16, 8])), int(rng.choice([1, 2]))
        where = spread_of(rng, naive, processes, scale)
        if where is None:
            gone = str(rng.choice(list(naive.jobs)))
            naive.stop(gone)
            machine.stop(gone)
        else:
            naive.start(str(number), program, HandJob(programs[program], processes, scale), where)
            order = start_on(str(number), [nodes[node] for node in where], processes, scale)
            machine.start(str(number), names[program], processes, order)
        found.append(machine.rates_changed(number))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_names_of_programs_and_numbers_of_nodes_do_not_matter(seed: int) -> None:
    same = list(range(NODES))
    first = history(np.random.default_rng(seed), False, same)
    other = np.random.default_rng(99).permutation(NODES).tolist()
    assert first == history(np.random.default_rng(seed), True, same)
    assert first == history(np.random.default_rng(seed), False, other)


def test_without_contention_nobody_is_ever_slowed() -> None:
    rng = np.random.default_rng(5)
    machine, naive = machine_of({"p": FLAT}, NODES), NaiveMachine()
    for number in range(60):
        step(rng, machine, naive, {"p": FLAT}, str(number), False)
        assert set(machine.rates_changed(number).values()) <= {1.0}


# ---- recording ------------------------------------------------------------------------------------------------------


def test_segments_tell_rates_and_ways() -> None:
    machine = machine_of({"p": plain_program()}, keep_segments=True)
    machine.start("a", "p", 14, start_on("a", [0], 14))
    machine.rates_changed(0)
    machine.start("b", "p", 14, start_on("b", [0], 14))
    machine.set_shares(shares([0], ("a", 8), ("b", 12)))
    rate = machine.rates_changed(50)["a"]
    machine.stop("b")
    machine.set_shares(shares([0], ("a", 20)))
    machine.rates_changed(70)
    machine.stop("a")
    machine.rates_changed(90)
    assert machine.segments is not None
    assert machine.segments["a"] == [(0, 1.0, 20.0), (50, rate, 8.0), (70, 1.0, 20.0)]


def test_bandwidth_is_recorded_by_node_and_episode() -> None:
    recorder = BandwidthRecorder()
    machine = machine_of({"p": plain_program(gbs=(40,) * 4)}, 3, recorder=recorder)
    machine.start("a", "p", 16, start_on("a", [1], 16))
    machine.rates_changed(0)
    machine.rates_changed(10 * SECOND)  # nothing happened
    machine.start("b", "p", 16, start_on("b", [0, 2], 16, 2))
    machine.rates_changed(45 * SECOND)
    machine.stop("a")
    machine.rates_changed(60 * SECOND)
    half = 40 * 1.2 / 2
    expected = [[0, half / 2, half], [40, 40, 0], [0, half / 2, half]]
    assert recorder.matrix(70 * SECOND) == pytest.approx(np.array(expected))
    assert recorder.matrix(70 * SECOND).shape == (3, 3)


def test_nothing_recorded_is_an_empty_matrix() -> None:
    assert BandwidthRecorder().matrix().size == 0


def test_recorded_bandwidth_is_that_of_the_node() -> None:
    machine = machine_of({"p": plain_program(gbs=(90,) * 4)}, 4)
    machine.start("a", "p", 14, start_on("a", [1], 14))
    machine.start("b", "p", 14, start_on("b", [1], 14))
    by_node: NDArray[np.float64] = machine.bandwidth_by_node()
    assert by_node == pytest.approx([0, 0.985 * 118.26, 0, 0])
