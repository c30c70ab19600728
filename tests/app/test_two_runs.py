"""Two finished runs side by side: figures of the same jobs are better or worse, those of other jobs are neither."""

from __future__ import annotations

from pathlib import Path

from cohabit.app.view.learning import compare
from cohabit.app.view.run import FinishedRun
from tests.cli.cli_calls import cohabit

ROOT = Path(__file__).resolve().parents[2]


def finished(folder: Path, jobs: int, order: str) -> FinishedRun:
    log, out = folder / f"{jobs}.swf", folder / f"{jobs}-{order}"
    made = cohabit("generate", "lublin", "--jobs", str(jobs), "--nodes", "16", "--seed", "3", "-o", log)
    assert made.code == 0, made.err
    answer = cohabit("simulate", log, "--order", order, "--out", out)
    assert answer.code == 0, answer.err
    return FinishedRun(out)


def test_runs_of_the_same_jobs_are_better_or_worse(tmp_path: Path) -> None:
    told = compare([finished(tmp_path, 60, "fcfs"), finished(tmp_path, 60, "sjf")])
    assert {row["key"]: row["better"] for row in told["rows"]}["mean_wait_s"] == -1
    assert "neither" not in told["words"]
    assert told["words"].startswith("Mean turnaround ")
    assert told["words"].endswith("One run each: a small difference may be chance.")


def test_slowdowns_over_the_run_time_as_it_was_judge_nothing(tmp_path: Path) -> None:
    told = compare([finished(tmp_path, 60, "fcfs"), finished(tmp_path, 60, "sjf")])
    better = {row["key"]: row["better"] for row in told["rows"]}
    assert next(iter(better)) == "mean_turnaround_s"
    assert (better["mean_slowdown_alone"], better["mean_slowdown"], better["mean_bounded_slowdown"]) == (-1, 0, 0)


def test_what_a_run_cannot_show_has_no_tab(tmp_path: Path) -> None:
    """A replayed log knows nothing of programs; jobs of the catalogue that share nodes do."""
    log = finished(tmp_path, 20, "fcfs").about([])
    assert (log["programs"], log["predictions"]) == (False, False)
    answer = cohabit("simulate", ROOT / "scenarios" / "sharing.toml", "--policy", "sns", "--out", tmp_path / "shared")
    assert answer.code == 0, answer.err
    shared = FinishedRun(tmp_path / "shared").about([])
    assert (shared["programs"], shared["predictions"]) == (True, True)


def test_runs_of_other_jobs_are_neither(tmp_path: Path) -> None:
    told = compare([finished(tmp_path, 20, "fcfs"), finished(tmp_path, 600, "fcfs")])
    assert {row["better"] for row in told["rows"]} == {0}
    assert "The runs have different jobs (20 jobs and 600 jobs ran), so neither is better." in told["words"]
