"""What every registered order and placement must keep, under every backfill it goes with.

A new policy is covered by its registration alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from cohabit.core.core import SchedulerCore
from cohabit.core.decide import decide
from cohabit.core.explain import why_waiting
from cohabit.core.ledger import Ledger
from cohabit.core.trust import Trust
from cohabit.model.cluster import Cluster
from cohabit.model.command import Command, StartJob
from cohabit.model.errors import InputError
from cohabit.model.event import Event, WindowSet
from cohabit.policy.registry import BACKFILLS, BUNDLES, ORDERS, PLACEMENTS, OrderEntry
from tests.support.builders import Choice, policies
from tests.support.clusters import CLUSTERS, EVERYTHING, PLAIN, SHARED, SHARED_CLUSTERS, SHARED_MIXED
from tests.support.randomised import random_deeds
from tests.support.rehearsal import KINDS, SHARED_KINDS, Deed, Rehearsal, core_of, retold

DEPTHS = [name for name in BACKFILLS if name != "<depth>"] + ["3"]
SHARING = Choice("age", "first-fit", None, "share")
Story = list[tuple[int, list[Event], list[Command]]]


def all_choices() -> Iterator[Any]:
    for order in ORDERS:
        for backfill in DEPTHS:
            yield pytest.param(Choice(order, backfill), id=f"{order}-{backfill}")
        yield pytest.param(Choice("fcfs", "easy", order), id=f"fcfs-easy-by-{order}")
    for placement in PLACEMENTS:
        for backfill in DEPTHS:
            choice = Choice("age", backfill, None, placement)
            if goes_together(choice) and placement != "exclusive":
                yield pytest.param(choice, id=f"{placement}-{backfill}")
        yield pytest.param(Choice("age", "first-fit", None, placement, 5.0), id=f"{placement}-age-limit")
        for partition in PLACEMENTS[placement].partitions[1:]:
            choice = Choice("age", "first-fit", None, placement, 5.0, partition=partition)
            yield pytest.param(choice, id=f"{placement}-{partition}")
    yield pytest.param(Choice("age", "first-fit", None, "shepherd", 0.0, 2), id="shepherd-moves")


def goes_together(choice: Choice) -> bool:
    try:
        policies(*choice)
    except InputError:
        return False
    return True


every_policy = pytest.mark.parametrize("choice", list(all_choices()))
every_machine = pytest.mark.parametrize(
    "cluster", [pytest.param(PLAIN, id="plain"), pytest.param(EVERYTHING, id="everything", marks=pytest.mark.slow)]
)


def machine_for(choice: Choice, cluster: Cluster) -> Cluster:
    """The plain or the richest machine, with nodes to share where they are shared."""
    if policies(*choice).placer.exclusive:
        return cluster
    return {PLAIN: SHARED, EVERYTHING: SHARED_MIXED}.get(cluster, cluster)


def lived(choice: Choice, cluster: Cluster, seed: int = 91, deeds: int = 50) -> Rehearsal:
    """A scheduler in the middle of a busy life; every step was checked by invariants and by the rehearsal."""
    rng, rehearsal = np.random.default_rng(seed), Rehearsal(machine_for(choice, cluster), choice)
    rehearsal.play([Deed("submit", int(salt)) for salt in rng.integers(0, 2**40, 12)])
    shared = rehearsal.tenancy is not None
    rehearsal.play(random_deeds(rng, 2 * deeds if shared else deeds, SHARED_KINDS if shared else KINDS))
    return rehearsal


@cache
def told(choice: Choice, cluster: Cluster) -> Rehearsal:
    """The same, once per policy, for tests that only read it."""
    return lived(choice, cluster)


def picture(core: SchedulerCore) -> dict[str, Any]:
    """All of the state that a decision could depend on."""
    constant_or_kept_to_save_time = ("cluster", "kinds", "usable_kinds", "nodes_by_kind", "described", "kept")
    return {
        name: copy.deepcopy(vars(value) if isinstance(value, Ledger | Trust) else value)
        for name, value in vars(core.state).items()
        if name not in constant_or_kept_to_save_time
    }


def same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    if isinstance(left, tuple | list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    return bool(left == right)


@every_machine
@every_policy
def test_the_same_facts_give_the_same_commands_and_never_too_many_nodes(choice: Choice, cluster: Cluster) -> None:
    rehearsal = lived(choice, cluster)
    assert retold(core_of(rehearsal.cluster, choice), rehearsal.log) == [entry[2] for entry in rehearsal.log]
    rehearsal.finish_everything()


@every_machine
@pytest.mark.parametrize("choice", [Choice(), SHARING, SHARING._replace(placement="spread")])
def test_the_stories_are_worth_telling(choice: Choice, cluster: Cluster) -> None:
    """Jobs run and wait in them, windows come: otherwise the contracts below would hold for anything."""
    rehearsal = lived(choice, cluster)
    assert any(isinstance(event, WindowSet) for entry in rehearsal.log for event in entry[1])
    commands = [command for entry in rehearsal.log for command in entry[2]]
    assert sum(isinstance(command, StartJob) for command in commands) >= 8
    assert len(rehearsal.core.view(rehearsal.now_us).queued()) >= 2
    assert rehearsal.runs


@every_machine
@every_policy
def test_reading_leaves_the_state_alone(choice: Choice, cluster: Cluster) -> None:
    rehearsal = told(choice, cluster)
    core, now_us = rehearsal.core, rehearsal.now_us
    before = picture(core)
    view = core.view(now_us)
    for order in filter(None, (core.policies.order, core.policies.backfill_order)):
        view.ranked(view.queued(), order)
        order.scores(view.columns(), view.queued(), now_us)
    decide(view, core.policies)
    view.timeline()
    for name in core.state.rows:
        why_waiting(core.state, core.policies, name, now_us)
    after = picture(core)
    assert [name for name in before if not same(before[name], after[name])] == []


@every_policy
def test_policies_cannot_write(choice: Choice) -> None:
    view = told(choice, PLAIN).core.view(0)
    arrays = [view.jobs, view.gauges, view.node_state, *view.columns()]
    assert [array.flags.writeable for array in arrays] == [False] * len(arrays)
    with pytest.raises(ValueError):
        view.columns().limit_us[:] = 0
    if not policies(*choice).placer.exclusive:
        with pytest.raises((TypeError, ValueError, AttributeError)):
            view.ledger.set_condition(0, 1)
        with pytest.raises(ValueError):
            view.ledger.free[:] = 0


@every_machine
@every_policy
def test_a_checkpoint_goes_on_with_the_same_commands(choice: Choice, cluster: Cluster) -> None:
    from cohabit.core import checkpoint

    cluster = machine_for(choice, cluster)
    chosen, story = policies(*choice), told(choice, cluster).log
    core, cut = core_of(cluster, choice), len(story) // 2
    retold(core, story[:cut])
    data = checkpoint.save(core)
    assert checkpoint.save(core) == data, "saving changed something"
    copied = checkpoint.load(data, cluster, chosen)
    assert checkpoint.save(copied) == data
    assert retold(copied, story[cut:]) == [entry[2] for entry in story[cut:]]
    assert checkpoint.save(core) == data, "the copy shares memory with the original"


@pytest.mark.parametrize("name", [*CLUSTERS, *SHARED_CLUSTERS])
def test_a_checkpoint_of_any_machine(name: str) -> None:
    """After every single step, readable or compiled."""
    from cohabit.core import checkpoint

    cluster, choice = (CLUSTERS | SHARED_CLUSTERS)[name], Choice("sjf", "conservative")
    if name in SHARED_CLUSTERS:
        choice = Choice("wfp", "first-fit", None, "spread", 5.0)
    chosen = policies(*choice)
    rehearsal = lived(choice, cluster, seed=11)
    core = core_of(cluster, choice)
    for entry in rehearsal.log:
        core = checkpoint.load(checkpoint.save(core), cluster, chosen)
        assert retold(core, [entry]) == [entry[2]]


@pytest.mark.parametrize("order", ["sjf", "wfp"])
@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_a_checkpoint_of_version_6_goes_on(order: str, backfill: str) -> None:
    """Its ladders had five summaries, or seven."""
    from cohabit.core import checkpoint

    choice = Choice(order, backfill)
    chosen, rehearsal, core = policies(*choice), lived(choice, PLAIN, seed=11), core_of(PLAIN, choice)
    for count, entry in enumerate(rehearsal.log):
        saved = msgspec.msgpack.decode(checkpoint.save(core))
        for name in ("queue", "second", "running"):
            kind, (_, rungs), rows = saved[name][1]
            kept = 5 if count % 2 else 7
            saved[name][1] = [kind, [kept, rungs], rows[:kept]]
        core = checkpoint.load(msgspec.msgpack.encode(saved | {"version": 6}), PLAIN, chosen)
        assert retold(core, [entry]) == [entry[2]]


@pytest.mark.parametrize("name", BUNDLES)
def test_every_bundle_can_be_built_and_described(name: str) -> None:
    from cohabit.app.scenario.policies import build, title
    from cohabit.app.scenario.tables import PolicyConfig

    built = build(PolicyConfig(name=name))
    assert title(built.names)
    assert BUNDLES[name][1].summary


@pytest.mark.parametrize("name", PLACEMENTS)
def test_every_placement_is_described_and_built_by_its_name(name: str) -> None:
    """A name in the registry that stands for another placement would be covered by tests of that one only."""
    assert PLACEMENTS[name].summary
    assert PLACEMENTS[name].source
    assert type(policies("age", "first-fit", None, name).placer).__name__.lower() == name


@pytest.mark.parametrize("name", ORDERS)
def test_every_order_says_what_it_is_and_where_it_comes_from(name: str) -> None:
    assert ORDERS[name].summary
    assert ORDERS[name].source


@pytest.fixture
def widest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An order that exists only by a file and a line in the registry."""
    path = tmp_path / "widest_order.py"
    path.write_text('"""Widest first."""\n\n\ndef scores(jobs, rows, now_us):\n    return -jobs.nodes[rows]\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(ORDERS, "widest", OrderEntry("widest_order", "scores", False, "widest first", "this test"))
    yield "widest"
    policies.cache_clear()


def test_a_new_policy_is_covered_by_its_registration(widest_first: str) -> None:
    found = [param.values[0] for param in all_choices() if widest_first in param.values[0]]
    assert [choice.backfill for choice in found] == [*DEPTHS, "easy"]
    tests: list[Callable[[Choice, Cluster], None]] = [
        test_the_same_facts_give_the_same_commands_and_never_too_many_nodes, test_reading_leaves_the_state_alone,
        test_a_checkpoint_goes_on_with_the_same_commands,
    ]  # fmt: skip
    for test in tests:
        test(found[0], PLAIN)
    test_policies_cannot_write(found[0])


def test_the_suite_would_notice_a_policy_with_a_mind_of_its_own(
    widest_first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An order that answers differently each time breaks the first contract."""
    (tmp_path / "moody_order.py").write_text(
        "import itertools\n\nimport numpy as np\n\ncount = itertools.count()\n\n\n"
        "def scores(jobs, rows, now_us):\n    return np.array([(next(count) * 7919) % 101 for _ in rows]) * 1.0\n"
    )
    monkeypatch.setitem(ORDERS, "moody", OrderEntry("moody_order", "scores", True, "moody", "this test"))
    with pytest.raises(AssertionError):
        test_the_same_facts_give_the_same_commands_and_never_too_many_nodes(Choice("moody", "easy"), PLAIN)
