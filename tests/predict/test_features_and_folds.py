"""What is learned from and what is asked about: no application on both sides, nothing fitted on those asked about."""

from __future__ import annotations

import numpy as np
import pytest

from cohabit.model.errors import InputError
from cohabit.model.features import counter_of
from cohabit.predict import folds
from cohabit.predict.features import FAMILY, CoRuns, family_of, fit_scaling, profiles_of
from tests.predict.made_data import made_coruns


def names_of(data: CoRuns, rows: np.ndarray) -> set[str]:
    return set(data.only(rows).applications)


def test_folds_by_application_share_no_application() -> None:
    data = made_coruns(12, 1)
    found = folds.by_application(data, 3)
    assert found.unseen == folds.BOTH
    for fold in found:
        assert not names_of(data, fold.learn) & names_of(data, fold.ask)
        assert fold.ask.sum() == len(names_of(data, fold.ask)) ** 2
    asked = sum(int(fold.ask.sum()) for fold in found)
    assert asked >= len(data.applications)


def test_folds_by_pair_know_every_application_and_ask_each_pair_once() -> None:
    data = made_coruns(12, 1)
    asked = np.sum([fold.ask for fold in folds.by_pair(data, 3)], axis=0)
    assert (asked == 1).all()
    assert any(names_of(data, fold.learn) & names_of(data, fold.ask) for fold in folds.by_pair(data, 3))


def test_one_neighbour_for_all_means_leaving_one_application_out() -> None:
    data = made_coruns(8, 1)
    first, second = data.within({"app00"})
    beside_one = data.only(second & ~first)
    found = folds.by_application(beside_one, 0)
    assert found.unseen == folds.FIRST
    assert [int(fold.ask.sum()) for fold in found] == [1] * 7


def test_folds_depend_on_the_seed_alone() -> None:
    data = made_coruns(10, 1)
    asked = [tuple(fold.ask.tobytes() for fold in folds.by_application(data, seed)) for seed in (1, 1, 2)]
    assert asked[0] == asked[1] != asked[2]


def test_too_few_applications_are_refused() -> None:
    with pytest.raises(InputError, match="3 applications"):
        folds.by_application(made_coruns(3, 1), 0)


def test_scaling_leaves_out_constants_and_copies() -> None:
    rng = np.random.default_rng(0)
    one = rng.lognormal(3, 2, 30)
    rows = np.stack([one, np.full(30, 7.0), one * 5, rng.normal(0, 1, 30)], axis=1)
    scaling = fit_scaling(rows)
    assert scaling.chosen.tolist() == [0, 3]
    scaled = scaling.apply(rows)
    assert scaled.mean(axis=0) == pytest.approx([0, 0], abs=1e-9)
    assert scaled.std(axis=0) == pytest.approx([1, 1])


def test_profiles_join_what_rows_say_of_an_application() -> None:
    data = made_coruns(5, 2)
    found = profiles_of(data)
    assert found.names == data.applications
    row = data.app.index("app03")
    assert (found.primary[3] == data.primary[row]).all()
    assert (found.beside[3] == data.beside[data.other.index("app03")]).all()


def test_the_paper_has_39_counters_and_columns_know_theirs() -> None:
    assert len(FAMILY) == 39
    assert counter_of("l2_rqsts_pf_hit_std") == "l2_rqsts_pf_hit"
    assert counter_of("page_faults_max") == "page_faults"
    assert counter_of("l1d_eviction") == "l1d_eviction"
    assert [family_of(name) for name in ("l1d_eviction", "app_time_s", "pressure")] == ["cache", "time", "further"]
