"""Jobs with mates in the scheduler: they start together or wait, whatever the schemes; others are served as before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from cohabit.core import checkpoint
from cohabit.core.columns import HOLDING, NODES, STATE
from cohabit.core.core import SchedulerCore
from cohabit.core.explain import why_waiting
from cohabit.core.mates import deadlock
from cohabit.core.protocols import Coupling
from cohabit.model.cluster import uniform_cluster
from cohabit.model.command import CancelJob, Command, HoldJob, ReleaseJob, StartJob
from cohabit.model.event import (
    Event,
    JobCancelled,
    JobChanged,
    JobHeld,
    JobReleased,
    NodeDown,
    NodeDrained,
    NodeUp,
    SchemeChanged,
    Woken,
)
from cohabit.model.group import FAIL, START_ALONE, Member, Terms, Window, make_group
from cohabit.model.scheme import Scheme
from cohabit.model.units import DAY, HOUR, SECOND
from cohabit.sim.coupled import CoupledWorlds, Link, fitting_terms
from cohabit.sim.world import World
from tests.support.builders import Choice, job, policies, submitted
from tests.support.coupled import CoupledCase, DomainCase, build, random_case

CASES = 60
HH, YY, AA = (Scheme(scheme=name) for name in ("hold", "yield", "agree"))


def starts_of(run: CoupledWorlds) -> dict[str, tuple[int | None, int | None, str]]:
    return {
        name: (outcome.start_us, outcome.end_us, outcome.status)
        for world in run.worlds.values()
        for name, outcome in world.outcomes.items()
    }


Groups = tuple[tuple[int, ...], ...]


def pair(scheme_a: Scheme, scheme_b: Scheme, jobs: tuple[Any, ...], groups: Groups, nodes: int = 6) -> CoupledCase:
    return CoupledCase((DomainCase("a", nodes, scheme_a), DomainCase("b", nodes, scheme_b)), jobs, groups)


@pytest.mark.parametrize("seed", range(CASES))
def test_every_group_starts_at_one_instant_and_everybody_runs(seed: int) -> None:
    case = random_case(np.random.default_rng([17, seed]))
    run = build(case, check=True)
    run.run()
    found = starts_of(run)
    assert not run.deadlock
    for group in case.groups:
        assert len({found[str(member)][0] for member in group}) == 1, group
    assert all(start is not None and status == "done" for start, _, status in found.values())


@pytest.mark.parametrize("seed", range(20))
def test_the_compiled_pass_and_the_readable_one_are_the_same(seed: int) -> None:
    case = random_case(np.random.default_rng([19, seed]))
    runs = [build(case, readable=readable) for readable in (False, True)]
    for run in runs:
        run.run()
    assert starts_of(runs[0]) == starts_of(runs[1])


@pytest.mark.parametrize("seed", range(25))
def test_without_pairs_nothing_changes_and_nothing_is_lost(seed: int) -> None:
    rng = np.random.default_rng([23, seed])
    case = replace(random_case(rng), groups=())
    run = build(case)
    run.run()
    for domain in case.domains:
        alone = World(SchedulerCore(uniform_cluster(domain.nodes), policies(*domain.choice)))
        alone.add(run.worlds[domain.name].jobs)
        alone.run()
        assert alone.outcomes == run.worlds[domain.name].outcomes
    assert run.messages == 0
    assert all(
        one.held_us == 0 and one.first_ready_us is None for w in run.worlds.values() for one in w.outcomes.values()
    )


def test_yielding_keeps_no_node_idle() -> None:
    for seed in range(10):
        case = random_case(np.random.default_rng([29, seed]), schemes=("yield",))
        run = build(case)
        run.run()
        assert all(one.held_us == 0 for world in run.worlds.values() for one in world.outcomes.values())


def test_a_mate_that_refused_is_not_asked_again_until_it_says_more() -> None:
    blocked, pair_of_one = ("b", 0, 6, 1000, 1000), (("a", 10, 1, 100, 100), ("b", 10, 6, 100, 100))
    others = tuple(("a", 20 + 20 * index, 1, 5, 5) for index in range(40))  # each arrival and end asks for a pass
    messages = []
    for jobs in ((*pair_of_one, blocked), (*pair_of_one, blocked, *others)):
        run = build(pair(YY, YY, jobs, ((0, 1),)), check=True)
        run.run()
        assert starts_of(run)["0"][0] == starts_of(run)["1"][0] == 1000 * SECOND
        messages.append(run.messages)
    assert messages[1] <= messages[0] + 4  # not two for each of the eighty passes


@pytest.mark.parametrize("scheme", [YY, AA])
def test_a_mate_that_is_not_submitted_is_not_asked_in_every_pass(scheme: Scheme) -> None:
    pair_of_one = (("a", 10, 1, 100, 100), ("b", 1000, 1, 100, 100))
    others = tuple(("a", 20 + 20 * index, 1, 5, 5) for index in range(40))
    messages = []
    for jobs in (pair_of_one, (*pair_of_one, *others)):
        run = build(pair(scheme, scheme, jobs, ((0, 1),)), check=True)
        run.run()
        assert starts_of(run)["0"][0] == starts_of(run)["1"][0] == 1000 * SECOND
        messages.append(run.messages)
    assert messages[1] <= messages[0] + 4  # not two for each of the eighty passes


FIGURE_2 = (("a", 0, 6, 100, 100), ("b", 10, 6, 100, 100), ("b", 0, 6, 100, 100), ("a", 10, 6, 100, 100))


def test_figure_2_is_a_deadlock_without_release_and_named() -> None:
    never = replace_release(0)
    run = build(pair(never, never, FIGURE_2, ((0, 1), (3, 2))))
    run.run()
    assert run.deadlock == ["g000", "g001"]
    reports, _ = run.reports()
    assert "g000 waits for 6 nodes on b, where g001 holds 6" in deadlock.describe(run.deadlock, reports)
    assert all(one.start_us is None for world in run.worlds.values() for one in world.outcomes.values())


def test_figure_2_finishes_with_release() -> None:
    run = build(pair(HH, HH, FIGURE_2, ((0, 1), (3, 2))), check=True)
    run.run()
    assert not run.deadlock
    assert {status for _, _, status in starts_of(run).values()} == {"done"}


@pytest.mark.parametrize("first", [YY, AA])
def test_figure_2_is_no_deadlock_where_one_side_does_not_hold(first: Scheme) -> None:
    run = build(pair(first, replace_release(0), FIGURE_2, ((0, 1), (3, 2))))
    run.run()
    assert {status for _, _, status in starts_of(run).values()} == {"done"}


def replace_release(release_us: int) -> Scheme:
    return Scheme(scheme="hold", release_us=release_us, on_deadlock="report")


def test_holds_are_released_every_twenty_minutes_and_not_before_ten() -> None:
    """One job holds; its mate comes after two hours. A later job of the same size takes the nodes at a release."""
    jobs = (("a", 0, 6, 100, 100), ("b", 7200, 6, 100, 100), ("a", 30, 3, 50, 50))
    seen: list[tuple[float, str, str]] = []

    def observe(name: str, now: int, events: list[Event], commands: list[Command]) -> None:
        kinds = (HoldJob, ReleaseJob, StartJob)
        seen.extend((now / SECOND, type(one).__name__, one.job_id) for one in commands if isinstance(one, kinds))

    run = build(pair(HH, HH, jobs, ((0, 1),)), observe=observe)
    run.run()
    assert seen[:3] == [(0.0, "HoldJob", "0"), (1200.0, "ReleaseJob", "0"), (1200.0, "StartJob", "2")]
    assert seen[3] == (1250.0, "HoldJob", "0")  # the nodes are free again
    assert sorted(what for what in seen if what[1] == "StartJob")[1:] == [
        (7200.0, "StartJob", "0"),
        (7200.0, "StartJob", "1"),
    ]
    assert [at for at, what, who in seen if (what, who) == ("ReleaseJob", "0")] == [1200.0 * n for n in range(1, 6)]


def test_a_bounded_share_of_the_machine_is_held() -> None:
    jobs = (("a", 0, 3, 100, 100), ("a", 1, 3, 100, 100), ("b", 5000, 1, 10, 10), ("b", 5000, 1, 10, 10))
    half = Scheme(scheme="hold", most_held=0.5)
    worlds = build(pair(half, YY, jobs, ((0, 2), (1, 3))), check=True)
    worlds.run(until_us=60 * SECOND)
    state = worlds.worlds["a"].core.state
    held = [int(state.jobs[NODES, row]) for row in state.rows.values() if state.jobs[STATE, row] == HOLDING]
    assert held == [3]


def test_a_job_may_hold_after_so_many_yields() -> None:
    jobs = (("a", 0, 3, 100, 100), ("b", 5000, 1, 10, 10), *(("a", n, 1, 1, 1) for n in range(10, 14)))
    often = Scheme(scheme="yield", most_yields=3)
    worlds = build(pair(often, YY, jobs, ((0, 1),)))
    worlds.run(until_us=60 * SECOND)
    state = worlds.worlds["a"].core.state
    assert state.jobs[STATE, state.rows["0"]] == HOLDING
    assert worlds.worlds["a"].outcomes["0"].yields == 3


def test_agreeing_reserves_nodes_that_others_may_use_until_then() -> None:
    """a:0 could start at once, its mate b:1 when b:2 ends, by its request after 1000 s."""
    mates, busy = (("a", 5, 6, 100, 100), ("b", 5, 6, 100, 100)), ("b", 0, 6, 1000, 1000)
    jobs = (*mates, busy, ("a", 6, 6, 900, 900), ("a", 7, 6, 995, 995))
    run = build(pair(AA, AA, jobs, ((0, 1),)), check=True)
    run.run()
    found = {name: start for name, (start, _, _) in starts_of(run).items()}
    assert found["3"] == 6 * SECOND  # gone by 906 s
    assert found["0"] == found["1"] == 1000 * SECOND
    assert found["4"] == 1100 * SECOND  # it would not have been gone by 1000 s
    assert all(one.held_us == 0 for world in run.worlds.values() for one in world.outcomes.values())


def test_an_early_end_moves_an_agreed_start_up() -> None:
    jobs = (("a", 5, 6, 100, 100), ("b", 5, 6, 100, 100), ("b", 0, 6, 200, 1000))
    run = build(pair(AA, AA, jobs, ((0, 1),)))
    run.run()
    assert {start for name, (start, _, _) in starts_of(run).items() if name != "2"} == {200 * SECOND}


def test_a_start_before_the_agreed_time_takes_only_what_others_leave() -> None:
    """Agreed for 1000 s; b:2 ends at 200 s, and b:3, which waits since 6 s and is gone by 1000 s, goes first."""
    mates, busy = (("a", 5, 6, 100, 100), ("b", 5, 6, 100, 100)), ("b", 0, 6, 200, 1000)
    jobs = (*mates, busy, ("b", 6, 6, 100, 100), ("a", 7, 6, 50, 50))
    run = build(pair(AA, AA, jobs, ((0, 1),)), check=True)
    run.run()
    found = {name: start for name, (start, _, _) in starts_of(run).items()}
    assert found["3"] == 200 * SECOND
    assert found["0"] == found["1"] == 300 * SECOND


def test_a_variability_veto_counts_as_not_ready() -> None:
    """Both gates on: a job the machine is too noisy for holds no nodes, and the pair starts when it is let in."""
    jobs = (("a", 0, 3, 100, 100), ("b", 0, 3, 100, 100), *(("a", n * 50, 1, 20, 20) for n in range(1, 12)))
    noisy = Choice("fcfs", "easy", skip_rate=1.0)  # says no three times, then the job has been skipped often enough
    case = CoupledCase((DomainCase("a", 6, HH, noisy), DomainCase("b", 6, HH)), jobs, ((0, 1),))
    seen: list[tuple[str, str, int]] = []

    def observe(name: str, now: int, events: list[Event], commands: list[Command]) -> None:
        seen.extend((name, one.job_id, now) for one in commands if isinstance(one, HoldJob))

    run = build(case, check=True, observe=observe)
    run.run()
    found = starts_of(run)
    assert found["0"][0] == found["1"][0]
    assert found["0"][0] is not None
    assert found["0"][0] > 0
    assert [at for name, _, at in seen if name == "a"] == [found["0"][0]]  # chosen once only: when the gate let it in
    assert next(at for name, _, at in seen if name == "b") == 0


def test_the_scheme_can_be_switched_at_run_time() -> None:
    jobs = (("a", 0, 6, 100, 100), ("b", 5000, 6, 100, 100), ("a", 30, 3, 50, 50))
    run = build(pair(replace_release(0), YY, jobs, ((0, 1),)), check=True)
    run.worlds["a"].add((), [(100 * SECOND, SchemeChanged(YY))])
    run.run()
    found = starts_of(run)
    assert found["2"][0] == 100 * SECOND  # the nodes that were held
    assert found["0"][0] == found["1"][0] == 5000 * SECOND


def test_coscheduling_can_be_switched_off() -> None:
    jobs = (("a", 0, 6, 100, 100), ("b", 5000, 6, 100, 100))
    run = build(pair(replace_release(0), YY, jobs, ((0, 1),)))
    run.worlds["a"].add((), [(100 * SECOND, SchemeChanged(Scheme(enabled=False)))])
    run.run()
    assert [starts_of(run)[name][0] for name in "01"] == [100 * SECOND, 5000 * SECOND]


def test_mates_of_a_job_that_starts_alone_do_not_wait_for_it() -> None:
    """The mate comes while the job still runs, and must not wait for its end."""
    jobs = (("a", 0, 6, 9000, 9000), ("b", 500, 6, 100, 100))
    run = build(pair(replace_release(0), HH, jobs, ((0, 1),)), check=True)
    run.worlds["a"].add((), [(100 * SECOND, SchemeChanged(Scheme(enabled=False)))])
    run.run()
    assert [starts_of(run)[name][0] for name in "01"] == [100 * SECOND, 500 * SECOND]


def test_one_job_may_have_a_scheme_of_its_own() -> None:
    """Two jobs hold; one of them is told to yield, so that a job without mates gets its nodes."""
    jobs = (("a", 0, 3, 100, 100), ("a", 0, 3, 100, 100), ("b", 5000, 3, 100, 100), ("b", 5000, 3, 100, 100),
            ("a", 30, 3, 50, 50))  # fmt: skip
    run = build(pair(replace_release(0), YY, jobs, ((0, 2), (1, 3))), check=True)
    run.worlds["a"].add((), [(100 * SECOND, SchemeChanged(YY, "1"))])
    run.run()
    found, outcomes = starts_of(run), run.worlds["a"].outcomes
    assert found["4"][0] == 100 * SECOND
    assert (outcomes["0"].held_us, outcomes["1"].held_us) == (5000 * SECOND, 100 * SECOND)
    assert [found[name][0] for name in "0123"] == [5000 * SECOND] * 4


def test_one_job_may_leave_its_group() -> None:
    jobs = (("a", 0, 3, 100, 100), ("a", 0, 3, 100, 100), ("b", 5000, 3, 100, 100), ("b", 5000, 3, 100, 100))
    run = build(pair(replace_release(0), YY, jobs, ((0, 2), (1, 3))), check=True)
    run.worlds["a"].add((), [(100 * SECOND, SchemeChanged(Scheme(enabled=False), "1"))])
    run.run()
    assert [starts_of(run)[name][0] for name in "0123"] == [5000 * SECOND, 100 * SECOND, 5000 * SECOND, 5000 * SECOND]


def test_a_job_fails_when_its_mate_was_dead_for_too_long() -> None:
    terms = Terms(when_dead="wait", give_up_us=HOUR)
    group = make_group("g", [Member("a", "1"), Member("b", "2")], terms)
    core = core_a()
    core.step(0, [submitted("1", 4, mates=group)])
    dead_us = terms.dead_after_us
    for now_us in (terms.patience_us, dead_us, dead_us + HOUR - SECOND):
        assert not [one for one in core.step(now_us, [Woken()]) if isinstance(one, CancelJob)]
    text = why_waiting(core.state, core.policies, "1", dead_us + HOUR - SECOND)
    assert text.endswith("b:2 is not submitted yet; if it is not heard within 1 s, this job fails")
    found = [one for one in core.step(dead_us + HOUR, [Woken()]) if isinstance(one, CancelJob)]
    assert [one.reason for one in found] == ["nothing was heard of its mate in domain b"]


def test_a_cancelled_mate_is_not_waited_for() -> None:
    jobs = (("a", 0, 6, 100, 100), ("b", 0, 6, 100, 100), ("b", 0, 6, 9000, 9000))
    case = pair(HH, HH, (jobs[0], ("b", 1, 6, 100, 100), jobs[2]), ((0, 1),))
    run = build(case, check=True)
    run.worlds["b"].add((), [(300 * SECOND, JobCancelled("1"))])
    run.run()
    assert starts_of(run)["0"][0] == 300 * SECOND


@pytest.mark.parametrize("gone", [NodeDown(0), NodeDrained(0)])
def test_held_nodes_that_are_lost_or_drained_are_let_go(gone: Event) -> None:
    jobs = (("a", 0, 3, 100, 100), ("b", 500, 6, 100, 100))
    run = build(pair(replace_release(0), HH, jobs, ((0, 1),), nodes=6), check=True)
    run.worlds["a"].add((), [(100 * SECOND, gone)])
    run.run()
    assert starts_of(run)["0"][0] == starts_of(run)["1"][0] == 500 * SECOND
    assert run.worlds["a"].outcomes["0"].nodes == ((1, 3),)


def test_nothing_is_promised_on_nodes_that_take_no_new_jobs() -> None:
    """All of a's nodes are drained while they are held (its manager is away): the mate waits until they are back."""
    jobs = (("a", 0, 6, 100, 100), ("b", 500, 6, 100, 100))
    run = build(pair(replace_release(0), HH, jobs, ((0, 1),), nodes=6), check=True)
    away = [(100 * SECOND, NodeDrained(node)) for node in range(6)]
    run.worlds["a"].add((), [*away, *((900 * SECOND, NodeUp(node)) for node in range(6))])
    run.run()
    assert starts_of(run)["0"][0] == starts_of(run)["1"][0] == 900 * SECOND


@pytest.mark.parametrize(("when_dead", "start_s"), [(START_ALONE, 180.0), (FAIL, None)])
def test_what_a_dead_peer_means(when_dead: str, start_s: float | None) -> None:
    """Nothing ever arrives: the job starts alone, or is told why it never will."""
    case = pair(HH, HH, (("a", 0, 6, 100, 100), ("b", 0, 6, 100, 100)), ((0, 1),))
    run = build(replace(case, link=Link(loss=1.0)), terms=Terms(when_dead=when_dead), check=True)
    run.run()
    start, _, status = starts_of(run)["0"]
    assert start == (None if start_s is None else start_s * SECOND)
    assert status == ("done" if start_s is not None else "cancelled")
    if start_s is None:
        assert run.worlds["a"].outcomes["0"].reason == "nothing was heard of its mate in domain b"


def test_a_mate_that_waits_for_a_dead_peer_keeps_waiting_without_holding_for_ever() -> None:
    case = pair(HH, HH, (("a", 0, 6, 100, 100), ("b", 0, 6, 100, 100), ("a", 10, 6, 50, 50)), ((0, 1),))
    run = build(replace(case, link=Link(loss=1.0)), terms=Terms(when_dead="wait"))
    run.run(until_us=DAY)
    assert starts_of(run)["0"][0] is None
    assert starts_of(run)["2"][0] == 1200 * SECOND


def test_clocks_need_not_agree() -> None:
    """b's clock is an hour ahead; the pair starts at one true instant all the same."""
    case = pair(HH, YY, (("a", 0, 6, 100, 100), ("b", 50, 6, 100, 100)), ((0, 1),))
    run = build(case, terms=fitting_terms(Link(), common_clock=False))
    run.clock_offset_us = {"b": HOUR}
    run.worlds["b"].clock_offset_us = HOUR
    run.run()
    assert starts_of(run)["0"][0] == starts_of(run)["1"][0] == 50 * SECOND


@pytest.mark.parametrize("seed", range(8))
def test_a_checkpoint_in_the_middle_goes_on_in_the_same_way(seed: int) -> None:
    rng = np.random.default_rng([31, seed])
    case = random_case(rng)
    whole, parted = build(case), build(case)
    whole.run()
    for turn in range(10**6):
        if turn % 7 == 3:
            for domain in case.domains:
                world = parted.worlds[domain.name]
                world.core = checkpoint.load(checkpoint.save(world.core), world.core.state.cluster, world.core.policies)
        if not parted.advance() or parted.now_us > 400 * HOUR:
            break
    assert starts_of(parted) == starts_of(whole)


@pytest.mark.parametrize(("seed", "loss"), [(seed, loss) for seed in range(4) for loss in (0.0, 0.2)])
def test_a_slow_and_lossy_link_changes_when_but_not_whether(seed: int, loss: float) -> None:
    rng = np.random.default_rng([37, seed])
    link = Link(
        latency_us=int(rng.integers(1, 500_000)), jitter_us=int(rng.integers(1, 200_000)), loss=loss, duplicate=loss
    )
    case = random_case(rng)
    case = replace(case, link=link, jobs=case.jobs[:12], groups=tuple(g for g in case.groups if max(g) < 12)[:2])
    run = build(case, check=True)
    run.run()
    found = starts_of(run)
    late_us = fitting_terms(link).late_us
    for group in case.groups:
        instants = [found[str(member)][0] for member in group]
        assert None not in instants
        assert max(instants) - min(instants) <= late_us  # type: ignore[type-var, operator]
    assert all(status == "done" for _, _, status in found.values())


@pytest.mark.parametrize("seed", range(30))
def test_whatever_else_happens_no_member_runs_without_the_others(seed: int) -> None:
    """Nodes are lost and come back, owners hold, change and cancel, operators switch schemes."""
    rng = np.random.default_rng([41, seed])
    case = random_case(rng)
    run = build(case, check=True)
    for name, world in run.worlds.items():
        nodes, names = len(world.core.state.node_state), [traced.job.job_id for traced in world.jobs]
        facts: list[tuple[int, Event]] = []
        for _ in range(int(rng.integers(0, 8))):
            at_us, node = int(rng.integers(0, 12_000)) * SECOND, int(rng.integers(0, nodes))
            who = str(rng.choice(names)) if names else "none"
            deeds: list[list[tuple[int, Event]]] = [
                [(at_us, NodeDown(node)), (at_us + 900 * SECOND, NodeUp(node))],
                [(at_us, JobHeld(who)), (at_us + 700 * SECOND, JobReleased(who))],
                [(at_us, JobChanged(who, qos=1))],
                [(at_us, SchemeChanged(Scheme(scheme=str(rng.choice(["hold", "yield", "agree"])))))],
                [(at_us, JobCancelled(who))],
            ]
            facts += deeds[int(rng.integers(0, len(deeds)))]
        world.add((), sorted(facts, key=lambda one: one[0]))
        assert name in run.worlds
    run.run()
    found = {name: one for world in run.worlds.values() for name, one in world.outcomes.items()}
    assert {one.status for one in found.values()} <= {"done", "cancelled"}
    for group in case.groups:
        members = [found[str(member)] for member in group]
        if all(one.status == "done" and one.attempts == 1 for one in members):
            assert len({one.start_us for one in members}) == 1, group


@pytest.mark.parametrize("schemes", [(HH, HH), (HH, YY), (YY, YY), (AA, AA)])
def test_one_starts_a_minute_after_the_other(schemes: tuple[Scheme, Scheme]) -> None:
    """Start offsets: b one minute after a. Its nodes are kept for it meanwhile."""
    case = pair(*schemes, (("a", 0, 6, 500, 500), ("b", 30, 6, 500, 500), ("b", 40, 6, 5, 5)), ((0, 1),))
    terms = msgspec.structs.replace(fitting_terms(Link()), lead_us=0)
    members = [Member("a", "0"), Member("b", "1")]
    group = make_group("later", members, terms, (Window("a", "b", 60 * SECOND, 60 * SECOND),))
    run = build(case, check=True, groups={0: group, 1: group})
    run.run()
    found = starts_of(run)
    assert found["0"][0] is not None
    assert found["1"][0] == found["0"][0] + 60 * SECOND
    assert found["2"][0] is not None
    assert found["2"][0] >= (found["1"][1] or 0)  # it did not get the nodes in between


def core_a(scheme: Scheme = HH) -> SchedulerCore:
    return SchedulerCore(uniform_cluster(4), replace(policies(), mates=Coupling("a", 0, scheme)))


GROUP = make_group("g", [Member("a", "1"), Member("b", "2")], Terms())


def test_why_says_what_the_mates_keep_a_job_waiting_for() -> None:
    core = core_a()
    core.step(0, [submitted("1", 4, mates=GROUP)])
    text = why_waiting(core.state, core.policies, "1", 90 * SECOND)
    assert text == "it keeps 4 nodes and waits for its mates for 1 min 30 s: b:2 is not submitted yet"
    assert core.state.coupled is not None
    core.state.coupled.protocol.groups["g"].views["b"].heard_us = 40 * SECOND  # and not since
    text = why_waiting(core.state, core.policies, "1", 90 * SECOND)
    assert text.endswith("b:2 is not submitted yet as far as is known (b was not heard for 50 s)")
    core = core_a(YY)
    core.step(0, [submitted("1", 4, mates=GROUP)])
    core.step(GROUP.terms.patience_us, [Woken()])  # no answer has come
    text = why_waiting(core.state, core.policies, "1", 90 * SECOND)
    assert text == "it gave up its turn (1 time so far) because its mates are not ready: b:2 is not submitted yet"


@pytest.mark.parametrize(
    ("group", "why"),
    [
        (make_group("g", [Member("b", "1"), Member("c", "2")], Terms()), "no member in domain a"),
        (make_group("g", [Member("a", "7"), Member("c", "2")], Terms()), "names job 7 in domain a"),
    ],
)
def test_mates_that_cannot_be_are_refused(group: Any, why: str) -> None:
    commands = core_a().step(0, [submitted("1", 4, mates=group)])
    assert len(commands) == 1
    assert isinstance(commands[0], CancelJob)
    assert why in commands[0].reason


def test_mates_on_a_cluster_of_its_own_are_refused() -> None:
    commands = SchedulerCore(uniform_cluster(4), policies()).step(0, [submitted("1", 4, mates=GROUP)])
    assert isinstance(commands[0], CancelJob)
    assert "not coupled" in commands[0].reason


def test_an_array_has_no_mates() -> None:
    commands = core_a().step(0, [submitted("1", 1, mates=GROUP, array_count=3)])
    assert all(isinstance(one, CancelJob) for one in commands)
    assert job("1").mates is None
