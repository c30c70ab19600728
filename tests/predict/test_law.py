"""The law of shared resources, partial pooling, intervals: on programs whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cohabit.app.scenario.policies import _degradations
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.model.errors import InputError
from cohabit.policy.degradation import PredictedPairs
from cohabit.predict import scores, training
from cohabit.predict.baselines import ADDITIVE, MEAN, SINGLE
from cohabit.predict.degradation import DegradationModel
from cohabit.predict.estimators import LAW
from cohabit.predict.features import CoRuns
from cohabit.predict.flat_law import FlatLaw
from cohabit.predict.model_file import load_model, save_model
from cohabit.predict.physics import is_demand
from cohabit.predict.pooled_training import NewPrograms, judge_new_programs, pooled
from cohabit.predict.pooling import CoRun, Effect, Spreads, fit_spreads, posterior
from cohabit.predict.training import Evaluated
from tests.predict.made_data import made_coruns

SPREADS = Spreads(0.04, 0.01, 0.01)


@pytest.fixture(scope="module")
def data() -> CoRuns:
    return made_coruns(14, 5)


@pytest.fixture(scope="module")
def judged(data: CoRuns) -> Evaluated:
    return training.evaluate(data, LAW, 0)


@pytest.fixture(scope="module")
def new(data: CoRuns, judged: Evaluated) -> NewPrograms:
    found = judge_new_programs(data, judged, 0)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def model(data: CoRuns, judged: Evaluated) -> DegradationModel:
    return pooled(training.fit(data, LAW, 0).deployed, data, judged.touched, judged.grouped)


def test_it_beats_what_it_must_on_families_never_seen(judged: Evaluated) -> None:
    errors = {name: one["mean_error"] for name, one in scores.baselines(judged.grouped).items()}
    own = scores.model_score(judged.grouped)["mean_error"]
    assert own is not None
    assert set(errors) == {MEAN, ADDITIVE, SINGLE}
    assert all(error is not None and own < 0.7 * error for error in errors.values()), (own, errors)
    assert scores.not_beaten(judged.grouped) == []


def test_a_model_no_better_than_the_mean_is_named(judged: Evaluated) -> None:
    asked = judged.grouped
    assert MEAN in scores.not_beaten(replace(asked, answer=asked.mean))
    assert MEAN in scores.not_beaten(replace(asked, answer=asked.mean + 40.0))
    assert scores.not_beaten(replace(asked, answer=asked.plain[SINGLE])) == [SINGLE]


def test_two_co_runs_of_a_new_program_help_and_beat_the_additive_baseline(new: NewPrograms) -> None:
    before, after = (scores.model_score(one)["mean_error"] for one in (new.before, new.after))
    plain = scores.baselines(new.after)[ADDITIVE]["mean_error"]
    assert before is not None and after is not None and plain is not None  # noqa: PT018
    assert after < before
    assert after < plain * 2 / 3


def test_intervals_hold_about_as_many_pairs_as_they_say(new: NewPrograms) -> None:
    assert 0.7 <= new.covered_before <= 0.95
    assert 0.7 <= new.covered_after <= 0.95


def test_more_of_a_shared_resource_never_slows_less(model: DegradationModel, data: CoRuns) -> None:
    flat = model.flat
    assert isinstance(flat, FlatLaw)
    demands = [at for at, name in enumerate(data.schema.other) if is_demand(name) and name.endswith("mean")]
    assert demands
    usual = flat.rows(data.primary, data.beside)
    for column in demands:
        more = data.beside.copy()
        more[:, column] *= 1.7
        assert (flat.rows(data.primary, more) >= usual - 1e-9).all(), data.schema.other[column]


def test_answers_are_bounded_and_say_when_they_are_out_of_range(model: DegradationModel, data: CoRuns) -> None:
    names, pairs = data.app, data.neighbours
    usual = model.judge(data.primary, data.beside, ["new"] * len(data), [("newer",)] * len(data))
    wild = model.judge(data.primary * 1e6, data.beside * 1e6, ["new"] * len(data), [("newer",)] * len(data))
    most = data.truth.max()
    for one in (usual, wild, model.judge(data.primary, data.beside, names, pairs)):
        assert all(((part >= 0) & (part <= most)).all() for part in one)
        assert (one.low <= one.median).all()
        assert (one.median <= one.expected).all()
        assert (one.median <= one.high).all()
    assert not model.outside(data.primary, data.beside).any()
    assert model.outside(data.primary * 1e6, data.beside).all()
    assert model.outside(data.primary, data.beside * 1e6).all()
    linear = training.fit(data, "elastic-net", 0, {"alpha": 0.1, "l1_ratio": 0.5}).deployed
    assert (linear.estimate(data.primary * 1e6, data.beside) > most).any(), "what the line itself would say"
    bounded = replace(linear, pooled=model.pooled)
    assert (bounded.estimate(data.primary * 1e6, data.beside) <= most).all()


def test_a_program_with_co_runs_is_known_better_than_a_new_one(model: DegradationModel, data: CoRuns) -> None:
    row = slice(0, 1)
    tables = data.primary[row], data.beside[row]
    known, strange = model.judge(*tables, data.app[row], data.neighbours[row]), model.judge(*tables, ["x"], [("y",)])
    assert known.high - known.low < strange.high - strange.low


def test_effects_move_from_the_prior_to_the_program_s_own() -> None:
    """What is known of a program lies between nothing and its co-runs, nearer to them the more there are."""
    runs = [CoRun("a", ("b",), 0.5)] * 8
    after = [posterior(SPREADS, {}, runs[:count])["a"] for count in (1, 2, 8)]
    assert 0 < after[0].sensitivity < after[1].sensitivity < after[2].sensitivity < 0.5
    variances = [one.sensitivity_variance for one in after]
    assert SPREADS.sensitivity > variances[0] > variances[1] > variances[2]
    assert (after[2].slowed, after[2].beside) == (8, 0)


def test_co_runs_one_by_one_or_with_gaps_and_groups() -> None:
    rng = np.random.default_rng(1)
    names = [f"p{number}" for number in range(12)]
    own, theirs = dict(zip(names, rng.normal(0, 0.2, 12))), dict(zip(names, rng.normal(0, 0.1, 12)))  # noqa: B905
    runs = []
    for _ in range(150):
        app, *group = rng.choice(names, int(rng.integers(2, 5)), replace=False).tolist()
        runs.append(CoRun(app, tuple(group), own[app] + sum(theirs[one] for one in group) + rng.normal(0, 0.05)))
    spreads = fit_spreads(runs)
    assert spreads.sensitivity == pytest.approx(0.04, rel=0.8)
    assert spreads.intensity == pytest.approx(0.01, rel=0.8)
    assert spreads.noise == pytest.approx(0.0025, rel=0.5)
    found = posterior(spreads, {}, runs)
    assert np.corrcoef([own[name] for name in names], [found[name].sensitivity for name in names])[0, 1] > 0.95
    assert np.corrcoef([theirs[name] for name in names], [found[name].intensity for name in names])[0, 1] > 0.8
    assert posterior(spreads, {}, []) == {}
    lone: dict[str, Effect] = {}
    for run in runs:
        lone = posterior(spreads, lone, [run])
    assert lone["p0"].sensitivity == pytest.approx(found["p0"].sensitivity, abs=0.05)


def saved(folder: Path, data: CoRuns, model: DegradationModel, not_beaten: list[str]) -> Path:
    trained = training.fit(data, LAW, 0)
    save_model(folder / "model", replace(trained, deployed=model), {"not_beaten": not_beaten}, {})
    return folder / "model"


def test_a_file_keeps_intervals_and_effects(tmp_path: Path, model: DegradationModel, data: CoRuns) -> None:
    again = load_model(saved(tmp_path, data, model, [])).model
    own, stored = (one.judge(data.primary, data.beside, data.app, data.neighbours) for one in (model, again))
    assert all((a == b).all() for a, b in zip(own, stored, strict=True))
    assert again.outside(data.primary * 1e6, data.beside).all()


def test_a_model_that_beats_nothing_is_refused_unless_trusted(
    tmp_path: Path, model: DegradationModel, data: CoRuns
) -> None:
    path = saved(tmp_path, data, model, [MEAN])
    with pytest.raises(InputError, match=r"no better on families it has not seen than mean.*trust_model = true"):
        _degradations(PolicyConfig(model=str(path)))
    assert isinstance(_degradations(PolicyConfig(model=str(path), trust_model=True)), PredictedPairs)
    assert isinstance(_degradations(PolicyConfig(model=str(saved(tmp_path, data, model, [])))), PredictedPairs)


def test_where_a_bound_must_be_kept_the_upper_end_counts(model: DegradationModel) -> None:
    usual = PredictedPairs(model, "m")
    assert usual.keeping_bounds().cautious
    assert not usual.cautious
