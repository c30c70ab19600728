"""Deadlocks between groups: every domain finds them in what the others report, names them and ends them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cohabit.core.explain import why_waiting
from cohabit.core.mates.standing import holds_in_the_way, own_standing
from cohabit.model.command import Command, ReleaseJob
from cohabit.model.errors import InputError
from cohabit.model.event import Event
from cohabit.model.peer import GroupNodes
from cohabit.model.scheme import Scheme
from cohabit.model.units import SECOND
from cohabit.sim.coupled import Link
from tests.support.coupled import CoupledCase, DomainCase, build

ENDS, SAYS = Scheme(release_us=0), Scheme(release_us=0, on_deadlock="report")
FIGURE_2 = (("a", 0, 6, 100, 100), ("b", 10, 6, 100, 100), ("b", 0, 6, 100, 100), ("a", 10, 6, 100, 100))
CYCLE = "g000 waits for 6 nodes on b, where g001 holds 6; g001 waits for 6 nodes on a, where g000 holds 6"


def figure_2(scheme: Scheme, link: Link | None = None) -> CoupledCase:
    domains = (DomainCase("a", 6, scheme), DomainCase("b", 6, scheme))
    return CoupledCase(domains, FIGURE_2, ((0, 1), (3, 2)), link or Link())


def test_a_deadlock_is_ended_when_its_last_job_comes() -> None:
    said: list[str] = []

    def observe(_: str, now: int, events: list[Event], commands: list[Command]) -> None:
        said.extend(one.reason for one in commands if isinstance(one, ReleaseJob))

    run = build(figure_2(ENDS), check=True, observe=observe)
    run.run()
    starts = {name: one.start_us for world in run.worlds.values() for name, one in world.outcomes.items()}
    assert starts == {"0": 10 * SECOND, "1": 10 * SECOND, "2": 110 * SECOND, "3": 110 * SECOND}
    assert f"deadlock: {CYCLE}" in said


def test_with_latency_it_takes_a_few_messages() -> None:
    run = build(figure_2(ENDS, Link(latency_us=SECOND)), check=True)
    run.run()
    first = [run.worlds["a"].outcomes["0"].start_us, run.worlds["b"].outcomes["1"].start_us]
    assert all(start is not None and 10 * SECOND <= start <= 30 * SECOND for start in first)


def test_a_deadlock_is_only_named_where_that_is_asked_for() -> None:
    run = build(figure_2(SAYS))
    run.run()
    for world in run.worlds.values():
        assert world.core.state.coupled is not None
        assert world.core.state.coupled.deadlock == CYCLE
        assert all(one.start_us is None for one in world.outcomes.values())
    core = run.worlds["a"].core
    text = why_waiting(core.state, core.policies, "0", 20 * SECOND)
    assert text.endswith(f"groups wait for each other's nodes: {CYCLE}")
    text = why_waiting(core.state, core.policies, "3", 20 * SECOND)  # it only waits
    assert text.startswith("it waits for nodes that other groups hold: b:2 could start; deadlock")


def test_a_deadlock_between_three_domains_is_ended() -> None:
    """g000 holds on a and waits on b, g001 holds on b and waits on c, g002 holds on c and waits on a."""
    jobs = (
        ("a", 0, 4, 100, 100), ("b", 10, 4, 100, 100),
        ("b", 0, 4, 100, 100), ("c", 10, 4, 100, 100),
        ("c", 0, 4, 100, 100), ("a", 10, 4, 100, 100),
    )  # fmt: skip
    case = CoupledCase(tuple(DomainCase(name, 4, ENDS) for name in "abc"), jobs, ((0, 1), (2, 3), (4, 5)))
    run = build(case, check=True)
    run.run()
    starts = [one.start_us for world in run.worlds.values() for one in world.outcomes.values()]
    assert None not in starts
    assert max(start for start in starts if start is not None) <= 310 * SECOND
    named = build(replace(case, domains=tuple(DomainCase(name, 4, SAYS) for name in "abc")))
    named.run()
    assert [world.core.state.coupled.deadlocked for world in named.worlds.values() if world.core.state.coupled] == [
        ["g000", "g001", "g002"]
    ] * 3


def deadlocked() -> CoupledCase:
    """On a: g000 holds 2 and g001 holds 3 of 6 nodes; g002 wants 3 and its mate holds on b; so on b the other way."""
    jobs = (
        ("a", 0, 2, 100, 100), ("b", 10, 2, 100, 100),
        ("a", 1, 3, 100, 100), ("b", 10, 3, 100, 100),
        ("b", 0, 6, 100, 100), ("a", 10, 3, 100, 100),
    )  # fmt: skip
    return CoupledCase(tuple(DomainCase(name, 6, SAYS) for name in "ab"), jobs, ((0, 1), (2, 3), (4, 5)))


def test_a_domain_reports_what_is_held_and_what_is_wanted_by_mates_of_holders() -> None:
    run = build(deadlocked())
    run.run()
    state = run.worlds["a"].core.state
    assert state.coupled is not None
    found = own_standing(state, state.coupled)
    assert found is not None
    assert found.free == 1
    assert found.groups == (GroupNodes("g000", True, 2), GroupNodes("g001", True, 3), GroupNodes("g002", False, 3))


def test_as_few_holds_as_needed_are_released_the_smallest_first() -> None:
    run = build(deadlocked())
    run.run()
    state = run.worlds["a"].core.state
    assert holds_in_the_way(state, "g002", ["0", "2"]) == ["0"]  # one node is idle: two more are enough
    assert holds_in_the_way(state, "g000", ["2"]) == []  # it holds, it does not wait
    assert holds_in_the_way(run.worlds["b"].core.state, "g001", []) == []  # nothing to release


@pytest.mark.parametrize("wrong", ["never", ""])
def test_an_unknown_word_is_refused(wrong: str) -> None:
    with pytest.raises(InputError, match="on_deadlock"):
        Scheme(on_deadlock=wrong).check()
