"""`cohabit match`, `train degradation` and `predict`: the documents, the chain from counters to pairs, wrong input."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from cli_calls import Answer, cohabit

from tests.predict.made_data import made_coruns, written

MATRIX = ",a,b,c,d\na,,10,200,5\nb,20,,30,300\nc,50,40,,60\nd,15,120,-3,\n"
PUBLISHED = Path(__file__).resolve().parents[3] / "shared" / "data" / "colocation"


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    path = tmp_path / "degradation.csv"
    path.write_text(MATRIX)
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Answer]:
    """Data of two suites with a side file, and a model that has not seen the second."""
    folder = tmp_path_factory.mktemp("trained")
    data = written(made_coruns(16, 3, suites=2), folder / "pairs.csv", source="perf")
    answer = cohabit("train", "degradation", data, "--model", "svr", "--blind-suite", "suite1", "--quantile", "0.8",
                     "--out", folder / "model", "--json")  # fmt: skip
    assert answer.code == 0, answer.err
    return data, folder / "model", answer


def test_match_by_the_contract(matrix: Path) -> None:
    document = cohabit("match", matrix, "--json").document
    assert {tuple(pair) for pair in document["pairs"]} == {("a", "d", 15.0), ("b", "c", 40.0)}
    assert (document["alone"], document["total"], document["total_matched"]) == ([], 55.0, 55.0)
    assert document["negatives"] == 1
    assert 0 <= document["solve_s"] < 1
    strict = cohabit("match", matrix, "--threshold", "20", "--json").document
    assert (strict["pairs"], strict["alone"]) == ([["a", "d", 15.0]], ["b", "c"])
    assert (strict["total"], strict["total_matched"]) == (15.0, 55.0)
    shown = cohabit("match", matrix)
    assert shown.code == 0
    assert "a + d" in shown.out
    assert "1 degradations are below 0" in shown.err
    assert "the slower of each pair slows by 55.0 % in sum\n" in shown.out
    apart = cohabit("match", matrix, "--threshold", "20").out
    assert "15.0 % in sum; pairs above the threshold of 20 % are not made (40.0 % in sum)" in apart
    assert "is a folder, not a file" in cohabit("match", matrix.parent).sentence()


def test_match_threshold_zero_is_one_after_the_other(matrix: Path) -> None:
    document = cohabit("match", matrix, "--threshold", "0", "--json").document
    assert (document["pairs"], document["alone"], document["total"]) == ([], ["a", "b", "c", "d"], 0)


def test_match_by_saving_needs_durations_and_says_what_is_gained(matrix: Path, tmp_path: Path) -> None:
    seconds = tmp_path / "seconds.csv"
    seconds.write_text("job,seconds\na,100\nb,200\nc,100\nd,50\n")
    document = cohabit("match", matrix, "--method", "saving", "--durations", seconds, "--json").document
    assert document["serial_s"] == 450
    assert document["saving_s"] == pytest.approx(450 - document["makespan_s"])
    optimal = cohabit("match", matrix, "--durations", seconds, "--json").document
    assert document["saving_s"] >= optimal["saving_s"] - 1e-9
    (tmp_path / "seconds.json").write_text('{"a": 100, "b": 200, "c": 100, "d": 50}')
    again = cohabit("match", matrix, "--method", "saving", "--durations", tmp_path / "seconds.json", "--json").document
    assert again["pairs"] == document["pairs"]
    three = cohabit("match", matrix, "--group-size", "3", "--threshold", "500", "--json").document
    assert sorted(len(group) - 1 for group in three["groups"]) in ([3], [2, 2])
    assert "needs the jobs' durations" in cohabit("match", matrix, "--method", "saving").sentence()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (",a,b\na,0,1\n", "is not square: 2 columns and 1 rows"),
        (",a,b\na,0,1\nb,1,0\nc,1,1\n", "is not square"),
        (",a,b\na,0\nb,1,0\n", "line 2: has 1 percentages for 2 jobs"),
        (",a,b\na,0,nan\nb,1,0\n", "line 2, column b: nan is not a percentage"),
        (",a,b\na,0,\nb,1,0\n", "line 2, column b: '' is not a number"),
        (",a,b\na,0,inf\nb,1,0\n", "inf is not a percentage"),
        (",a,a\na,0,1\na,1,0\n", "names 'a' twice"),
        (",a,b\na,0,1\nc,1,0\n", "line 3: the row is named 'c', its column 'b'"),
        ("", "has no jobs"),
    ],
)
def test_match_refuses_a_matrix_that_is_none(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    assert words in cohabit("match", path, "--json").sentence()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "best"], "best"),
        (["--group-size", "5"], "--group-size 5 is not possible"),
        (["--threshold", "-1"], "is not a percentage"),
        (["--durations", "missing.csv"], "no such file"),
    ],
)
def test_match_refuses_a_call_that_makes_no_sense(matrix: Path, arguments: list[str], words: str) -> None:
    assert words in cohabit("match", matrix, *arguments).sentence()


def test_match_refuses_durations_that_do_not_fit(matrix: Path, tmp_path: Path) -> None:
    path = tmp_path / "seconds.csv"
    for text, words in (
        ("a,1\nb,2\nc,3\n", "has no duration of d"),
        ("a,1\nb,-2\nc,3\nd,1\n", "'-2' is not a duration"),
        ("a,1\na,2\n", "names 'a' twice"),
        ("{", "is not JSON"),
    ):
        path.write_text(text)
        assert words in cohabit("match", matrix, "--durations", path).sentence()


def test_train_by_the_contract(trained: tuple[Path, Path, Answer]) -> None:
    _, path, answer = trained
    document = answer.document
    assert document.keys() >= {"model", "rows", "grouped_r2", "pair_r2", "blind_r2", "negatives", "by_model"}
    assert (document["model"], document["rows"], document["applications"]) == ("svr", 64, 8)
    assert document["blind_rows"] == 64
    assert document["blind_unseen"] == "both applications"
    own, mean = document["by_model"]["svr"], document["by_model"]["mean"]
    assert own["blind_r2"] == document["blind_r2"] > mean["blind_r2"]
    assert sum(one["rows"] for one in document["by_range"]) == document["grouped_rows"]
    assert document["careful"]["promised_too_little"] <= document["careful"]["promised_too_little_before"]
    assert document["deployed_difference"] < 1e-6
    page = path.with_name("model.html").read_text()
    assert "Prediction against truth" in page
    assert "http://" not in page.split("<script>")[0]


@pytest.mark.wide
@pytest.mark.slow
def test_train_on_all_learners_names_the_best(tmp_path: Path) -> None:
    data = written(made_coruns(8, 3), tmp_path / "pairs.csv")
    answer = cohabit("train", "degradation", data, "--out", tmp_path / "model")
    assert answer.code == 0, answer.err
    for name in ("forest", "mlp", "svr", "elastic-net", "factor", "mean"):
        assert f"  {name} " in answer.out
    manifest = json.loads(zipfile.ZipFile(tmp_path / "model").read("manifest.json"))
    assert f"{manifest['kind']} by true degradation" in answer.out
    assert manifest["schema"]["sources"] == {}


def test_programs_without_a_run_beside_the_references_do_not_end_training(tmp_path: Path) -> None:
    """Gaps: some programs ran beside a few others only, so the factorisation cannot be asked about all pairs."""
    data = made_coruns(16, 3, suites=4)
    keep = np.random.default_rng(0).random(256) < 0.4
    path = written(data.only(keep), tmp_path / "pairs.csv")
    answer = cohabit("train", "degradation", path, "--model", "factor", "--out", tmp_path / "model", "--json")
    assert answer.code == 0, answer.err
    few = answer.document["few_co_runs"]
    assert few is not None
    assert few["without"] > 0
    assert few["rows"] + few["without"] + few["co_runs"] == len(path.read_text().splitlines()) - 1


def test_several_suites_are_held_out(tmp_path: Path) -> None:
    path = written(made_coruns(16, 3, suites=4), tmp_path / "pairs.csv")
    call = ("train", "degradation", path, "--model", "elastic-net", "--out", tmp_path / "model", "--json")
    both = cohabit(*call, "--blind-suite", "suite1", "--blind-suite", "suite3").document
    assert (both["applications"], both["blind_rows"]) == (8, 64)
    assert cohabit(*call, "--blind-suite", "suite3").document["applications"] == 12


def test_what_is_wrong_with_the_data_is_said(tmp_path: Path) -> None:
    path = written(made_coruns(6, 3), tmp_path / "pairs.csv")
    rows = lines_of(path)
    rewritten(path, [*rows, rows[1]])
    answer = cohabit("train", "degradation", path, "--model", "elastic-net", "--out", tmp_path / "model")
    assert "2 rows are repeats of 1 pairs" in answer.err


def test_predict_and_match_what_was_predicted(trained: tuple[Path, Path, Answer], tmp_path: Path) -> None:
    data, model, _ = trained
    out = tmp_path / "matrix.csv"
    document = cohabit("predict", model, data, "--matrix", out, "--json").document
    assert document["rows"] == len(document["predictions"]) == 256
    assert document["r2"] is not None
    assert all(percent >= 0 for _, _, percent in document["predictions"])
    library = cohabit("predict", model, data, "--library", "--json").document
    assert [one[2] for one in library["predictions"]] == pytest.approx([one[2] for one in document["predictions"]])
    matched = cohabit("match", out, "--json").document
    assert 2 * len(matched["pairs"]) + len(matched["alone"]) == 16
    predicted = {(app, other): percent for app, other, percent in document["predictions"]}
    for first, second, weight in matched["pairs"]:
        assert weight == pytest.approx(max(predicted[first, second], predicted[second, first]), rel=1e-4)
    assert "slows by" in cohabit("predict", model, data).out


def lines_of(path: Path) -> list[list[str]]:
    return [line.split(",") for line in path.read_text().splitlines()]


def rewritten(path: Path, rows: list[list[str]]) -> Path:
    path.write_text("\n".join(",".join(row) for row in rows) + "\n")
    return path


def test_predict_needs_no_target(trained: tuple[Path, Path, Answer], tmp_path: Path) -> None:
    data, model, _ = trained
    rows = [row[:2] + row[3:] for row in lines_of(data)]
    path = rewritten(tmp_path / "asked.csv", rows)
    path.with_name("asked.csv.meta.json").write_text(data.with_name("pairs.csv.meta.json").read_text())
    document = cohabit("predict", model, path, "--json").document
    assert document["r2"] is None
    assert document["rows"] == 256


def test_predict_reads_the_times_that_train_reads(trained: tuple[Path, Path, Answer], tmp_path: Path) -> None:
    data, model, _ = trained
    header, *rows = lines_of(data)
    times = [[*row[:2], str(10 * (1 + float(row[2]) / 100)), *row[3:]] for row in rows]
    alone = [[row[0], "", "10", *row[3:]] for row in rows if row[0] == row[1]]
    path = rewritten(tmp_path / "times.csv", [header, *alone, *times])
    path.with_name("times.csv.meta.json").write_text(data.with_name("pairs.csv.meta.json").read_text())
    assert "rows of runs alone add --target" in cohabit("predict", model, path).sentence()
    found = cohabit("predict", model, path, "--target", "time", "--json").document
    usual = cohabit("predict", model, data, "--json").document
    assert found["predictions"] == usual["predictions"]
    assert found["mean_error"] == pytest.approx(usual["mean_error"])


def test_train_refuses_data_it_cannot_learn_from(tmp_path: Path) -> None:
    data = written(made_coruns(5, 3), tmp_path / "pairs.csv")
    whole, bad, out = lines_of(data), tmp_path / "bad.csv", tmp_path / "model"

    def refused(rows: list[list[str]], *more: str) -> str:
        sentence = cohabit("train", "degradation", rewritten(bad, rows), "--out", out, *more).sentence()
        assert not out.exists()
        assert not out.with_name("model.html").exists()
        return sentence

    assert "has no column target" in refused([row[:2] + row[3:] for row in whole])
    assert "has no column other" in refused([row[:1] + row[2:] for row in whole])
    assert "has no primary.* columns" in refused([row[:5] + row[-12:] for row in whole])
    assert "line 3, target: is nan" in refused([*whole[:2], [*whole[2][:2], "nan", *whole[2][3:]], *whole[3:]])
    contrary = [*whole[1][:2], "900", *whole[1][3:]]
    assert "app00 beside app00 slows by" in refused([*whole, contrary])
    assert "bad.csv: has 3 applications to learn from, too few" in refused([whole[0], *whole[1:16]])
    assert "has no rows" in refused(whole[:1])
    assert "no application is of the suite 'x'" in refused(whole, "--blind-suite", "x")
    assert "too few" in refused(whole, "--blind-suite", "suite0")
    assert "--quantile 2" in refused(whole, "--quantile", "2")
    assert "best" in refused(whole, "--model", "best")
    side = bad.with_name("bad.csv.meta.json")
    side.write_text('{"schema_version": 9}')
    assert "schema_version 9" in refused(whole)


def test_predict_refuses_other_sources_other_columns_and_changed_files(
    trained: tuple[Path, Path, Answer], tmp_path: Path
) -> None:
    data, model, _ = trained
    other = written(made_coruns(5, 1), tmp_path / "valgrind.csv", source="perf", **{"primary.ipc.mean": "valgrind"})
    sentence = cohabit("predict", model, other).sentence()
    assert "column primary.ipc.mean comes from the source valgrind, the model was trained on perf" in sentence
    unknown = written(made_coruns(5, 1), tmp_path / "unknown.csv")
    assert "comes from the source unknown" in cohabit("predict", model, unknown).sentence()
    fewer = rewritten(tmp_path / "fewer.csv", [row[:-1] for row in lines_of(data)])
    assert "has no column other.cpu_usage.std" in cohabit("predict", model, fewer).sentence()
    changed, whole = tmp_path / "changed", model.read_bytes()
    for place in range(2, len(whole) - 90, len(whole) // 40):  # wherever a byte is changed
        content = bytearray(whole)
        content[place] ^= 0x01
        changed.write_bytes(content)
        assert "was changed after it was written" in cohabit("predict", changed, data).sentence()
    changed.write_bytes(whole[:-7])
    assert "cut short" in cohabit("predict", changed, data).sentence()
    assert "is not a model of cohabit" in cohabit("predict", data, data).sentence()
    assert "no such file" in cohabit("predict", tmp_path / "nothing", data).sentence()


def test_without_the_learning_libraries_training_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    data = written(made_coruns(5, 3), tmp_path / "pairs.csv")
    assert "cohabit[learn]" in cohabit("train", "degradation", data, "--out", tmp_path / "model").sentence()


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published co-runs (shared/data/colocation) are not here")
@pytest.mark.parametrize("name", ["dcslab_summary.csv", "dcslab_experiment-data.tar.xz"])
def test_published_co_runs_are_read_and_called_small(tmp_path: Path, name: str) -> None:
    answer = cohabit(
        "train", "degradation", PUBLISHED / name, "--model", "elastic-net", "--out", tmp_path / "m", "--json"
    )
    assert answer.code == 0, answer.err
    document = answer.document
    assert (document["rows"], document["grouped_rows"], document["grouped_unseen"]) == (7, 7, "the slowed application")
    assert document["remark"].startswith("small: 7 applications beside SP")
    targets = np.array([one["mean_error"] for one in document["by_range"]])
    assert np.isfinite(targets).all()
