"""The ground truth of a program: the laws of scale and of more processes, by hand and as properties."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.model.cluster import NodeGroup, hardware_key, node_of_key
from cohabit.model.curve import Curve
from cohabit.model.profile import demand
from cohabit.model.program import Program, ScaleTruth, profile_of

NODE = NodeGroup(8, 28, ways=20, min_ways=2, bandwidth_gbs=((1, 20.0), (8, 100.0), (16, 110.0), (28, 120.0)))


def program(**facts: object) -> Program:
    given_facts = {
        "name": "P", "ce_time_s": 100.0, "mu": 0.5, "ipc": Curve((2, 10, 20), (0.4, 0.6, 0.8)),
        "bandwidth_gbs": Curve((2, 20), (60.0, 24.0)), "speedup": {1: 1.0, 2: 1.5, 8: 2.0},
    } | facts  # fmt: skip
    return Program(**given_facts)  # type: ignore[arg-type]


def test_scale_1_is_the_curve_itself() -> None:
    one = program()
    assert one.ipc_at(1, 2, 20) == pytest.approx(0.5)  # relative to all ways
    assert one.ipc_at(1, 10, 20) == pytest.approx(0.75)
    assert one.ipc_at(1, 20, 20) == 1.0
    assert one.bandwidth_at(1, 11, 20) == pytest.approx(42.0)
    assert one.time_s() == 100.0


def test_spreading_by_the_rule() -> None:
    """w ways act as w * 2^0.7 of them; each node draws the bandwidth at those ways, times speedup, over the scale."""
    one, acts_as = program(), 4 * 2**0.7
    assert one.ipc_at(2, 4, 20) == pytest.approx((0.4 + (acts_as - 2) / 8 * 0.2) / 0.8)
    assert one.bandwidth_at(2, 4, 20) == pytest.approx((60 - (acts_as - 2) * 2) * 1.5 / 2)
    assert one.ipc_at(2, 15, 20) == 1.0  # 15 act as 24: never more than there are
    assert one.bandwidth_at(2, 15, 20) == pytest.approx(24 * 1.5 / 2)
    assert one.time_s(2) == pytest.approx(100 / 1.5)


def test_what_is_stated_at_a_scale_wins() -> None:
    stated = ScaleTruth(Curve((2, 20), (0.5, 0.5)), Curve((2, 20), (7.0, 9.0)), 55.0)
    one = program(per_scale={2: stated})
    assert one.ipc_at(2, 2, 20) == 1.0
    assert one.bandwidth_at(2, 11, 20) == 8.0
    assert one.time_s(2) == 55.0
    assert one.speedup_at(2) == 1.5
    only_time = program(per_scale={4: ScaleTruth(time_s=50.0)})
    assert only_time.scales == (1, 2, 4, 8)
    assert only_time.speedup_at(4) == 2.0
    assert only_time.ipc_at(4, 2, 20) == pytest.approx(program().ipc.at(2 * 4**0.7) / 0.8)


def test_scales_nobody_stated_lie_between_their_neighbours() -> None:
    one = program()
    assert one.speedup_at(4) == pytest.approx(1.75)
    assert one.speedup_at(16) == 2.0
    assert program(speedup={1: 1.0}).speedup_at(8) == 1.0


def test_a_program_that_cannot_span_nodes_has_one_scale() -> None:
    assert program(single_node=True).scales == (1,)
    assert [one.scale for one in profile_of(program(single_node=True), NODE).scales] == [1]


def test_more_processes_ask_for_more_and_stretch() -> None:
    """28 processes: 28/16 of the demand, at most 0.97 of what 28 cores draw; the rest of the demand costs time."""
    heavy = program(bandwidth_gbs=Curve((2, 20), (100.0, 80.0)), speedup={1: 1.0})
    ceiling = 0.97 * 120.0
    assert heavy.exclusive_time_s(16, NODE) == 100.0
    assert heavy.exclusive_time_s(28, NODE) == pytest.approx(100 * 140 / ceiling)
    recorded = profile_of(heavy, NODE, processes=28)
    assert recorded.processes == 28
    assert recorded.scales[0].time_s == pytest.approx(100 * 140 / ceiling)
    assert recorded.scales[0].bandwidth_gbs is not None
    assert recorded.scales[0].bandwidth_gbs.values == pytest.approx([ceiling] * 4)
    light = program(bandwidth_gbs=Curve((2, 20), (8.0, 4.0)))
    assert light.exclusive_time_s(28, NODE) == 100.0


def test_a_profile_of_28_processes_says_what_one_of_16_says_of_28() -> None:
    one = program()
    direct, scaled = profile_of(one, NODE, processes=28), profile_of(one, NODE)
    for scale in (1, 2, 8):
        a, b = demand(direct, scale, 28, 0.9, NODE), demand(scaled, scale, 28, 0.9, NODE)
        assert a is not None
        assert b is not None
        assert (a.nodes, a.cores, a.ways) == (b.nodes, b.cores, b.ways)
        assert a.bandwidth_gbs == pytest.approx(b.bandwidth_gbs)
        assert a.time_s == pytest.approx(b.time_s)


def test_a_perfect_profile() -> None:
    known = program(ipc_full=1.6, miss_rate=Curve((2, 20), (9.0, 1.0)), counters={"x": 1.0}, communication=0.1)
    recorded = profile_of(known, NODE)
    assert (recorded.provenance, recorded.hardware, recorded.processes) == ("calibrated", "28c-20w-120g", 16)
    one, two, _ = recorded.scales
    assert one.ipc is not None
    assert one.ipc.ways == (2, 4, 8, 20)
    assert one.ipc.values[-1] == 1.6
    assert one.ipc.values[0] == pytest.approx(0.8)
    assert (one.communication, two.communication) == (0.1, -1.0)
    assert one.miss_rate == Curve((2, 4, 8, 20), (9.0, pytest.approx(9 - 16 / 18), pytest.approx(9 - 48 / 18), 1.0))
    assert two.miss_rate is None
    assert one.complete
    few = profile_of(known, NODE, sampled_ways=(1, 3, 20, 40)).scales[0].ipc
    assert few is not None
    assert few.ways == (1, 3, 20)
    tiny = profile_of(known, NodeGroup(1, 28, ways=2)).scales[0].ipc
    assert tiny is not None
    assert tiny.ways == (1, 2)
    unstated = profile_of(known, NodeGroup(1, 28)).scales[0].ipc
    assert unstated is not None
    assert unstated.ways == (2, 4, 8, 20)


@given(
    scale=st.sampled_from([1, 2, 3, 4, 8, 16]), ways=st.floats(1, 20), more=st.floats(0, 10),
    values=st.lists(st.floats(0.01, 4.0), min_size=3, max_size=3),
)  # fmt: skip
def test_relative_ipc_rises_with_ways_and_scale_and_ends_at_1(
    scale: int, ways: float, more: float, values: list[float]
) -> None:
    one = program(ipc=Curve((2, 10, 20), tuple(sorted(values))))
    now = one.ipc_at(scale, ways, 20)
    assert 0 < now <= 1 + 1e-12
    assert one.ipc_at(scale, min(ways + more, 20), 20) >= now - 1e-12
    assert one.ipc_at(scale * 2, ways, 20) >= now - 1e-12
    assert one.ipc_at(scale, 20, 20) == 1.0


def test_a_program_survives_json() -> None:
    one = program(per_scale={2: ScaleTruth(time_s=5.0)}, provenance={"t": "A"})
    assert msgspec.json.decode(msgspec.json.encode(one), type=Program) == one


def test_hardware_keys() -> None:
    assert hardware_key(NodeGroup(3, 64)) == "64c"
    assert hardware_key(NodeGroup(3, 64, ways=11)) == "64c-11w"
    node = node_of_key("28c-20w-118.26g", 2)
    assert node is not None
    assert (node.cores, node.ways, node.min_ways, node.bandwidth_gbs) == (28, 20, 2, ((28, 118.26),))
    assert hardware_key(node) == "28c-20w-118.26g"
    assert node_of_key("") is None
    assert node_of_key("0c") is None
    assert node_of_key("big iron") is None


@given(st.integers(1, 512), st.integers(0, 64), st.one_of(st.none(), st.floats(1, 2000)))
def test_a_hardware_key_tells_its_node(cores: int, ways: int, peak: float | None) -> None:
    node = NodeGroup(1, cores, ways=ways, bandwidth_gbs=((cores, peak),) if peak else ())
    found = node_of_key(hardware_key(node))
    assert found is not None
    assert (found.cores, found.ways) == (cores, ways)
    assert hardware_key(found) == hardware_key(node)
    if peak:
        assert math.isclose(found.bandwidth_gbs[0][1], peak, abs_tol=0.0051)
