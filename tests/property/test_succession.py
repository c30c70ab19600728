"""A core that goes on under other policies loses no job and books no node twice; under the same it decides alike."""

from __future__ import annotations

import copy

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cohabit.model import event as fact
from cohabit.model.cluster import Cluster
from cohabit.model.command import StartJob
from tests.breadth import examples
from tests.support.builders import Choice
from tests.support.clusters import CLUSTERS, SHARED_CLUSTERS
from tests.support.rehearsal import SHARED_KINDS, Deed, Rehearsal
from tests.support.strategies import choices, deeds, shared_choices

quiet = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
BY_COUNT_OF_NOW = ("none", "easy", "first-fit")  # promise nothing that outlives a pass


def goes_on(cluster: Cluster, first: Choice, second: Choice, before: list[Deed], after: list[Deed]) -> Rehearsal:
    rehearsal = Rehearsal(cluster, first)
    rehearsal.play(before)
    rehearsal.succeed(second)
    rehearsal.play(after)
    rehearsal.finish_everything()
    return rehearsal


@settings(quiet, max_examples=examples(40))
@given(st.sampled_from(list(CLUSTERS.values())), choices(), choices(), deeds(25), deeds(15))
def test_whole_nodes_go_on_under_other_policies(
    cluster: Cluster, first: Choice, second: Choice, before: list[Deed], after: list[Deed]
) -> None:
    goes_on(cluster, first, second, before, after)


@settings(quiet, max_examples=examples(60))
@given(st.sampled_from(list(SHARED_CLUSTERS.values())), shared_choices(), shared_choices(), deeds(25, SHARED_KINDS),
       deeds(15, SHARED_KINDS))  # fmt: skip
def test_shared_nodes_go_on_under_other_policies(
    cluster: Cluster, first: Choice, second: Choice, before: list[Deed], after: list[Deed]
) -> None:
    goes_on(cluster, first, second, before, after)


@settings(quiet, max_examples=examples(60))
@given(st.sampled_from(list(SHARED_CLUSTERS.values())), shared_choices(), choices(), deeds(25, SHARED_KINDS), deeds(15))
def test_nodes_that_were_shared_are_given_out_whole_from_now_on(
    cluster: Cluster, first: Choice, second: Choice, before: list[Deed], after: list[Deed]
) -> None:
    goes_on(cluster, first, second, before, after)


@settings(quiet, max_examples=examples(40))
@given(st.sampled_from(list(SHARED_CLUSTERS.values())), choices(), shared_choices(), deeds(25), deeds(15, SHARED_KINDS))
def test_whole_nodes_are_shared_from_now_on(
    cluster: Cluster, first: Choice, second: Choice, before: list[Deed], after: list[Deed]
) -> None:
    goes_on(cluster, first, second, before, after)


@settings(quiet, max_examples=examples(40))
@given(st.sampled_from(list(CLUSTERS.values())), choices(backfills=BY_COUNT_OF_NOW), deeds(25), deeds(15))
def test_under_the_same_policies_it_decides_as_before(
    cluster: Cluster, choice: Choice, before: list[Deed], after: list[Deed]
) -> None:
    one = Rehearsal(cluster, choice)
    one.play(before)
    other = copy.deepcopy(one)
    other.succeed(choice)
    one.core.state.wake_us = 2**62
    one.step([fact.Woken()])
    one.play(after)
    other.play(after)

    def starts(played: Rehearsal) -> list[tuple[int, StartJob]]:
        return [(at, told) for at, _, commands in played.log for told in commands if isinstance(told, StartJob)]

    assert starts(one) == starts(other)
