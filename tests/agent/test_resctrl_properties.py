"""Any sequence of wanted states, on every kind of processor: it ends as ordered, in few writes, and harms nobody."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohabit.agent.resctrl.executing import carry_out
from cohabit.agent.resctrl.files import Mount, Patience
from cohabit.agent.resctrl.groups import read_current
from cohabit.agent.resctrl.offer import UNITS, ResctrlOffer, read_offer
from cohabit.agent.resctrl.planning import ROOT as HOME
from cohabit.agent.resctrl.planning import Plan, plan
from cohabit.agent.resctrl.schemata import Run, mask_of
from cohabit.agent.resctrl.wanted import Need, Share
from cohabit.agent.resctrl.writes import Enter, Make, Move, Remove, SetSchemata
from tests.breadth import examples
from tests.support.resctrl import FakeResctrl
from tests.support.resctrl_faults import FaultyResctrl
from tests.support.resctrl_machines import MACHINES, Machine

ROOT = Path("/sys/fs/resctrl")
JOBS = {f"job {number}/..": 100 + number for number in range(6)}  # each a task; names no path may stumble over
Wanted = dict[str, Need]


@st.composite
def divisions(draw: st.DrawFn, machine: Machine) -> Wanted:
    """On every domain, disjoint runs of ways and bandwidth values for some jobs; others share a run, or have none."""
    wanted: dict[str, dict[int, Share]] = {
        job: {} for job in draw(st.lists(st.sampled_from(sorted(JOBS)), unique=True))
    }
    for domain in draw(st.lists(st.sampled_from(machine.domains), unique=True, max_size=3)):
        there = draw(st.lists(st.sampled_from(sorted(wanted)), unique=True)) if wanted else []
        parts = draw(st.lists(st.integers(machine.min_bits, 5), min_size=len(there), max_size=len(there)))
        first = 0
        for job, ways in zip(there, parts, strict=True):
            if first + ways <= machine.ways:
                level = None
                if machine.bandwidth_most:
                    level = draw(st.sampled_from([None, machine.bandwidth_least or 8, 50]))
                wanted[job][domain] = Share(mask_of(Run(first, ways)), level)
                first += 0 if draw(st.integers(0, 5)) == 0 else ways  # now and then the next one has the same first way
        masks: list[int] = []
        for job in there:  # equal or disjoint, as the core's orders are
            if domain in wanted[job]:
                share = wanted[job][domain]
                assert share.mask is not None
                clash = next((one for one in masks if one & share.mask), None)
                masks.append(clash or share.mask)
                wanted[job][domain] = Share(clash or share.mask, share.bandwidth)
    return dict(wanted)


@dataclass
class World:
    """A fake, the log of changes in front of it, and what it offers."""

    fake: FakeResctrl
    files: FaultyResctrl
    offer: ResctrlOffer

    @classmethod
    def of(cls, machine: Machine) -> World:
        fake = FakeResctrl(set(JOBS.values()), machine=machine)
        fake.add_foreign_class("theirs")
        fake.add_foreign("cohabit-somebody")
        options = ("mba_MBps",) if machine.mba_mbps else ()
        return cls(fake, FaultyResctrl(fake), read_offer(fake, Mount(ROOT, options), machine.processor))

    def step(self, wanted: Wanted) -> Plan:
        """All jobs run already."""
        made = plan(read_current(self.fake, ROOT), wanted, self.offer, list(wanted))
        outcome = carry_out(self.files, ROOT, made.writes, lambda job: [JOBS[job]], Patience(1))
        assert outcome.failure is None, outcome.failure
        return made


def shown(fake: FakeResctrl, job: str, domain: int, resource: str) -> int | None:
    group = fake.classes[fake.class_of(JOBS[job])] if fake.class_of(JOBS[job]) else fake.default
    return group.schemata.get(resource, {}).get(domain)


def check_end(world: World, wanted: Wanted, made: Plan) -> None:
    """Exactly the wanted values for everybody who could be served, and nothing left over."""
    for job, need in wanted.items():
        assert (world.fake.class_of(JOBS[job]) == "") is (made.homes[job] == HOME)
        if job not in made.refused:
            for domain, share in need.items():
                for resource in world.fake.machine.caches:
                    assert shown(world.fake, job, domain, resource) == share.mask
                if world.offer.bandwidth is not None:
                    most = world.offer.bandwidth.most
                    assert shown(world.fake, job, domain, "MB") == (
                        most if share.bandwidth is None else share.bandwidth
                    )
    ours = set(world.fake.classes) - {"theirs"}
    assert ours == {home for home in made.homes.values() if home != HOME}
    assert len(ours) <= world.offer.classes - 1
    if world.offer.bandwidth is not None and world.offer.bandwidth.kind == UNITS:  # a limit is never shared by two
        for name in ours:
            there = [wanted[job] for job in wanted if made.homes[job] == name]
            for domain in {domain for need in there for domain in need}:
                held = [need[domain] for need in there if domain in need]
                assert len(held) == 1 or all(share.bandwidth is None for share in held)


def check_others(world: World) -> None:
    """The fake fails a test that touches them; here: they are still there, and so is the root's share."""
    assert "theirs" in world.fake.classes
    assert "cohabit-somebody" in world.fake.groups
    masks = [mask for cache in world.fake.machine.caches for mask in world.fake.default.schemata[cache].values()]
    assert set(masks) == {world.fake.machine.mask}


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES.keys())
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_any_sequence_ends_in_exactly_the_wanted_state(machine: Machine, data: st.DataObject) -> None:
    world = World.of(machine)
    for _ in range(data.draw(st.integers(1, 4))):
        wanted = data.draw(divisions(machine))
        made = world.step(wanted)
        check_end(world, wanted, made)
        check_others(world)
        # Done is done: asked again, nothing is written.
        assert plan(read_current(world.fake, ROOT), wanted, world.offer, list(wanted)).writes == []
        if made.refused:  # only when classes are really used up
            assert len(set(made.homes.values()) - {HOME}) == world.offer.classes - 1


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES.keys())
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_no_more_writes_than_differences(machine: Machine, data: st.DataObject) -> None:
    """At most one per group made, removed, moved; schemata once per group, twice only to break a circle."""
    world = World.of(machine)
    world.step(data.draw(divisions(machine)))
    before = read_current(world.fake, ROOT)
    wanted = data.draw(divisions(machine))
    made = world.step(wanted)
    makes = [one.place for one in made.writes if isinstance(one, Make)]
    removes = [one.place for one in made.writes if isinstance(one, Remove)]
    moves = [one.jobs[0] for one in made.writes if isinstance(one, Move)]
    enters = [one.jobs[0] for one in made.writes if isinstance(one, Enter)]
    for found in (makes, removes, moves, enters):
        assert len(found) == len(set(found))
    assert not set(makes) & set(removes)
    known = before.root_jobs | {job for group in before.groups.values() for job in group.jobs}
    if machine.events:
        assert set(enters) == wanted.keys() - known
    for one in made.writes:
        if isinstance(one, SetSchemata) and one.place in before.groups:
            old = before.groups[one.place].schemata
            assert all(values[domain] != old[name][domain] for name, values in one.values.items() for domain in values
                       ) or _times(made, one.place) > 1  # fmt: skip
    circles = [one.place for one in made.writes if isinstance(one, SetSchemata) and _times(made, one.place) > 1]
    assert all(_times(made, place) == 2 for place in circles)


def _times(made: Plan, place: str) -> int:
    return sum(isinstance(one, SetSchemata) and one.place == place for one in made.writes)


@st.composite
def resizings(draw: st.DrawFn, machine: Machine, jobs: list[str]) -> tuple[Wanted, Wanted]:
    """Two divisions of the same two domains in which everybody keeps a legal part of what it had."""
    before: dict[str, dict[int, Share]] = {job: {} for job in jobs}
    after: dict[str, dict[int, Share]] = {job: {} for job in jobs}
    least = machine.min_bits
    for domain in machine.domains[:2]:
        room = machine.ways // len(jobs)
        old = [(number * room, number * room + draw(st.integers(least, room))) for number in range(len(jobs))]
        kept = []
        for low, high in old:
            begin = draw(st.integers(low, high - least))
            kept.append((begin, draw(st.integers(begin + least, high))))
        edges = [draw(st.integers(0, kept[0][0]))]
        edges += [draw(st.integers(one[1], other[0])) for one, other in itertools.pairwise(kept)]
        edges.append(draw(st.integers(kept[-1][1], machine.ways)))
        for number, job in enumerate(jobs):
            before[job][domain] = Share(mask_of(Run(old[number][0], old[number][1] - old[number][0])))
            after[job][domain] = Share(mask_of(Run(edges[number], edges[number + 1] - edges[number])))
    return dict(before), dict(after)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES.keys())
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_nobody_takes_a_way_that_another_still_has(machine: Machine, data: st.DataObject) -> None:
    """After every single write no two jobs overlap, though domains change in opposite directions."""
    world = World.of(machine)
    jobs = sorted(JOBS)[: min(4, world.offer.classes - 1)]
    before, after = data.draw(resizings(machine, jobs))
    world.step(before)
    assert not overlaps(world, before)
    seen: list[set[tuple[str, str, int]]] = []
    world.files.after_each(lambda: seen.append(overlaps(world, before)))
    world.step(after)
    assert not any(seen)


def test_a_circle_costs_one_more_write_and_a_swap_none() -> None:
    world = World.of(MACHINES["intel"])
    one, other = sorted(JOBS)[:2]
    world.step({one: shares(0x3F, 0x3), other: shares(0x7C0, 0x7FC)})
    made = world.step({one: shares(0x3, 0x3F), other: shares(0x7FC, 0x7C0)})  # each waits for the other, on a domain
    assert [type(write) for write in made.writes] == [SetSchemata] * 3
    made = world.step({one: shares(0x7FC, 0x7C0), other: shares(0x3, 0x3F)})
    assert [type(write) for write in made.writes] == [SetSchemata] * 2


def shares(*masks: int) -> Need:
    return {domain: Share(mask) for domain, mask in enumerate(masks)}


def overlaps(world: World, wanted: Wanted) -> set[tuple[str, str, int]]:
    """Pairs of jobs whose masks meet on a domain both run on; the root's ways belong to nobody."""
    found = set()
    resource = world.fake.machine.caches[0]
    for one, need in wanted.items():
        for other in wanted:
            if one < other and world.fake.class_of(JOBS[one]) and world.fake.class_of(JOBS[other]):
                for domain in need.keys() & wanted[other].keys():
                    mine, theirs = shown(world.fake, one, domain, resource), shown(world.fake, other, domain, resource)
                    if mine is not None and theirs is not None and mine & theirs:
                        found.add((one, other, domain))
    return found
