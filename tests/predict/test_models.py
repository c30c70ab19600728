"""The learners: flat form equal to the library's, better than the mean on unseen applications, honest about leaks."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from cohabit.app.learn.learning import few_co_runs
from cohabit.model.errors import InputError
from cohabit.predict import scores, training
from cohabit.predict.archive import load_training, sealed
from cohabit.predict.degradation import DegradationModel
from cohabit.predict.estimators import GRIDS, KINDS, fit_kind, library_answers
from cohabit.predict.features import CoRuns, profiles_of
from cohabit.predict.model_file import load_model, save_model
from tests.predict.made_data import made_coruns


@pytest.fixture(scope="module")
def data() -> CoRuns:
    return made_coruns(14, 5)


@pytest.fixture(scope="module")
def new() -> CoRuns:
    return made_coruns(10, 99)


@pytest.mark.parametrize("kind", KINDS)
def test_the_flat_form_answers_as_the_library(kind: str, data: CoRuns, new: CoRuns) -> None:
    fitted = fit_kind(kind, data, GRIDS[kind][0], 0, trees=20)
    flat = fitted.flat.rows(new.primary, new.beside)
    library = library_answers(kind, fitted.estimator, fitted.flat, new)
    assert flat == pytest.approx(library, abs=1e-8)
    profiles = profiles_of(new)
    pairs = fitted.flat.pairs(profiles.primary, profiles.beside)
    assert pairs.ravel() == pytest.approx(flat, abs=1e-8), "all pairs without writing them down"


@pytest.mark.parametrize("kind", KINDS)
def test_unseen_applications_are_predicted_better_than_by_the_mean(kind: str, data: CoRuns) -> None:
    found = training.evaluate(data, kind, 0, searching=False)
    grouped = scores.r_squared(found.grouped.truth, found.grouped.answer)
    plain = scores.r_squared(found.grouped.truth, found.grouped.mean)
    assert grouped is not None
    assert plain is not None
    assert grouped > max(plain, 0.0) + 0.3
    paired = scores.r_squared(found.paired.truth, found.paired.answer)
    assert paired is not None
    assert paired > grouped, "folds by pair flatter"


def test_answers_about_a_fold_do_not_depend_on_its_targets(data: CoRuns) -> None:
    """Change what is asked about; what the models of its fold answer must stay the same."""
    from dataclasses import replace

    from cohabit.predict.folds import by_application

    fold = by_application(data, 0).folds[0]
    spoiled = replace(data, target=np.where(fold.ask, 1e6, data.truth))
    count = int(fold.ask.sum())
    answers = [training.evaluate(one, "svr", 0).grouped.answer[:count] for one in (data, spoiled)]
    assert (answers[0] == answers[1]).all()


def test_training_is_repeatable_and_the_seed_matters(data: CoRuns, new: CoRuns) -> None:
    usual = {kind: GRIDS[kind][0] for kind in KINDS}
    for kind in ("forest", "mlp"):
        answers = [
            training.fit(data, kind, seed, usual[kind]).deployed.estimate(new.primary, new.beside) for seed in (1, 1, 2)
        ]
        assert (answers[0] == answers[1]).all()
        assert (answers[0] != answers[2]).any()


def test_answers_below_zero_are_clamped_and_counted(data: CoRuns) -> None:
    model = training.fit(data, "elastic-net", 0, GRIDS["elastic-net"][0]).deployed
    idle = data.primary * 0.01
    raw = model.raw(idle, data.beside)
    assert (raw < 0).any(), "the line goes below zero for small counters"
    assert (model.estimate(idle, data.beside) >= 0).all()
    asked = scores.Asked(data.app, data.other, data.truth, raw, raw)
    assert asked.negatives == int((raw < 0).sum())


def test_the_margin_keeps_the_asked_share_of_promises(data: CoRuns) -> None:
    asked = training.evaluate(data, "svr", 0, searching=False).grouped
    shares = []
    for quantile in (0.5, 0.8, 0.95):
        margin = training.margin_for(asked, quantile)
        shares.append(float((training.raised(asked, margin) >= asked.truth - 1e-9).mean()))
        assert shares[-1] >= quantile
    assert shares == sorted(shares)
    model = training.fit(data, "svr", 0, GRIDS["svr"][0], margin=0.5).deployed
    plain = training.fit(data, "svr", 0, GRIDS["svr"][0]).deployed
    raised, usual = (one.estimate(data.primary, data.beside) for one in (model, plain))
    assert raised == pytest.approx(1.5 * usual + 5.0)


def test_the_factorisation_needs_few_co_runs() -> None:
    data = made_coruns(24, 8, noise=0.02)
    found = few_co_runs(data)
    assert found is not None
    assert found["co_runs"] == 24 * 24 - 20 * 20
    assert found["r2"] > 0.8, found


def test_importance_finds_the_counter_that_matters() -> None:
    data = made_coruns(14, 5)
    rng = np.random.default_rng(0)
    target = data.beside[:, 4] / data.beside[:, 4].mean() * 50  # only cache_misses of the neighbour
    only = CoRuns(data.app, data.other, data.primary, data.beside, data.schema, target)
    model = training.fit(only, "forest", 0, GRIDS["forest"][0]).deployed
    assert scores.importance(model, only, rng)[0]["counter"] in (
        "other.cache_misses",
        "other.mem_uops_retired_all_loads",
    )


def saved(folder: Path, data: CoRuns, kind: str = "forest") -> Path:
    path = folder / "model"
    save_model(path, training.fit(data, kind, 0, GRIDS[kind][0]), {"rows": len(data)}, {})
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_stored_model_answers_the_same(tmp_path: Path, kind: str, data: CoRuns, new: CoRuns) -> None:
    trained = training.fit(data, kind, 0, GRIDS[kind][0], margin=0.25)
    save_model(tmp_path / "model", trained, {}, {"cpu": "made up"})
    stored = load_model(tmp_path / "model")
    assert isinstance(stored.model, DegradationModel)
    expected = trained.deployed.estimate(new.primary, new.beside)
    assert (stored.model.estimate(new.primary, new.beside) == expected).all()
    assert stored.manifest["training_hash"] == data.digest()
    again = library_answers(kind, load_training(tmp_path / "model"), stored.model.flat, new)
    assert stored.model.finished(again) == pytest.approx(expected, abs=1e-6)


def test_asking_needs_no_learning_library(tmp_path: Path, data: CoRuns) -> None:
    path = saved(tmp_path, data)
    code = (
        "import sys\nfrom pathlib import Path\nimport numpy as np\nfrom cohabit.predict.model_file import load_model\n"
        f"model = load_model(Path({str(path)!r})).model\n"
        f"model.estimate_pairs(np.ones((3, {data.primary.shape[1]})), np.ones((3, {data.beside.shape[1]})))\n"
        "print([name for name in ('sklearn', 'skops', 'joblib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "[]\n", done.stdout + done.stderr


def rewritten(path: Path, change: dict[str, bytes], seal: bool) -> None:
    """The archive with other members, and with the old digest or a new, fitting one."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()} | change
        old = archive.comment
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = old
    if seal:
        path.write_bytes(sealed(path.read_bytes()))


def test_a_changed_model_is_refused(tmp_path: Path, data: CoRuns) -> None:
    path = saved(tmp_path, data)
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    manifest["margin"] = 3.0
    rewritten(path, {"manifest.json": json.dumps(manifest).encode()}, seal=False)
    with pytest.raises(InputError, match="was changed after it was written"):
        load_model(path)


def test_a_training_file_with_an_unknown_type_is_refused(tmp_path: Path, data: CoRuns) -> None:
    """Even one with a fitting digest: nothing of it is built."""
    import skops.io

    class Harmful:
        pass

    path = saved(tmp_path, data)
    Harmful.__module__, Harmful.__qualname__ = "tests.predict.harmful", "Harmful"
    content = skops.io.dumps({"model": Harmful()})
    rewritten(path, {"training.skops": content}, seal=True)
    load_model(path)  # the deployed form is untouched
    with pytest.raises(InputError, match="holds something that is not a model"):
        load_training(path)


@pytest.mark.parametrize(("array", "place"), [("left", 0), ("feature", 0), ("roots", 0), ("primary.chosen", 0)])
def test_a_tree_that_leads_out_of_its_arrays_is_refused(tmp_path: Path, data: CoRuns, array: str, place: int) -> None:
    """A file with a fitting digest whose numbers would send a kernel anywhere in memory."""
    import io

    path = saved(tmp_path, data)
    with zipfile.ZipFile(path) as archive:
        numbers = np.load(io.BytesIO(archive.read(f"arrays/{array}.npy")))
    numbers[place] = 10_000_000
    stream = io.BytesIO()
    np.save(stream, numbers)
    rewritten(path, {f"arrays/{array}.npy": stream.getvalue()}, seal=True)
    with pytest.raises(InputError, match="lacks something a model has"):
        load_model(path)
