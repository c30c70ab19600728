"""A bounded share of pairs is made to learn: the ones that teach most, within the bound, said in `why`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cohabit.app.scenario.policies import build, without_effect
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core.core import SchedulerCore
from cohabit.model.cluster import Cluster
from cohabit.model.errors import InputError
from cohabit.model.event import JobFinished
from cohabit.model.profile import Tenant
from cohabit.policy.degradation import PredictedPairs
from cohabit.policy.options import PlacementOptions
from cohabit.policy.placement.exploring import most_instructive
from cohabit.policy.placement.pair import Pair
from cohabit.predict.degradation import DegradationModel
from cohabit.predict.pooling import Effect
from tests.core.shared_story import Story
from tests.core.test_co_runs import KNOWN, NODE, model
from tests.support.builders import submitted

SURE = Effect(-0.02, 0.001, -0.02, 0.001, 9, 9)  # a and b are known well, and go well together; c is not


def started(explore: float, threshold_pct: float = 100.0, known: str = "ab", pairing: str = "greedy") -> Story:
    plain = model()
    assert plain.pooled is not None
    pooled = replace(plain.pooled, effects=dict.fromkeys(known, SURE))
    placer = Pair(
        PlacementOptions(
            pairing=pairing,
            degradations=PredictedPairs(replace(plain, pooled=pooled), "m"),
            threshold_pct=threshold_pct,
            explore=explore,
        )
    )
    policies = replace(build(PolicyConfig(name="pair-greedy")), placer=placer)
    return Story(SchedulerCore(Cluster((NODE,), "shared", oversubscribe=True), policies, profiles=KNOWN))


def day(tell: Story, rounds: int) -> list[str]:
    """A job of each of three programs comes every round; which programs ran together, in order."""
    pairs = []
    for number in range(rounds):
        at = 1000 * number
        names = [f"{program}{number}" for program in "abc"]
        begun = tell.starts(at, *(submitted(name, program=name[0], processes=8) for name in names))
        step = 0
        while begun:
            pairs.append("".join(sorted(name[0] for name in begun)))
            step += 1
            ends = [JobFinished(name, 1) for name in begun]
            begun = tell.starts(at + 110 * step, *ends)
    return pairs


def account(tell: Story) -> dict[str, Any]:
    return dict(tell.core.state.memory["exploring"])


def test_at_most_the_share_of_the_pairs_is_made_to_learn() -> None:
    never = day(started(0.0), 12)
    assert set(never) == {"ab", "c"}, "what goes well as far as it is known"
    tell = started(0.25)
    made = day(tell, 12)
    tell.starts(99_000, submitted("last", program="a", processes=8))
    found = account(tell)
    assert 1 <= found["explored"] <= 0.25 * found["pairs"]
    assert set(made) > {"ab", "c"}
    assert sum(pair in ("ac", "bc") for pair in made) == found["explored"]


def test_a_pair_beyond_the_bound_is_never_made_to_learn() -> None:
    tell = started(0.5, threshold_pct=20.0)
    assert set(day(tell, 12)) == {"ab", "c"}, "the upper end of every pair with c is beyond 20 %"
    tell.starts(99_000, submitted("last", program="a", processes=8))
    assert account(tell)["explored"] == 0


def test_why_says_that_a_pair_is_made_to_learn() -> None:
    tell = started(0.5, known="abc")
    assert tell.starts(0, submitted("x1", program="a", processes=8), submitted("x2", program="b", processes=8))
    tell.core.state.memory["exploring"] = {"pairs": 20, "explored": 3, "now": []}
    names = [f"{program}9" for program in "abcd"]
    assert not tell.starts(1, *(submitted(name, program=name[0], processes=8) for name in names))
    reasons = {name: tell.why(name, 2) for name in names}
    trial = [name for name, said in reasons.items() if "it is made to learn how they go together" in said]
    assert len(trial) == 2
    assert "d9" in trial, "nothing is known of d"
    assert "policy.explore = 0.5, 3 of 21 pairs so far" in reasons[trial[0]]
    assert "at most 100 % slower by the upper ends of both intervals" in reasons[trial[0]]


def test_the_pair_that_teaches_most_keeps_the_bound_in_both_directions() -> None:
    gain = np.array([[9.0, 1.0, 5.0], [1.0, 9.0, 2.0], [5.0, 2.0, 9.0]])
    high = np.full((3, 3), 50.0)
    assert most_instructive(gain, high, 100.0) == (0, 2)
    high[2, 0] = 101.0
    assert most_instructive(gain, high, 100.0) == (1, 2)
    assert most_instructive(np.zeros((3, 3)), high, 100.0) is None
    assert most_instructive(gain, high, 10.0) is None
    assert most_instructive(np.zeros((0, 0)), np.zeros((0, 0)), 10.0) is None


def test_a_pair_known_better_than_runs_vary_teaches_nothing() -> None:
    plain = model()
    assert isinstance(plain, DegradationModel)
    assert plain.pooled is not None
    sure = Effect(0.0, 0.0005, 0.0, 0.0005, 20, 20)
    pairs = PredictedPairs(replace(plain, pooled=replace(plain.pooled, effects={"a": sure, "b": sure})), "m")
    jobs = [Tenant(one.program, 8, 1, 0, 0.0, 1.0, one) for one in KNOWN[:3]]
    gain, high = pairs.teaching(jobs, NODE)
    assert gain[0, 1] == 0.0
    assert gain[0, 2] > 0.0
    assert high[0, 1] < high[0, 2]


def test_bad_shares_are_refused_and_idle_ones_said() -> None:
    for wrong in (-0.1, 0.6, float("nan")):
        with pytest.raises(InputError, match="is not between 0 and"):
            build(PolicyConfig(name="pair-greedy", explore=wrong))
    config = PolicyConfig(name="pair-greedy", explore=0.2)
    said = without_effect(config, build(config).names)
    assert said == ["policy.explore has no effect without a model that learns (policy.model)"]
    config = PolicyConfig(name="fifo-shared", explore=0.2)
    assert without_effect(config, build(config).names) == ["policy.explore has no effect with pairing 'consecutive'"]
    config = PolicyConfig(name="ce", explore=0.2)
    assert without_effect(config, build(config).names) == ["policy.explore has no effect with placement 'exclusive'"]
