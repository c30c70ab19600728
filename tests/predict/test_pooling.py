"""The prior of new programs: counters or the mean, whichever told more of families left out; what co-runs may move."""

from __future__ import annotations

import numpy as np
import pytest

from cohabit.predict.pooling import (
    MANY,
    CoRun,
    Held,
    Left,
    Pooled,
    Spreads,
    fit_pooled,
    grown,
    load_pooled,
    posterior,
    scaled,
)

SPREADS = Spreads(0.04, 0.01, 0.01)
NAMES = tuple("abcdefgh")
RNG = np.random.default_rng(0)
SENSITIVITY, INTENSITY = RNG.uniform(5, 60, 8), RNG.uniform(0.5, 1.5, 8)
TRUTH = SENSITIVITY[:, None] * INTENSITY


def pairs(answer: np.ndarray, rows: list[tuple[int, int]]) -> Left:
    """These pairs with the answers that counters gave."""
    at = tuple(np.array(rows).T)
    return Left(answer[at], TRUTH[at], [NAMES[one] for one, _ in rows], [(NAMES[other],) for _, other in rows])


def fitted(answer: np.ndarray) -> Pooled:
    """Every two programs were left out together once."""
    every = [(one, two) for one in range(8) for two in range(8) if one != two]
    held = []
    for new in ((0, 1), (2, 3), (4, 5), (6, 7)):
        about = [pair for pair in every if set(pair) & set(new)]
        told = [(one, two) for one, two in about if {one, two} & {(new[0] + 3) % 8, (new[0] + 5) % 8}]
        rest, inside = [pair for pair in about if pair not in told], [pair for pair in about if set(pair) == set(new)]
        held.append(Held(frozenset(NAMES[one] for one in new), *(pairs(answer, one) for one in (told, rest, inside))))
    return fit_pooled(pairs(answer, every), pairs(answer, every), held)


def test_counters_that_tell_the_truth_are_believed_and_noise_is_not() -> None:
    assert fitted(TRUTH + RNG.normal(0, 0.5, TRUTH.shape)).weight == 1.0
    strange = fitted(RNG.uniform(0, 300, TRUTH.shape))
    assert strange.weight == 0.0
    assert strange.mean == pytest.approx(TRUTH[~np.eye(8, dtype=bool)].mean())
    found = strange.judged(np.array([250.0, 3.0]), ["x", "x"], [("y",), ("y", "z")], np.zeros(2, bool))
    assert found.median[0] == pytest.approx(strange.mean), "of a new program only the mean is known"
    assert found.median[1] == pytest.approx(2 * strange.mean), "for each neighbour"


def test_without_families_left_out_together_the_counters_stand() -> None:
    every = [(one, two) for one in range(8) for two in range(8) if one != two]
    noise = pairs(RNG.uniform(0, 300, TRUTH.shape), every)
    assert fit_pooled(noise, noise).weight == 1.0


def test_a_co_run_beyond_all_that_was_seen_raises_the_ceiling() -> None:
    plain = Pooled(25.0, 180.0, Spreads(0.5, 0.2, 0.01), 1.3, {})
    assert plain.judged(np.array([900.0]), ["x"], [("a",)], np.zeros(1, bool)).median[0] == 180.0
    names = [("a",), ("b",)]
    after = plain.taught(np.array([60.0, 60.0]), ["x", "x"], names, np.array([1100.0, 1000.0]))
    assert after.ceiling == 1100.0
    told = after.judged(np.array([60.0]), ["x"], [("c",)], np.zeros(1, bool))
    assert 300.0 < told.median[0] <= 1100.0
    assert plain.taught(np.array([60.0]), ["x"], [("a",)], np.array([50.0])).ceiling == 180.0


def test_new_programs_that_differ_by_more_are_believed_more() -> None:
    strange = [CoRun(name, ("a",), excess) for name, excess in (("x", 2.0), ("y", -1.5), ("z", 1.8))]
    wide = grown(SPREADS, 5, {}, strange)
    assert wide.sensitivity > 4 * SPREADS.sensitivity
    assert wide.noise == SPREADS.noise
    assert posterior(wide, {}, strange)["x"].sensitivity > posterior(SPREADS, {}, strange)["x"].sensitivity
    assert grown(SPREADS, MANY, {}, strange).sensitivity == pytest.approx(SPREADS.sensitivity, rel=1e-3)
    known = posterior(SPREADS, {}, strange)
    assert grown(SPREADS, 5, known, strange) == SPREADS, "these programs are in the spreads already"
    usual = [CoRun(name, ("a",), 0.0) for name in "xyz"]
    assert grown(SPREADS, 5, {}, usual).sensitivity < SPREADS.sensitivity


def test_a_file_keeps_the_prior_and_an_earlier_one_has_none() -> None:
    one = Pooled(25.0, 180.0, SPREADS, 1.3, posterior(SPREADS, {}, [CoRun("x", ("y",), 0.4)]), 0.25, 31.0, 9)
    arrays = one.arrays()
    assert load_pooled(arrays, list(one.effects)) == one
    earlier = load_pooled(arrays | {"pooled": arrays["pooled"][:6]}, list(one.effects))
    assert (earlier.weight, earlier.programs) == (1.0, MANY)
    same = earlier.judged(np.array([20.0]), ["n"], [("m",)], np.zeros(1, bool))
    assert scaled(same.median, 25.0) == pytest.approx(scaled(np.array([20.0]), 25.0))
    wrong = arrays["pooled"].copy()
    wrong[6] = 1.5
    with pytest.raises(ValueError, match="do not fit"):
        load_pooled(arrays | {"pooled": wrong}, list(one.effects))
