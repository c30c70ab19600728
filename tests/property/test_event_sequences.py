"""Any sequence of events: invariants after each step, nobody lost, no rule broken, nothing left waiting at the end."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cohabit.model.cluster import Cluster
from tests.breadth import examples
from tests.support.builders import Choice
from tests.support.clusters import CLUSTERS, PLAIN, SHARED_CLUSTERS
from tests.support.rehearsal import KINDS, SHARED_KINDS, Deed, Rehearsal
from tests.support.strategies import choices, deeds, shared_choices

quiet = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
NO_CONSERVATIVE = ("none", "easy", "2", "8", "first-fit")
clusters = st.sampled_from(list(CLUSTERS.values()))


def rehearse(cluster: Cluster, choice: Choice, played: list[Deed], **options: bool) -> Rehearsal:
    rehearsal = Rehearsal(cluster, choice, **options)
    rehearsal.play(played)
    rehearsal.finish_everything()
    return rehearsal


@settings(quiet, max_examples=examples(40))
@given(clusters, choices(), deeds(25), st.booleans())
def test_nothing_is_lost_and_no_rule_is_broken(
    cluster: Cluster, choice: Choice, played: list[Deed], readable: bool
) -> None:
    rehearse(cluster, choice, played, readable=readable, probe=True)


@settings(quiet, max_examples=examples(40))
@given(clusters, choices(backfills=NO_CONSERVATIVE), deeds(25))
def test_the_readable_core_gives_the_same_orders(cluster: Cluster, choice: Choice, played: list[Deed]) -> None:
    rehearse(cluster, choice, played, twin=True)


@settings(quiet, max_examples=examples(30))
@given(choices(backfills=("conservative",)), deeds(25, tuple(k for k in KINDS if k not in ("drain", "refuse"))))
def test_the_readable_core_keeps_the_same_promises(choice: Choice, played: list[Deed]) -> None:
    """Without drained nodes and refusals, for which the compiled form hands over and its promises are made anew."""
    rehearse(PLAIN, choice, played, twin=True)


@settings(quiet, max_examples=examples(20))
@given(clusters, choices(), deeds(20))
def test_the_same_events_give_the_same_commands(cluster: Cluster, choice: Choice, played: list[Deed]) -> None:
    assert rehearse(cluster, choice, played).log == rehearse(cluster, choice, played).log


@settings(quiet, max_examples=examples(60))
@given(st.sampled_from(list(SHARED_CLUSTERS.values())), shared_choices(), deeds(30, SHARED_KINDS))
def test_s81_shared_nodes_are_never_overbooked_and_nobody_is_lost(
    cluster: Cluster, choice: Choice, played: list[Deed]
) -> None:
    """By the plain account of support/tenancy.py: cores, ways, bandwidth, memory, partitions, masks (S80, S81)."""
    rehearse(cluster, choice, played, probe=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED_CLUSTERS)
@settings(quiet, max_examples=examples(100))
@given(choice=shared_choices(), played=deeds(90, SHARED_KINDS))
def test_long_sequences_on_shared_nodes(name: str, choice: Choice, played: list[Deed]) -> None:
    rehearse(SHARED_CLUSTERS[name], choice, played, probe=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", CLUSTERS)
@settings(quiet, max_examples=examples(80))
@given(choice=choices(), played=deeds(90), readable=st.booleans())
def test_long_sequences(name: str, choice: Choice, played: list[Deed], readable: bool) -> None:
    rehearse(CLUSTERS[name], choice, played, readable=readable, twin=choice.backfill != "conservative", probe=True)


@pytest.mark.slow
@settings(quiet, max_examples=examples(80))
@given(choice=choices(), played=deeds(60, ("submit", "array", "follow", "finish", "cancel", "hold", "release", "wait")))
def test_arrays_and_dependencies(choice: Choice, played: list[Deed]) -> None:
    rehearse(PLAIN, choice, played, probe=True)
