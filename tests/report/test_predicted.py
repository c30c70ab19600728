"""Predicted against measured slowdown: by hand, of a simulated run on disk, and on its page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cohabit.app.client.report import run_table
from cohabit.app.view import learning
from cohabit.app.view.jobs import one_job
from cohabit.app.view.run import FinishedRun
from cohabit.model.records import RunTable, Slowdowns
from cohabit.report.html import render_report
from cohabit.report.predicted import in_words, slowdown_figures
from tests.cli.cli_calls import cohabit

RunOf = Callable[..., RunTable]
ROOT = Path(__file__).resolve().parents[2]


def with_slowdowns(run_of: RunOf, predicted: list[float], measured: list[float]) -> RunTable:
    table = run_of([(0, 10 * place, 10 * place + 9, 1) for place in range(len(predicted))])
    codes = np.arange(len(predicted), dtype=np.int32) % 2
    workload = replace(table.workload, program=codes, program_names=("mg", "<b>"))
    return replace(table, workload=workload, slowdowns=Slowdowns(np.array(predicted), np.array(measured)))


def test_by_hand(run_of: RunOf) -> None:
    nan = float("nan")
    run = with_slowdowns(run_of, [1.1, 1.2, 1.3, nan, 1.0], [1.2, 1.2, 1.0, 1.5, nan])
    told = slowdown_figures(run)["slowdowns"]
    assert told["jobs"] == 3
    assert told["mean_predicted"] == pytest.approx(1.2)
    assert told["mean_measured"] == pytest.approx(3.4 / 3)
    assert told["mean_abs_error"] == pytest.approx(0.4 / 3)
    assert told["mean_abs_error_of_none"] == pytest.approx(0.4 / 3)
    assert [(one["program"], one["jobs"]) for one in told["programs"]] == [("<b>", 1), ("mg", 2)]
    assert told["programs"][1]["mean_abs_error"] == pytest.approx(0.2)
    assert in_words(told) == (
        "Slowdown beside neighbours, over 3 jobs: predicted 20.0 %, measured 13.3 %; a prediction errs by 13.3 points "
        "on average, saying that no job is slowed by 13.3."
    )
    page = render_report([run], "t")
    assert "Predicted against measured slowdown" in page
    assert "<b>" not in page.split("<main>")[1].split("</main>")[0]


def test_absent_where_nothing_was_predicted_or_measured(run_of: RunOf) -> None:
    nan = float("nan")
    plain = run_of([(0, 0, 9, 1)])
    unmeasured = with_slowdowns(run_of, [1.1, nan], [nan, 1.2])
    for run in (plain, unmeasured):
        assert slowdown_figures(run) == {}
        assert "Predicted against measured" not in render_report([run], "t")


def test_records_of_a_controller() -> None:
    job = {
        "job": "1", "user": "ada", "program": "mg", "state": "done", "submitted_at": 0.0, "started_at": 1.0,
        "ended_at": 31.0, "nodes": [0], "cores": 1, "processes": 1, "scale": 1, "limit_s": 60.0,
        "predicted_slowdown": 1.5, "actual_slowdown": 1.25,
    }  # fmt: skip
    told = slowdown_figures(run_table([job], [], "live"))["slowdowns"]
    assert (told["jobs"], told["mean_predicted"], told["mean_abs_error"]) == (1, 1.5, 0.25)
    assert slowdown_figures(run_table([job | {"actual_slowdown": None}], [], "live")) == {}


@pytest.mark.parametrize(("policy", "right"), [("pair-greedy", False), ("sns", True)])
def test_a_simulated_run(tmp_path: Path, policy: str, right: bool) -> None:
    """Shares of the cache do as promised, within 10 points; what pairs do to each other is foreseen less well."""
    scenario = (ROOT / "scenarios" / "sharing.toml").read_text().replace("alpha", "# alpha")
    scenario = scenario.replace('"sns"', f'"{policy}"')
    (tmp_path / "scenario.toml").write_text(scenario)
    answer = cohabit("simulate", tmp_path / "scenario.toml", "--out", tmp_path / "out")
    assert answer.code == 0, answer.err
    told = json.loads((tmp_path / "out" / "summary.json").read_text())["slowdowns"]
    assert in_words(told) in re.sub(r"\s+", " ", answer.out)
    assert told["jobs"] >= 10
    assert told["mean_measured"] > 1.0
    assert told["mean_abs_error"] < told["mean_abs_error_of_none"]
    assert (told["mean_abs_error"] < 0.1) == right
    assert "Predicted against measured slowdown" in (tmp_path / "out" / "report.html").read_text()
    run = FinishedRun(tmp_path / "out")
    seen = learning.predictions(run).get("slowdowns")
    assert seen is not None
    assert len(seen["points"]) == told["jobs"]
    assert seen["mean_abs_error"] == pytest.approx(told["mean_abs_error"])
    point = seen["points"][0]
    job = one_job(run, point["job"])["job"]
    assert (job["predicted_slowdown"], job["actual_slowdown"]) == (point["predicted"], point["actual"])


def test_policies_on_whole_nodes_predict_nothing(tmp_path: Path) -> None:
    answer = cohabit("simulate", ROOT / "scenarios" / "sharing.toml", "--policy", "ce-easy", "--json")
    assert answer.code == 0, answer.err
    assert "slowdowns" not in json.loads(answer.out)
