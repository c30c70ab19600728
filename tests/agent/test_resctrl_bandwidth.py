"""Booked GB/s as values of bandwidth control, on every kind of processor; the safety valve."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.agent.resctrl.bandwidth import cap_value, control_value, shut_valve
from cohabit.agent.resctrl.files import Mount
from cohabit.agent.resctrl.offer import MIBS, PERCENT, UNITS, BandwidthOffer, read_offer
from tests.support.resctrl import FakeResctrl
from tests.support.resctrl_machines import AMD, ARM, ARM_CACHE_ONLY, HASWELL, INTEL, INTEL_MBPS, Machine

INFINITE = float("inf")


def offer_of(machine: Machine) -> BandwidthOffer:
    options = ("rw", "mba_MBps") if machine.mba_mbps else ("rw",)
    mount = Mount(Path("/sys/fs/resctrl"), options)
    found = read_offer(FakeResctrl(set(), machine=machine), mount, machine.processor).bandwidth
    assert found is not None
    return found


def test_what_the_processors_offer() -> None:
    assert (offer_of(INTEL).kind, offer_of(INTEL).per_core) == (PERCENT, True)
    assert (offer_of(ARM).kind, offer_of(ARM).per_core) == (PERCENT, False)
    assert (offer_of(AMD).kind, offer_of(AMD).domains) == (UNITS, (0, 1, 2, 3, 8, 9, 10, 11))
    assert offer_of(INTEL_MBPS).kind == MIBS
    for machine in (HASWELL, ARM_CACHE_ONLY):
        fake = FakeResctrl(set(), machine=machine)
        assert read_offer(fake, Mount(Path("/sys/fs/resctrl")), machine.processor).bandwidth is None


@pytest.mark.parametrize(
    ("machine", "booked_gbs", "reach_gbs", "peak_gbs", "value"),
    [
        (INTEL, 12.0, 40.0, 100.0, 30),  # of what its cores can draw, not of the machine
        (INTEL, 12.1, 40.0, 100.0, 40),  # up to the next step
        (INTEL, 1.0, 40.0, 100.0, 10),  # the least there is
        (INTEL, 39.0, 40.0, 100.0, None),  # 100 %: nothing to hold
        (INTEL, 50.0, 40.0, 100.0, None),
        (INTEL, 12.0, INFINITE, INFINITE, None),  # not calibrated: a percentage of what?
        (ARM, 12.0, 40.0, 100.0, 12),  # of the memory's maximum
        (AMD, 2.0, INFINITE, INFINITE, 16),
        (AMD, 2.01, INFINITE, INFINITE, 17),
        (AMD, 300.0, INFINITE, INFINITE, None),
        (INTEL_MBPS, 2.0, INFINITE, INFINITE, 1908),
        (AMD, 0.0, 40.0, 100.0, None),
    ],
)
def test_values(machine: Machine, booked_gbs: float, reach_gbs: float, peak_gbs: float, value: int | None) -> None:
    assert control_value(booked_gbs, offer_of(machine), reach_gbs, peak_gbs) == value


def granted_gbs(value: int, offer: BandwidthOffer, reach_gbs: float, peak_gbs: float) -> float:
    if offer.kind == UNITS:
        return value / 8
    if offer.kind == MIBS:
        return value * 2**20 / 1e9
    return value / 100 * (reach_gbs if offer.per_core else peak_gbs)


@pytest.mark.parametrize("machine", [INTEL, ARM, AMD, INTEL_MBPS], ids=["intel", "arm", "amd", "mbps"])
@given(booked=st.floats(0.01, 120.0), reach=st.floats(1.0, 120.0), spare=st.floats(0.0, 80.0))
def test_never_less_than_booked_and_hardly_more(machine: Machine, booked: float, reach: float, spare: float) -> None:
    offer, peak = offer_of(machine), reach + spare
    value = control_value(booked, offer, reach, peak)
    if value is not None:
        granted = granted_gbs(value, offer, reach, peak)
        assert granted >= booked * (1 - 1e-6)
        one_less = granted_gbs(value - offer.step, offer, reach, peak)
        assert one_less < booked or value == offer.least
        fake = FakeResctrl(set(), machine=machine)
        fake.make(Path("/sys/fs/resctrl/a"))
        fake.write(Path("/sys/fs/resctrl/a/schemata"), f"MB:{offer.domains[-1]}={value}\n")
        assert fake.classes["a"].schemata["MB"][offer.domains[-1]] == value  # legal, and not rounded by the kernel


def test_the_valve_shuts_when_the_memory_is_full_and_opens_when_it_has_room() -> None:
    booked = {"calm": 20.0, "wild": 30.0}
    assert shut_valve({"calm": 15.0, "wild": 60.0, "unbooked": 5.0}, booked, 100.0, ()) == frozenset()
    full = shut_valve({"calm": 15.0, "wild": 82.0, "unbooked": 5.0}, booked, 100.0, ())
    assert full == {"wild"}  # not the calm one, and not one that has booked nothing to be held to
    assert shut_valve({"calm": 30.0, "wild": 55.0}, booked, 100.0, full) == {"wild"}  # between the marks: as it was
    assert shut_valve({"calm": 40.0, "wild": 56.0}, booked, 100.0, full) == {"calm", "wild"}
    assert shut_valve({"calm": 15.0, "wild": 30.0}, booked, 100.0, full) == frozenset()
    assert shut_valve({"calm": 85.0}, {"calm": 85.0}, 100.0, full) == frozenset()  # the wild one has ended


@pytest.mark.parametrize(
    ("machine", "percent", "reach_gbs", "value"),
    [
        (INTEL, 33, INFINITE, 40),  # of each core's requests, in steps of ten
        (INTEL, 5, INFINITE, 10),  # the least there is
        (INTEL, 95, INFINITE, None),  # rounded up that is no limit
        (AMD, 50, 20.0, 80),  # ten GB/s in eighths
        (AMD, 50, INFINITE, None),  # half of what nobody knows
        (INTEL_MBPS, 50, 20.0, 9537),
        (ARM, 50, 20.0, 10),  # ten of the memory's hundred
        (ARM, 50, INFINITE, None),
    ],
)
def test_a_cap_is_a_part_of_what_the_cores_could_draw(
    machine: Machine, percent: int, reach_gbs: float, value: int | None
) -> None:
    assert cap_value(percent, offer_of(machine), reach_gbs, 5 * reach_gbs) == value
