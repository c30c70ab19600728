"""Variability: frozen norms, flat form equal to the library's, verdicts with everything or with nothing, no leaks."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohabit.model.errors import InputError
from cohabit.predict import folds as folding
from cohabit.predict import variability_training as training
from cohabit.predict.archive import load_training, sealed
from cohabit.predict.variability_calibration import brier, fit_calibration, identity
from cohabit.predict.variability_data import LITTLE, NONE, VARIATION, Runs, freeze
from cohabit.predict.variability_file import load_variability, save_variability
from cohabit.predict.variability_learners import KINDS, fit_classifier, library_shares
from cohabit.predict.variability_scores import Judged, confusion, f1, mean_f1
from tests.breadth import examples
from tests.predict.made_runs import made_runs, paper_counters

FEW = (
    "sysclassib.a",
    "sysclassib.b",
    "net.b",
    "net.c",
    "lustre2_client.a",
    "lustre2_client.b",
)  # the first and fifth tell


@pytest.fixture(scope="module")
def data() -> Runs:
    return made_runs(4, 40, 3, FEW, noise=0.1)


def test_the_table_of_the_paper_has_282_inputs() -> None:
    runs = made_runs(2, 5, 0)
    assert len(paper_counters()) * 3 == 279
    assert runs.inputs.shape == (10, 282)
    assert runs.input_names[-3:] == ("workload.compute", "workload.network", "workload.io")
    assert (runs.inputs[:, -3:].sum(axis=1) == 1).all()


def test_labels_by_hand_with_frozen_means() -> None:
    norms = freeze(("a", "a", "b"), np.array([8.0, 12.0, 5.0]))  # a: mean 10, deviation 2; b never varied
    assert (norms.mean_s, norms.deviation_s) == ({"a": 10.0, "b": 5.0}, {"a": 2.0, "b": 0.0})
    later = np.array([12.39, 12.41, 13.0, 13.01, 7.0])
    assert norms.classes(("a",) * 5, later).tolist() == [NONE, LITTLE, LITTLE, VARIATION, NONE]
    assert norms.varies(("a",) * 5, later).tolist() == [0, 0, 0, 1, 0]
    assert norms.relative(("a", "b"), np.array([15.0, 5.0])).tolist() == [1.5, 1.0]
    assert norms.varies(("b",), np.array([50.0])).tolist() == [0], "without a deviation nothing can be said"


def test_f1_and_confusion_by_hand() -> None:
    truth, answer = np.array([1, 1, 0, 0, 1]), np.array([1, 0, 1, 0, 1])
    assert f1(truth, answer) == pytest.approx(2 / (2 + 0.5 * 2))
    assert f1(np.zeros(3, np.int64), np.zeros(3, np.int64)) is None
    assert confusion(truth, answer, 2) == [[1, 1], [1, 2]]
    nothing = Judged(("a",), np.array([0]), np.array([0]), np.zeros((1, 3)))
    wrong = Judged(("b",), np.array([1]), np.array([0]), np.zeros((1, 3)))
    assert mean_f1([nothing, wrong]) == 0.0, "a fold with nothing to find does not count"


@settings(max_examples=examples(12), deadline=None)
@given(
    kind=st.sampled_from(KINDS), rows=st.integers(12, 60), columns=st.integers(1, 8), classes=st.integers(1, 3),
    seed=st.integers(0, 10_000),
)  # fmt: skip
def test_the_flat_form_answers_as_the_library(kind: str, rows: int, columns: int, classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, asked = rng.lognormal(0, 2, (rows, columns)), rng.lognormal(0, 2, (40, columns))
    labels = rng.integers(3 - classes, 3, rows)
    labels[:classes] = np.arange(3 - classes, 3)
    fitted = fit_classifier(kind, x, labels, (labels == VARIATION).astype(np.int64), seed, effort=0.2)
    own, library = fitted.flat.shares(asked), library_shares(fitted.flat, fitted.estimator, asked)
    assert own == pytest.approx(library, abs=1e-12)
    if hasattr(fitted.estimator, "predict") and kind != "knn":
        said = fitted.flat.classes[own.argmax(axis=1)]
        best, *others = np.sort(own, axis=1).T[::-1]
        clear = best - others[0] > 1e-9 if others else best > 0  # of two equal shares either may be the larger
        assert (said == fitted.estimator.predict(asked.astype(np.float32)))[clear].all()


@pytest.mark.parametrize("kind", ["adaboost", "forest"])
def test_it_finds_what_the_made_up_machine_does(kind: str) -> None:
    runs = made_runs(4, 60, 8, FEW, noise=0.05)
    found = training.compare(runs, kind, 0)
    score = mean_f1(found.stratified)
    assert score is not None
    assert score > 0.5, "counters tell the truth almost without noise"
    shuffled = replace(runs, run_s=np.random.default_rng(0).permutation(runs.times_s))
    chance = mean_f1(training.compare(shuffled, kind, 0).stratified)
    assert (chance or 0.0) < score - 0.2, "of shuffled run times there is nothing to learn"


def test_a_left_out_application_has_no_say(data: Runs) -> None:
    """Spoil the run times of one application; what models that left it out answer about it must stay the same."""
    name = data.applications[0]
    spoiled = replace(data, run_s=np.where(np.array(data.app) == name, 1e5, data.times_s))
    first, second = (training.choose(one, "knn", 0) for one in (data, spoiled))
    assert first.grouped[0].name == second.grouped[0].name == name
    assert (first.grouped[0].shares == second.grouped[0].shares).all()
    assert (first.classes[0].shares == second.classes[0].shares).all()
    assert any((a.shares != b.shares).any() for a, b in zip(first.grouped[1:], second.grouped[1:], strict=True))


def test_columns_are_chosen_without_the_rows_left_out(data: Runs) -> None:
    rows = np.array(data.app) != data.applications[0]
    noise = np.random.default_rng(1).lognormal(0, 3, data.table.shape)
    other = replace(data, table=np.where(rows[:, None], data.table, noise))
    paths = [training.eliminated(one, "extra-trees", rows, 0) for one in (data, other)]
    assert [path.tolist() for path in paths[0]] == [path.tolist() for path in paths[1]]
    assert [len(path) for path in paths[0]] == training.sizes(len(paths[0][0]))


def test_stratified_folds_keep_the_shares_and_every_row_is_asked_once() -> None:
    labels = np.array([1] * 12 + [0] * 90)
    folds = folding.stratified(labels, 3)
    assert sum(fold.ask.astype(int) for fold in folds).tolist() == [1] * 102
    assert {int(labels[fold.ask].sum()) for fold in folds} <= {2, 3}
    assert {int(fold.ask.sum()) for fold in folds} <= {20, 21}


def test_training_is_repeatable_and_the_seed_matters(data: Runs) -> None:
    answers = [training.fit(data, "forest", seed).deployed.probabilities(data.inputs) for seed in (1, 1, 2)]
    assert (answers[0] == answers[1]).all()
    assert (answers[0] != answers[2]).any()


def test_runs_that_never_vary_give_a_model_that_always_says_none(data: Runs) -> None:
    calm = replace(data, run_s=np.full(len(data), 7.0))
    model = training.fit(calm, "adaboost", 0).deployed
    assert model.classify(calm.inputs).tolist() == [NONE] * len(calm)
    verdict = model.bind(calm.columns).judge(calm.table[0], "io")
    assert (verdict.label, verdict.probability[NONE], verdict.known) == (NONE, 1.0, True)
    assert mean_f1(training.compare(calm, "adaboost", 0).grouped) is None


def test_calibration_makes_probabilities_mean_what_they_say() -> None:
    rng = np.random.default_rng(5)
    share = rng.random(4000)
    truth = np.where(rng.random(4000) < share**3, VARIATION, NONE)  # says 0.5 where one in eight varies
    shares = np.stack([1 - share, np.zeros(4000), share], axis=1)
    curves = fit_calibration(shares[:2000], truth[:2000])
    after = curves.apply(shares[2000:])
    assert brier(after, truth[2000:]) < brier(shares[2000:], truth[2000:]) - 0.02
    assert after.sum(axis=1) == pytest.approx(np.ones(2000))
    middle = np.abs(share[2000:] - 0.5) < 0.1
    assert after[middle, VARIATION].mean() == pytest.approx(0.13, abs=0.05)
    assert (np.diff(curves.apply(shares[np.argsort(share)])[:, VARIATION]) > -1e-9).all(), "it never falls"
    few = fit_calibration(shares[:60], truth[:60]).apply(shares)
    assert (np.diff(few[np.argsort(share), VARIATION]) > -1e-9).all(), "nor with a logistic curve"
    assert identity().apply(shares) == pytest.approx(shares)


def test_a_verdict_is_the_models_answer_and_finds_its_features_by_name(data: Runs) -> None:
    unseen = training.compare(data, "forest", 0).grouped
    model = training.fit(data, "forest", 0, unseen=unseen).deployed
    order = np.random.default_rng(0).permutation(len(data.columns))
    names = [data.columns[at] for at in order] + ["something.else.mean"]
    binding = model.bind(names)
    for row in range(20):
        verdict = binding.judge(np.append(data.table[row, order], np.nan), data.workload_type[row])
        chances = model.probabilities(data.inputs[row])
        assert verdict.known
        assert verdict.probability == pytest.approx(tuple(chances))
        assert verdict.label == model.classify(data.inputs[row : row + 1])[0]
        assert verdict.slowdown == pytest.approx(float(chances @ model.slowdown))


def test_what_is_missing_is_named(data: Runs) -> None:
    binding = training.fit(data, "extra-trees", 0).deployed.bind(data.columns)
    vector = data.table[0].copy()
    vector[4] = np.nan
    verdict = binding.judge(vector, "io")
    assert not verdict.known
    assert verdict.missing == (data.columns[4],)
    assert (verdict.label, verdict.probability, verdict.slowdown) == (NONE, (0.0, 0.0, 0.0), 1.0)
    assert binding.judge(data.table[0], "unheard of").missing == ("workload_type",)
    fewer = binding.model.bind(data.columns[:-2])
    assert fewer.judge(data.table[0, :-2], "io").missing == data.columns[-2:]


def test_slowdowns_rise_with_the_class(data: Runs) -> None:
    slowdown = training.fit(data, "knn", 0).deployed.slowdown
    assert slowdown[NONE] < slowdown[LITTLE] < slowdown[VARIATION]
    assert slowdown[NONE] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_file_gives_the_same_answers_and_needs_no_library(kind: str, data: Runs, tmp_path: Path) -> None:
    trained = training.fit(data, kind, 0)
    save_variability(tmp_path / "model", trained, {"f1_grouped": 0.5})
    stored = load_variability(tmp_path / "model")
    assert stored.model.norms == trained.deployed.norms
    assert (stored.model.probabilities(data.inputs) == trained.deployed.probabilities(data.inputs)).all()
    own = load_training(tmp_path / "model")
    rows = data.inputs[:, stored.model.chosen]
    assert library_shares(stored.model.flat, own, rows) == pytest.approx(stored.model.flat.shares(rows), abs=1e-12)
    text = (
        "import sys\nfrom pathlib import Path\nfrom cohabit.predict.variability_file import load_variability\n"
        f"load_variability(Path({str(tmp_path / 'model')!r}))\n"
        "assert not [name for name in ('sklearn', 'skops', 'joblib') if name in sys.modules]"
    )
    subprocess.run([sys.executable, "-c", text], check=True)


@pytest.mark.parametrize(
    ("array", "value"),
    [
        ("chosen", np.array([999])), ("flat.roots", np.array([10**6], np.int32)), ("norm.mean_s", np.array([1.0])),
        ("calibration.chances", np.full((3, 2), 2.0)), ("flat.classes", np.array([0, 1, 7])),
        ("slowdown", np.array([1.0, np.nan, 2.0])), ("flat.left", np.zeros(3, np.int32)),
    ],
)  # fmt: skip
def test_a_file_with_a_fresh_digest_and_wrong_numbers_is_refused(
    array: str, value: np.ndarray, data: Runs, tmp_path: Path
) -> None:
    path = tmp_path / "model"
    save_variability(path, training.fit(data, "forest", 0), {})
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
        comment = archive.comment
    import io

    stream = io.BytesIO()
    np.save(stream, value)
    members[f"arrays/{array}.npy"] = stream.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = comment
    with pytest.raises(InputError, match="digest does not fit"):
        load_variability(path)
    path.write_bytes(sealed(path.read_bytes()))
    with pytest.raises(InputError, match=r"lacks something|a value that is not a number"):
        load_variability(path)


def test_a_model_of_another_kind_is_refused_by_name(data: Runs, tmp_path: Path) -> None:
    path = tmp_path / "model"
    save_variability(path, training.fit(data, "knn", 0), {})
    from cohabit.predict.model_file import load_model

    with pytest.raises(InputError, match="is a cohabit variability model, version 1"):
        load_model(path)
    assert json.loads(zipfile.ZipFile(path).read("manifest.json"))["applications"] == list(data.applications)


def test_too_little_data_is_refused() -> None:
    with pytest.raises(InputError, match="of 1 application"):
        training.check_runs(made_runs(1, 20, 0, FEW))
    with pytest.raises(InputError, match="4 runs of app0"):
        training.check_runs(made_runs(3, 4, 0, FEW))
