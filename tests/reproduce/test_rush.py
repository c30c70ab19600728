"""RUSH in small: every row of the contract, the same sky for all policies, and what must not matter."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cohabit.app.learn.variability_data import parse_runs
from cohabit.model.errors import InputError
from cohabit.policy.gate.paying import lag_of
from cohabit.policy.gate.variability import ModelJudge
from cohabit.predict.variability_data import CLASSES
from cohabit.predict.variability_file import load_variability
from cohabit.report.reproduction import render_page
from cohabit.reproduce.papers import PAPERS, Options, Reproduction, reproduce
from cohabit.reproduce.rows import contract
from cohabit.reproduce.rush.control import BURSTS_MIN, SIZED, Collected, History, bursting, collected, in_bursts
from cohabit.reproduce.rush.lab import ADAA, EXPERIMENTS, FCFS, NEVER, RANDOM, TAUGHT, experiments, queue_of, run_trial
from cohabit.reproduce.rush.learning import Trained
from cohabit.reproduce.rush.outcomes import beats_random, longest_change, reduction, wait_change
from cohabit.reproduce.rush.paper import PAPER
from cohabit.reproduce.rush.pictures import counted
from cohabit.reproduce.rush.places import GATES
from cohabit.reproduce.rush.plan import QUICK, Sizes
from cohabit.reproduce.rush.shipped import FILES, FOLDER, ship, shipped
from cohabit.reproduce.rush.spells import WAYS
from cohabit.reproduce.rush.trials import PLACED, SPELLS_MIN, lasting, noise_at
from cohabit.reproduce.tasks import run_tasks
from cohabit.sim.streams import stream
from cohabit.sim.weather.constants import CONSTANTS, PLACES
from cohabit.sim.weather.series import Noise, Series
from cohabit.trace.rush_programs import APPLICATIONS, TEMPERS
from tests.cli.cli_calls import cohabit

TINY = Sizes(
    sets=1,
    trials=1,
    days=30,
    runs_per_day=0.5,
    jobs=40,
    lessons=1,
    counted_nodes=64,
    eliminating=False,
    others=1,
    brackets=1,
    worlds=1,
    spells=1,
    placed=1,
    learner="extra-trees",
)
SMALL = History(seed=5, days=30, runs_per_day=0.5, nodes=64)
SEED = 8


def tiny(**more: Any) -> Options:
    return Options(quick=True, workers=1, sizes=TINY, shared="/nowhere", **more)


@pytest.fixture(scope="module")
def history() -> Collected:
    return collected(SMALL)


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """What the tasks of the small reproduction say, once it has been run."""
    return {}


@pytest.fixture(scope="module")
def small(answers: dict[str, Any]) -> Reproduction:
    def run(*arguments: Any) -> dict[str, Any]:
        answers.update(run_tasks(*arguments))
        return answers

    return reproduce("rush", tiny(seed=3), draw=True, run=run)


def test_control_jobs_are_what_the_paper_keeps(history: Collected) -> None:
    runs = history.all_nodes
    assert set(runs.applications) == set(APPLICATIONS)
    assert runs.inputs.shape == (7 * 15, 282)
    assert runs.columns == history.job_nodes.columns
    assert not np.array_equal(runs.table, history.job_nodes.table)
    assert set(history.norms.mean_s) == {*APPLICATIONS, *(one.name for one in SIZED)}
    for one in TEMPERS:
        own = runs.times_s[np.array(runs.app) == one.name]
        assert own.min() > 0.9 * one.run_s


def test_rush_paying_is_taught_by_bursts_of_many_lengths_and_the_last_minute(history: Collected) -> None:
    runs = in_bursts(SMALL)
    assert len(runs) == 7 * len(BURSTS_MIN) * round(SMALL.days // len(BURSTS_MIN) * SMALL.runs_per_day)
    assert runs.inputs.shape[1] == 282 + 93
    own = Trained(history, 1, False, "extra-trees").paying
    assert own.norms == runs.norms, "it is judged by the norms of the paper's control runs"
    assert own.norms.mean_s["AMG"] == history.norms.mean_s["AMG"]
    assert lag_of(ModelJudge(own)) < lag_of(ModelJudge(Trained(history, 1, False, "extra-trees").full))
    shares = []
    for minutes in (BURSTS_MIN[0], BURSTS_MIN[-1]):
        series = Series(SEED, "network", bursting(SMALL, minutes).network, 30)
        high = np.array([series.at(step) for step in range(40 * 2880)]) > 0.6
        lasts_min = high.sum() / 2 / max(1, int((high[:-1] & ~high[1:]).sum()))
        assert lasts_min == pytest.approx(minutes, rel=0.25)
        shares.append(high.mean())
    assert shares[0] == pytest.approx(shares[1], rel=0.15), "load is high for as much of the time"


def test_experiments_are_the_papers() -> None:
    found = experiments()
    assert tuple(found) == EXPERIMENTS
    assert {name: one.jobs for name, one in found.items()} == {
        "ADAA": 190, "ADPA": 150, "PDPA": 150, "WS": 190, "SS": 190,
    }  # fmt: skip
    assert {one.name for one in found["PDPA"].programs}.isdisjoint(TAUGHT)
    assert {one.nodes for one in found["WS"].programs} == {8, 16, 32}
    jobs = queue_of(found[ADAA], SEED)
    at_once = sum(one.submit_us == jobs[0].submit_us for one in jobs)
    assert at_once == 38, "20 % of the jobs are there at the start"
    assert max(one.submit_us for one in jobs) - jobs[0].submit_us <= 20 * 60 * 1_000_000


def test_a_judge_that_never_objects_and_a_threshold_of_0_are_fcfs_with_easy(history: Collected) -> None:
    one = experiments(40)[ADAA]
    plain = run_trial(one, SEED, FCFS, history.norms)
    never = run_trial(one, SEED, NEVER, history.norms)
    np.testing.assert_array_equal(never["start_s"], plain["start_s"])
    np.testing.assert_array_equal(never["run_s"], plain["run_s"])
    always = run_trial(one, SEED, RANDOM, history.norms, rate=1.0, skip_threshold=0)
    other = run_trial(one, SEED, RANDOM, history.norms, rate=0.0)
    np.testing.assert_array_equal(always["start_s"], other["start_s"])
    assert always["delayed"] == 0
    delayed = run_trial(one, SEED, RANDOM, history.norms, rate=1.0, skip_threshold=2)
    assert delayed["delayed"] == 2 * len(delayed["run_s"]), "everybody is passed over twice, then goes"
    assert delayed["at_threshold"] == len(delayed["run_s"])


def test_asked_twice_about_the_same_counters_is_one_decision(history: Collected) -> None:
    found = run_trial(experiments(40)[ADAA], SEED, RANDOM, history.norms, rate=0.5)
    assert found["confusion"].sum() == found["decisions"]
    assert found["confusion"][:, 1].sum() == found["delayed"], "every delay is one warning, none is counted twice"
    assert found["confusion"][:, 0].sum() == len(found["run_s"]), "and everybody starts once, unwarned"


@pytest.mark.usefixtures("small")
def test_the_model_can_be_used_in_a_scenario(answers: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "variability-model"
    results = {name.removeprefix("rush: "): answer for name, answer in answers.items()}
    path.write_bytes(PAPER.files(results)["variability-model"])
    model = load_variability(path).model
    assert set(model.norms.mean_s) == set(APPLICATIONS)
    control = parse_runs(PAPER.files(results)["control-runs.csv"].decode(), "control-runs.csv")
    assert set(control.app) == set(APPLICATIONS)
    assert set(model.kept) <= set(control.input_names), "the file can be trained on again"
    names = ("job_id", "program", "processes", "submit_s", "run_s", "limit_s", "workload_type")
    rows = [(number, "Laghos", 512, 600, 360, 720, "network") for number in range(3)]
    (tmp_path / "jobs.csv").write_text("\n".join(",".join(map(str, row)) for row in (names, *rows)) + "\n")
    (tmp_path / "scenario.toml").write_text(
        '[cluster]\nnodes = 64\ncores = 32\n[jobs]\nfile = "jobs.csv"\n'
        '[policy]\nname = "rush"\nvariability = "variability-model"\ntelemetry_nodes = "all"\n'
        f"skip_threshold = 2\ndelay_labels = {json.dumps(CLASSES)}\n"
        '[world]\nweather = "noise"\ncanaries = true\nkill = false\n'
    )
    answer = cohabit("simulate", tmp_path / "scenario.toml", "--json")
    assert answer.code == 0, answer.err
    told = answer.document["gates"]["variability"]
    assert "without_data" not in told
    assert (told["delayed"], told["at_threshold"]) == (6, 3), "whatever it expects, every job is passed over twice"
    assert answer.document["metrics"]["jobs_ran"] == 3
    assert answer.document["metrics"]["mean_wait_s"] > 0


def test_a_schedule_without_varying_runs_is_drawn() -> None:
    figure = counted(["AMG"], {"FCFS+EASY": [0.0], "RUSH": [0.0]}, "runs")
    assert [one["text"] for one in figure["data"]] == [["0"], ["0"]]
    assert figure["layout"]["yaxis"]["range"][1] > 1.0
    assert figure["layout"]["yaxis"]["title"]["text"] == "runs"


def test_a_gate_changes_no_weather(history: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that a gate keeps back meets the sky of the instant at which it starts, as if it had come only then."""
    one = experiments(1)[ADAA]
    (job,) = queue_of(one, SEED)
    prompt = run_trial(one, SEED, RANDOM, history.norms, rate=0.0)
    kept_back = run_trial(one, SEED, RANDOM, history.norms, rate=1.0, skip_threshold=3)
    late_us = round(1_000_000 * (kept_back["start_s"][0] - prompt["start_s"][0]))
    assert late_us > 0
    later = [replace(job, submit_us=job.submit_us + late_us)]
    monkeypatch.setattr("cohabit.reproduce.rush.lab.queue_of", lambda *_: later)
    came_late = run_trial(one, SEED, RANDOM, history.norms, rate=0.0)
    assert came_late["start_s"].tolist() == kept_back["start_s"].tolist()
    assert came_late["run_s"].tolist() == kept_back["run_s"].tolist()
    assert came_late["run_s"].tolist() != prompt["run_s"].tolist(), "another sky"


def test_statistics() -> None:
    def outcome(run_s: list[float], varies: list[bool], wait_s: list[float]) -> dict[str, Any]:
        return {
            "program": ("AMG", "Kripke.weak8"), "run_s": np.array(run_s), "varies": np.array(varies),
            "wait_s": np.array(wait_s), "late": np.array([True, False]),
        }  # fmt: skip

    trial = {
        "fcfs": outcome([10.0, 20.0], [True, True], [5.0, 1.0]),
        "rush": outcome([8.0, 20.0], [False, True], [9.0, 100.0]),
        "random": outcome([10.0, 20.0], [True, True], [5.0, 1.0]),
    }
    assert reduction()([trial]) == 50.0
    assert longest_change("AMG")([trial]) == pytest.approx(-20.0)
    assert longest_change("Kripke", "8")([trial]) == 0.0
    assert longest_change("Kripke", "16")([trial]) is None
    assert wait_change()([trial]) == 4.0, "only late ones count"
    assert beats_random([[trial, trial]], stream(1, "x")) == (1.0, 1.0, 2.0)
    assert beats_random([[trial | {"rush": trial["random"]}]], stream(1, "x"))[0] == 0.0


def test_models_see_only_what_they_may(history: Collected) -> None:
    models = Trained(history, 1, False, "extra-trees")
    assert set(models.partial.norms.mean_s) == set(TAUGHT)
    assert set(models.full.norms.mean_s) == set(APPLICATIONS)


def test_every_row_of_the_contract_is_there_with_its_band(small: Reproduction) -> None:
    found = {one.id: one for one in small.rows}
    for name, about in contract().items():
        if name.startswith(PAPERS["rush"]):
            assert (found[name].low, found[name].high, found[name].role) == (about.low, about.high, about.role)
            assert "hindsight" in found[name].note
    assert [one.id for one in small.rows if one.role == "calibrated"] == ["R40.base_varying"]
    assert found["R62.constant_judge_shift_s"].measured == 0.0


def test_longer_spells_are_as_heavy_as_the_calibrated_ones() -> None:
    assert lasting(SPELLS_MIN[0]) == CONSTANTS, "the first length is the calibrated one"
    steps = 400_000
    for minutes in SPELLS_MIN:
        noise = Noise(SEED, lasting(minutes).noise, 30)
        heavy = np.array([noise.at(step) for step in range(steps)]) == CONSTANTS.noise.strength
        assert heavy.mean() == pytest.approx(CONSTANTS.noise.heavy, abs=0.03)
        ends = int((heavy[:-1] & ~heavy[1:]).sum())
        assert heavy.sum() * 0.5 / ends == pytest.approx(minutes / (1 - CONSTANTS.noise.heavy), rel=0.15)


def test_trials_with_other_spells_run_in_another_world(history: Collected) -> None:
    one = experiments(120)[ADAA]
    ends = [run_trial(one, SEED, FCFS, history.norms, constants=lasting(each))["makespan_s"] for each in SPELLS_MIN]
    assert len(set(ends)) >= 3, "the longest two may both be calm throughout this one trial"


def test_every_length_of_spells_has_its_rows(small: Reproduction) -> None:
    found = {one.id: one for one in small.rows if one.id.startswith("B-R.spells_")}
    assert len(found) == len(SPELLS_MIN) * (2 + 3 * len(WAYS))
    assert all(one.measured is not None for name, one in found.items() if name.endswith("makespan_pct"))
    (picture,) = (one for one in small.pictures if one.title.startswith("Waiting"))
    assert [len(one["x"]) for one in picture.figure["data"]] == [len(SPELLS_MIN)] * len(WAYS)


def test_every_place_of_noise_has_its_rows_and_its_trials(small: Reproduction, answers: dict[str, Any]) -> None:
    found = {one.id: one for one in small.rows if one.id.startswith(tuple(f"B-R.{place}_" for place in PLACES))}
    assert len(found) == len(PLACES) * (1 + 3 * len(GATES))
    assert all(one.measured is not None for name, one in found.items() if name.endswith("makespan_pct"))
    assert {noise_at(place).noise.place for place in PLACED.values()} == set(PLACES)
    for name in PLACED:
        assert set(answers["rush: trials 0 1"][name][0]) == {FCFS, *GATES}


def test_the_page_has_every_row_and_picture(small: Reproduction) -> None:
    document = json.loads(json.dumps(small.document(), allow_nan=False))
    pictures = [(one.title, one.figure, one.caption) for one in small.pictures]
    page = render_page(document, small.title, small.about, set(contract()), pictures)
    assert all(one.id in page for one in small.rows)
    assert page.count('class="plot"') == len(pictures) == 11
    assert small.calibration_hash == PAPER.calibration_hash(tiny())


QUICKER = replace(QUICK, trials=1, jobs=60, others=1, brackets=1, spells=1)


def test_a_quick_run_uses_the_models_that_come_with_the_program() -> None:
    answers: dict[str, Any] = {}

    def run(*arguments: Any) -> dict[str, Any]:
        answers.update(run_tasks(*arguments))
        return answers

    done = reproduce("rush", replace(tiny(seed=3), sizes=QUICKER), draw=True, run=run)
    found = {one.id: one for one in done.rows}
    assert {name for name in contract() if name.startswith(PAPERS["rush"])} <= set(found)
    unjudged = {name for name in contract() if name in found and found[name].measured is None}
    assert {"R15.f1", "R15.jobnodes_vs_all"} <= unjudged
    assert unjudged <= {"R15.f1", "R15.jobnodes_vs_all", "R41.pdpa_over_adpa", "R40.reduction_pct"}
    without = ("R15.f1", "R40.reduction_pct_throughout", "B-R.choose_nodes_delays_pct")
    assert all("run the full form" in found[name].note for name in without)
    assert "models come with the program" in found["R43.makespan_change_s"].note
    assert found["R62.constant_judge_shift_s"].measured == 0.0
    assert len(done.pictures) == 9, "without the two on control jobs"
    assert set(done.files) == {"variability-model", "paying-model"}, "no control run was made here"
    trial = answers["rush: trials 0 0"][ADAA][0]
    assert trial["rush"]["decisions"] > 0
    long = answers[f"rush: trials 0 {len(SPELLS_MIN)}"][f"spells of {SPELLS_MIN[-1]:g} min"][0]
    assert long["paying"]["decisions"] > 0
    assert trial["rush"]["without_data"] == long["paying"]["without_data"] == 0, "the models fit the trials' telemetry"


def test_the_models_that_come_with_the_program_are_those_of_the_papers_control_runs() -> None:
    about = shipped().about
    assert about.runs >= 3_200
    assert about.world == PAPER.calibration_hash(tiny()), "after a change of the world: scripts/rush-models"
    assert set(shipped().partial.norms.mean_s) == set(TAUGHT)
    assert set(shipped().full.norms.mean_s) == set(shipped().paying.norms.mean_s) == set(APPLICATIONS)
    assert any(name.endswith(".last") for name in shipped().paying.kept)
    assert sum((FOLDER / name).stat().st_size for name in FILES.values()) < 420_000, "they come with the program"
    assert set(shipped().norms.mean_s) == {*APPLICATIONS, *(one.name for one in SIZED)}


def test_models_of_another_world_and_changed_ones_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = ship(tmp_path, SMALL, 1, eliminating=False, learner="extra-trees")
    again = shipped(tmp_path)
    assert again.about == about
    assert again.about.runs == 7 * 15
    content = (tmp_path / FILES["partial"]).read_bytes()
    (tmp_path / FILES["partial"]).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    shipped.cache_clear()
    with pytest.raises(InputError, match=r"partial\.model: is not the model that was shipped"):
        shipped(tmp_path)
    (tmp_path / FILES["partial"]).write_bytes(content)
    monkeypatch.setattr("cohabit.reproduce.rush.shipped.world_hash", lambda: "another")
    with pytest.raises(InputError, match=r"another simulated world.*scripts/rush-models"):
        shipped(tmp_path)


@pytest.mark.wide
@pytest.mark.slow
def test_the_same_seed_gives_the_same_rows(small: Reproduction) -> None:
    def measured(one: Reproduction) -> dict[str, float | None]:
        return {row.id: row.measured for row in one.rows}

    collected.cache_clear()
    assert measured(reproduce("rush", tiny(seed=3))) == measured(small)
    assert measured(reproduce("rush", tiny(seed=4))) != measured(small)


def test_the_noise_job_has_its_nodes_to_itself(history: Collected) -> None:
    starts = run_trial(experiments()[ADAA], SEED, FCFS, history.norms)["start_s"]
    assert int((starts == starts.min()).sum()) == 30, "38 are there at the start, 480 of 512 nodes are free"
