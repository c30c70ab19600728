"""Windows announced, moved and lifted at any time: no start runs into one, and nothing else changes.

The rehearsal keeps its own account of windows (support/rehearsal.py): it checks every start against it.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cohabit.core.checkpoint import load, save
from cohabit.model.cluster import Cluster
from tests.breadth import examples
from tests.support.builders import Choice, policies
from tests.support.clusters import CLUSTERS, SHARED_CLUSTERS
from tests.support.rehearsal import Deed, Rehearsal
from tests.support.strategies import choices, deeds, shared_choices

quiet = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
OFTEN = ("close", "close", "open", "submit", "array", "finish", "wake", "drain", "up", "down")
SHARED_OFTEN = (*OFTEN, "learn", "progress", "shares")
NO_CONSERVATIVE = ("none", "easy", "2", "8", "first-fit")
clusters = st.sampled_from(list(CLUSTERS.values()))
shared_clusters = st.sampled_from(list(SHARED_CLUSTERS.values()))


@settings(quiet, max_examples=examples(60))
@given(clusters, choices(), deeds(30, OFTEN), st.booleans())
def test_no_start_runs_into_a_window(cluster: Cluster, choice: Choice, played: list[Deed], readable: bool) -> None:
    rehearsal = Rehearsal(cluster, choice, readable=readable, probe=True)
    rehearsal.play(played)
    rehearsal.finish_everything()


@settings(quiet, max_examples=examples(60))
@given(shared_clusters, shared_choices(), deeds(30, SHARED_OFTEN))
def test_no_start_on_shared_nodes_runs_into_a_window(cluster: Cluster, choice: Choice, played: list[Deed]) -> None:
    rehearsal = Rehearsal(cluster, choice, probe=True)
    rehearsal.play(played)
    rehearsal.finish_everything()


@settings(quiet, max_examples=examples(60))
@given(clusters, choices(backfills=NO_CONSERVATIVE), deeds(30, OFTEN))
def test_the_compiled_core_hands_over_and_comes_back(cluster: Cluster, choice: Choice, played: list[Deed]) -> None:
    rehearsal = Rehearsal(cluster, choice, twin=True)
    rehearsal.play(played)
    rehearsal.finish_everything()
    assert not rehearsal.core.state.windows, "windows of the past are dropped"
    assert rehearsal.core.compiled or cluster.windows or len(cluster.groups) > 1


@pytest.mark.parametrize("shared", [False, True], ids=["whole", "shared"])
@settings(quiet, max_examples=examples(40))
@given(data=st.data())
def test_a_checkpoint_in_the_middle_changes_nothing(shared: bool, data: st.DataObject) -> None:
    cluster = data.draw(shared_clusters if shared else clusters)
    choice = data.draw(shared_choices() if shared else choices())
    kinds = SHARED_OFTEN if shared else OFTEN
    first, then = data.draw(deeds(20, kinds)), data.draw(deeds(20, kinds))
    straight, stopped = Rehearsal(cluster, choice), Rehearsal(cluster, choice)
    for rehearsal in (straight, stopped):
        rehearsal.play(first)
    saved = save(stopped.core)
    stopped.core = load(saved, cluster, policies(*choice))
    assert save(stopped.core) == saved
    for rehearsal in (straight, stopped):
        rehearsal.play(then)
        rehearsal.finish_everything()
    assert straight.log == stopped.log
