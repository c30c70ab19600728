"""A run that a node reports is believed as far as the manager and the core know it; all else is theirs to say."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from cohabit.app.steer.node_channel import RunsHeard
from cohabit.backend.steered.naming import Names
from cohabit.backend.steered.shapes import ManagerJob, Terms
from cohabit.live.controller.records import Record
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.errors import InputError
from cohabit.model.event import ProfileLearned
from cohabit.model.node_report import AtWays, EndedRun, NodeMeters

TERMS = Terms(("all",), node_cpus=4)
DONE = ManagerJob(
    "7", 7, "COMPLETED", user=1000, job_name="CG", tasks=2, cpus=2, nodes=("n1",), start_s=100.0, end_s=160.0
)
RUN = EndedRun("7", 60.0, 160_000_000, True, 2, {"task_clock_mean": 1.5})


def look_up(
    node: str = "n1",
    run: EndedRun = RUN,
    job: ManagerJob | None = DONE,
    nodes: Any = ((1, 1),),
    met: bool = False,
    times_known: bool = False,
    exclusive: bool = True,
    purpose: str = "run",
    meters: NodeMeters | None = None,
) -> tuple[ProfileLearned | None, str]:
    async def theirs(name: str) -> ManagerJob | None:
        return job

    async def ours(name: str) -> Any:
        if name != "7":
            raise InputError("there is no such job", name)
        return SimpleNamespace(record=Record("7", 1, nodes=nodes, met=met, exclusive=exclusive, purpose=purpose))

    manager = SimpleNamespace(job=theirs, title="Slurm")
    found = SimpleNamespace(names=("n0", "n1", "n2"), terms=TERMS)
    orders = SimpleNamespace(folder="/orders")
    backend = SimpleNamespace(manager=manager, found=found, names=Names(TERMS), node_orders=orders)
    controller = SimpleNamespace(view=ours)
    cluster, said = Cluster((NodeGroup(3, 4, ways=8 if meters else 0),)), {} if meters is None else {node: meters}
    heard = RunsHeard(cast(Any, backend), cast(Any, controller), cluster, times_known, said)
    return asyncio.run(heard.look_up(node, run))


def test_owner_program_and_hardware_are_not_the_nodes_to_say() -> None:
    fact, why = look_up()
    assert why == ""
    assert fact is not None
    assert (fact.program, fact.processes, fact.owner, fact.hardware) == ("CG", 2, "1000", "4c")
    assert (fact.measured.time_s, fact.measured.counters) == (60.0, {"task_clock_mean": 1.5})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"node": "n0"}, "it did not run there"),
        ({"run": msgspec.structs.replace(RUN, seconds=600.0)}, "it saw 600 s of a run of 60 s"),
        ({"job": None}, "Slurm does not say that it is over"),
    ],
)
def test_a_run_that_nobody_else_knows_is_not_believed(changed: dict[str, Any], words: str) -> None:
    fact, why = look_up(**changed)
    assert fact is None
    assert words in why


@pytest.mark.parametrize(
    "changed",
    [
        {"run": msgspec.structs.replace(RUN, alone=False)},
        {"met": True},  # the core had put another job beside it, whatever the node saw
        {"job": msgspec.structs.replace(DONE, state="FAILED")},
        {"run": msgspec.structs.replace(RUN, seconds=0.5)},
        {"nodes": ((1, 2),)},  # two nodes, of which it had a part
        {"nodes": ((0, 2),)},  # the first node tells for all
    ],
)
def test_a_run_that_teaches_nothing(changed: dict[str, Any]) -> None:
    assert look_up(**changed) == (None, "")


def test_a_time_is_not_learned_twice() -> None:
    """The controller itself measures exclusive runs; of a run that was alone by chance only its node knows."""
    fact, _ = look_up(times_known=True)
    assert fact is not None
    assert (fact.measured.time_s, fact.measured.counters) == (0.0, RUN.means)
    assert look_up(times_known=True, run=msgspec.structs.replace(RUN, means={})) == (None, "")
    by_chance, _ = look_up(times_known=True, exclusive=False)
    assert by_chance is not None
    assert by_chance.measured.time_s == 60.0


COUNTED = {"instructions_mean": 2e9, "cycles_mean": 2e9, "memory_total_bytes_mean": 3e9}
STEPS = tuple(
    AtWays(ways, 9.0, {"instructions": ipc * 9e9, "cycles": 9e9, "memory_total_bytes": gbs * 9e9})
    for ways, ipc, gbs in ((2, 0.5, 4.0), (4, 0.8, 3.0), (8, 1.0, 2.0))
)


def curves(run: EndedRun, meters: NodeMeters) -> tuple[ProfileLearned | None, str]:
    return look_up(run=run, times_known=True, purpose="curve", meters=meters)


def test_a_run_for_curves_gives_them_and_neither_its_time_nor_its_counters() -> None:
    whole = NodeMeters(8, instructions=True, traffic=True)
    fact, why = curves(msgspec.structs.replace(RUN, steps=STEPS, means=COUNTED), whole)
    assert why == ""
    assert fact is not None
    assert (fact.program, fact.owner, fact.hardware) == ("CG", "1000", "4c-8w")
    ipc, gbs = fact.measured.ipc, fact.measured.bandwidth_gbs
    assert ipc is not None
    assert gbs is not None
    assert (ipc.ways, ipc.values) == ((2, 4, 8), pytest.approx((0.5, 0.8, 1.0)))
    assert gbs.values == pytest.approx((4.0, 3.0, 2.0))
    assert (fact.measured.time_s, fact.measured.counters) == (0.0, {})
    assert curves(msgspec.structs.replace(RUN, steps=STEPS[:1], means=COUNTED), whole) == (None, "")  # too short: again


@pytest.mark.parametrize(
    ("meters", "gbs"),
    [
        (NodeMeters(0, instructions=True, traffic=True), 3.0),  # no resctrl: the same for any number of ways
        (NodeMeters(8, instructions=False, traffic=False), 0.0),
    ],
)
def test_what_a_node_cannot_measure_is_level(meters: NodeMeters, gbs: float) -> None:
    means = COUNTED if meters.instructions else {"task_clock_mean": 2.0}
    fact, _ = curves(msgspec.structs.replace(RUN, means=means), meters)
    assert fact is not None
    assert fact.measured.ipc is not None
    assert fact.measured.bandwidth_gbs is not None
    assert set(fact.measured.ipc.values) == {1.0}
    assert set(fact.measured.bandwidth_gbs.values) == {gbs}
