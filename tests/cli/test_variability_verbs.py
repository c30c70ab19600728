"""`cohabit train variability`, `predict` of its model, `measure runs`, `measure canary`: documents and wrong input."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import pytest
from cli_calls import Answer, cohabit

from cohabit.app.learn.variability_data import read_runs
from cohabit.app.measure.runs import sbatch_command
from cohabit.app.measure.runs_plan import read_runs_plan
from tests.predict.made_runs import made_runs, written

FEW = ("sysclassib.a", "sysclassib.b", "net.b", "net.c", "lustre2_client.a", "lustre2_client.b")
PLAN = """interval_s = 0
repeats = 2
window_s = 1
limit_s = 60
[[program]]
name = "short"
workload_type = "compute"
command = ["sleep", "0.05"]
[[program]]
name = "longer"
workload_type = "io"
command = ["sleep", "0.2"]
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Answer]:
    folder = tmp_path_factory.mktemp("variability")
    runs = made_runs(4, 30, 3, FEW, noise=0.05)
    data = written(runs, folder / "runs.csv")
    until = str(float(runs.start_s[96]))
    answer = cohabit(
        "train", "variability", data, "--model", "knn", "--until", until, "--out", folder / "model", "--json"
    )
    assert answer.code == 0, answer.err
    return data, folder / "model", answer


def test_the_document_of_training(trained: tuple[Path, Path, Answer]) -> None:
    _, model, answer = trained
    document = answer.document
    assert {"model", "f1_grouped", "f1_stratified", "features_kept", "by_model", "confusion"} <= set(document)
    assert (document["model"], document["rows"], document["applications"]) == ("knn", 96, 4)
    assert document["deployed_difference"] == 0.0
    assert sum(map(sum, document["confusion"])) == sum(map(sum, document["confusion_classes"])) == 96
    assert [len(row) for row in document["confusion"]] == [2, 2]
    assert sum(document["confusion"][1]) == document["varying"], "judged by the rule of 1.5 deviations"
    assert document["blind"]["rows"] == 24
    assert set(document["by_application"]) == {"app0", "app1", "app2", "app3"}
    assert set(document["features_kept"]) <= {*read_runs(trained[0]).input_names}
    page = Path(f"{model}.html").read_text()
    assert "plotly" in page.lower()
    assert "On 24 runs after the training window" in page


def test_predictions_are_judged_with_the_models_own_norms(trained: tuple[Path, Path, Answer], tmp_path: Path) -> None:
    data, model, answer = trained
    document = cohabit("predict", model, data, "--json").document
    assert document["rows"] == 120 == len(document["predictions"])
    one = document["predictions"][0]
    assert one["class"] in document["classes"]
    assert sum(one["probabilities"]) == pytest.approx(1.0)
    assert one["slowdown"] > 0
    blind = answer.document["blind"]["confusion_classes"]
    later = written(
        made_runs(4, 30, 3, FEW, noise=0.05).only(read_runs(data).start_s >= 96 * 3600.0), tmp_path / "l.csv"
    )
    assert cohabit("predict", model, later, "--json").document["confusion_classes"] == blind
    assert cohabit("predict", model, data, "--library", "--json").document == document
    shown = cohabit("predict", model, data)
    assert "F1" in shown.out
    blank = written(made_runs(2, 5, 3, FEW), tmp_path / "no_run.csv", with_run=False)
    assert cohabit("predict", model, blank, "--json").document["f1"] is None


def test_a_person_sees_tables(tmp_path: Path) -> None:
    data = written(made_runs(3, 12, 3, FEW[:2]), tmp_path / "runs.csv")
    answer = cohabit("train", "variability", data, "--model", "knn", "--out", tmp_path / "model")
    assert answer.code == 0, answer.err
    assert "F1 unseen applications" in answer.out
    assert "goes by: " in answer.out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.replace("run_s,", "time,", 1), "has no column run_s"),
        (lambda t: t.replace("sysclassib.b.min", "sysclassib.a.min", 1), "has two columns 'sysclassib.a.min'"),
        (lambda t: t.replace("compute", "magic", 1), "'magic' is not a type of work"),
        (lambda t: re.sub(r",compute,[^,]*,", ",compute,nan,", t, count=1), "line 2, sysclassib.a.min: is nan"),
        (lambda t: re.sub(r",compute,[^,]*,", ",compute,,", t, count=1), "sysclassib.a.min: is empty"),
        (lambda t: re.sub(r",compute,[^,]*,", ",compute,1e30,", t, count=1), "which nothing measures"),
        (lambda t: re.sub(r"app0,([^,]*),[^,]*,", r"app0,\1,0,", t, count=1), "run_s of 0 or below"),
        (lambda t: t.replace("app0,", ",", 1), "has no application"),
        (lambda t: t.replace("sysclassib.a.min", "workload.io", 1), "which is made from workload_type"),
        (lambda t: t.split("\n")[0], "has no rows"),
        (lambda t: "\n".join(t.split("\n")[:5]), "too few"),
    ],
)
def test_wrong_data_is_one_sentence(change, words: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    data = written(made_runs(3, 6, 1, FEW[:2]), tmp_path / "runs.csv")
    data.write_text(change(data.read_text().replace("\r\n", "\n")))
    sentence = cohabit("train", "variability", data, "--out", tmp_path / "model").sentence()
    assert words in sentence
    assert "runs.csv" in sentence
    assert not list(tmp_path.glob("model*"))


def test_wrong_calls_are_one_sentence(trained: tuple[Path, Path, Answer], tmp_path: Path) -> None:
    data, model, _ = trained
    train = ("train", "variability", data, "--out", tmp_path / "m")
    assert "svm" in cohabit(*train, "--model", "svm").sentence()
    assert "on one side of --until" in cohabit(*train, "--until", "5e9").sentence()
    assert "needs a model of degradations" in cohabit("predict", model, data, "--matrix", tmp_path / "x").sentence()
    assert "are for pairs" in cohabit("predict", model, data, "--target", "time").sentence()
    fewer = written(made_runs(2, 5, 3, FEW[:-1]), tmp_path / "fewer.csv")
    assert "has no column lustre2_client.b.min" in cohabit("predict", model, fewer).sentence()


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "programs.toml"
    path.write_text(PLAN)
    return path


def test_runs_are_kept_with_the_window_before_and_go_on(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs.csv"
    first = cohabit("measure", "runs", plan, "--out", out, "--json")
    assert first.code == 0, first.err
    document = first.document
    assert (document["complete"], document["runs"], document["of"], document["failed"]) == (True, 4, 4, [])
    runs = read_runs(out)
    assert runs.app == ("short", "longer", "short", "longer")
    assert runs.workload_type[:2] == ("compute", "io")
    assert 0.04 < runs.times_s[0] < 5
    assert runs.times_s[1] > 0.19
    assert any(name.startswith("load.") for name in runs.columns)
    assert not any(name.startswith("meta.") for name in runs.columns)
    before = out.read_text()
    second = cohabit("measure", "runs", plan, "--out", out, "--repeats", "3", "--json").document
    assert (second["added"], second["rows"]) == (2, 6)
    assert out.read_text().startswith(before), "what was there stays as it was"
    out.write_text(before + "short,1\n")
    assert "line 6: is not a complete row" in cohabit("measure", "runs", plan, "--out", out).sentence()


def test_a_slow_round_is_not_made_up_for_in_haste(plan: Path, tmp_path: Path) -> None:
    """Runs in haste after a load show the load before them and are fast: a model would learn that it does no harm."""
    slow_once = f"test -e {tmp_path}/ran || sleep 1.5; touch {tmp_path}/ran"
    text = PLAN.replace("interval_s = 0", "interval_s = 0.6").replace("repeats = 2", "repeats = 4")
    plan.write_text(text.replace('["sleep", "0.05"]', f'["sh", "-c", "{slow_once}"]'))
    out = tmp_path / "runs.csv"
    answer = cohabit("measure", "runs", plan, "--out", out)
    assert answer.code == 0
    assert "holds earlier runs (interval_s = 0.6)" in answer.err
    begun = read_runs(out).start_s[::2]
    assert begun[1] - begun[0] > 1.5
    assert min(begun[2] - begun[1], begun[3] - begun[2]) > 0.55


def test_a_load_comes_and_goes_and_a_failing_program_is_said(plan: Path, tmp_path: Path) -> None:
    text = PLAN.replace("repeats = 2", "repeats = 4").replace('["sleep", "0.05"]', '["false"]')
    plan.write_text(text + '[interference]\ncommand = ["sleep", "60"]\non_s = 0.4\noff_s = 0.3\n')
    out = tmp_path / "runs.csv"
    answer = cohabit("measure", "runs", plan, "--out", out, "--json")
    assert answer.code == 1
    assert len(answer.document["failed"]) == 4
    assert "short, round 0: failed with status 1" in answer.err
    with out.open() as stream:
        beside = [row["meta.interference"] for row in csv.DictReader(stream)]
    assert len(beside) == 4
    assert "1" in beside


def test_as_slurm_jobs_the_queue_does_not_count(plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for sbatch: it waits as a queue does, then runs what it is given; no Slurm is needed."""
    plan.write_text('launcher = "slurm"\nsbatch = ["--nodes=1"]\n' + PLAN)
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sbatch").write_text('#!/bin/sh\nsleep 0.5\nfor word; do :; done\nexec sh -c "${word#--wrap=}"\n')
    (folder / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    answer = cohabit("measure", "runs", plan, "--repeats", "1", "--out", tmp_path / "runs.csv", "--json")
    assert answer.code == 0, answer.err
    runs = read_runs(tmp_path / "runs.csv")
    assert 0.04 < runs.times_s[0] < 0.5
    words = sbatch_command(read_runs_plan(plan), read_runs_plan(plan).program[0], Path("a b/report"))
    assert words[:4] == ("sbatch", "--parsable", "--wait", "--job-name=short")
    assert "--nodes=1" in words
    assert words[-1].startswith("--wrap=began=")
    assert "'a b/report'" in words[-1]
    plan.write_text(plan.read_text() + "[canary]\n")
    assert "would not feel the nodes" in cohabit("measure", "runs", plan, "--out", tmp_path / "x.csv").sentence()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("io", "magic"), "the workload_type of 'longer' is 'magic'"),
        (("longer", "short"), "occurs 2 times"),
        (("repeats", "repeat"), "unknown key 'repeat'; did you mean 'repeats'"),
        (("sleep", "no-such-program"), "there is no program 'no-such-program'"),
        (("interval_s = 0", "interval_s = -1"), "interval_s 0 or more"),
        (("window_s = 1", "window_s = 0.1"), "window_s between 1 and 86400"),
        (("limit_s = 60", 'launcher = "cloud"'), "launcher is 'cloud'"),
    ],
)
def test_a_wrong_plan_is_one_sentence(change: tuple[str, str], words: str, plan: Path, tmp_path: Path) -> None:
    plan.write_text(PLAN.replace(*change))
    assert words in cohabit("measure", "runs", plan, "--out", tmp_path / "runs.csv").sentence()
    assert not (tmp_path / "runs.csv").exists()


def test_a_file_of_something_else_is_not_added_to(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "other.csv"
    out.write_text("a,b\n1,2\n")
    assert "is not a file of `cohabit measure runs`" in cohabit("measure", "runs", plan, "--out", out).sentence()
    assert out.read_text() == "a,b\n1,2\n"
    missing = cohabit("measure", "runs", plan, "--telemetry", tmp_path / "none", "--out", tmp_path / "x.csv")
    assert "there is no telemetry store" in missing.sentence()


def test_a_wrong_canary_is_one_sentence() -> None:
    assert "no other rank to send to" in cohabit("measure", "canary", "--ranks", "1").sentence()
    assert "out of range" in cohabit("measure", "canary", "--size", "-3").sentence()
    assert "--launcher cannot be read" in cohabit("measure", "canary", "--launcher", "'mpirun").sentence()
