"""What is left of jobs: accounting in three forms, slowdowns, figures; and lists that survive a restart."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cohabit.app.client.report import allotted_utilisation, run_table
from cohabit.app.serve.serving import ServeConfig
from cohabit.live.api.accounting import as_csv, as_sacct
from cohabit.live.api.settings import ApiSettings
from cohabit.model.units import SECOND
from cohabit.report.metrics import summarise
from cohabit.trace import sacct
from tests.live.api.serving import Server


def test_accounting_round_trips_through_sacct(server: Server, tmp_path: Path) -> None:
    begun = time.time()
    names = [server.submit("sleep 1", program="a|b sleeper", limit_s=600), server.submit("exit 1", limit_s=120)]
    views = {name: server.over(name) for name in names}
    text = server.ask("GET", f"/v1/accounting?format=sacct&since={begun}").body
    jobs = sacct.parse(text)
    assert sorted(str(one) for one in jobs.job_id) == sorted(names)
    for place, name in enumerate(jobs.job_id):
        view = views[str(name)]
        assert abs(int(jobs.submit_us[place]) / SECOND - view["submitted_at"]) <= 0.5
        assert abs(int(jobs.run_us[place]) / SECOND - (view["ended_at"] - view["started_at"])) <= 1
        assert int(jobs.limit_us[place]) == view["limit_s"] * SECOND
        assert int(jobs.processes[place]) == view["cores"]
    assert {jobs.program_names[code] for code in jobs.program} == {"a/b sleeper", "sh"}
    (tmp_path / "log").write_text(text)
    command = [sys.executable, "-m", "cohabit.cli", "import", "sacct", tmp_path / "log", "-o", tmp_path / "jobs.swf"]
    subprocess.run(command, check=True, capture_output=True)
    lines = [line for line in (tmp_path / "jobs.swf").read_text().splitlines() if not line.startswith(";")]
    assert len(lines) == 2


def test_accounting_as_csv_and_json_says_the_same(server: Server) -> None:
    job = server.submit("exit 4")
    server.over(job)
    rows = {row["job"]: row for row in csv.DictReader(io.StringIO(server.ask("GET", "/v1/accounting?format=csv").body))}
    views = {one["job"]: one for one in server.ask("GET", "/v1/accounting").body["jobs"]}
    assert set(rows) == set(views)
    assert (rows[job]["state"], rows[job]["exit_status"], views[job]["exit_status"]) == ("failed", "4", 4)
    assert server.ask("GET", f"/v1/accounting?since={time.time() + 1000}").body == {"jobs": []}
    assert server.ask("GET", "/v1/accounting?user=no-such-user-here").status == 404
    assert server.ask("GET", "/v1/accounting?format=xml").status == 422


def test_a_spreadsheet_is_given_no_formulas() -> None:
    view = dict.fromkeys(("cores", "used_cores", "scale", "attempt", "processes"), 0) | {
        "job": "j", "name": "j", "user": "=cmd()", "program": "@sum", "state": "done", "nodes": [1, 2], "limit_s": 90.0,
        "submitted_at": 1.0, "started_at": None, "ended_at": 5.0, "exit_status": None, "exit_signal": 9,
        "predicted_slowdown": None, "actual_slowdown": None,
    }  # fmt: skip
    (row,) = csv.DictReader(io.StringIO(as_csv([view])))
    assert (row["user"], row["program"], row["nodes"]) == ("'=cmd()", "'@sum", "2")
    line = as_sacct([view]).splitlines()[1].split("|")
    assert (line[4], line[6], line[-1]) == ("COMPLETED", "Unknown", "0:9")


def test_slowdowns_are_listed(server: Server) -> None:
    assert server.ask("GET", "/v1/slowdowns").body == {"points": [], "mean_abs_error": None}


def figures(server: Server) -> dict[str, float]:
    text = server.ask("GET", "/metrics").body
    return {key: float(value) for key, value in re.findall(r"^([a-z_]\S*(?:\{[^}]*\})?) (\S+)$", text, re.MULTILINE)}


def test_figures_are_counted(server: Server) -> None:
    before = figures(server)
    held = server.submit("exit 0", hold=True)
    server.over(server.submit("exit 0"))
    server.ask("POST", "/v1/jobs", {"command": []})
    after = figures(server)

    def grew(name: str) -> float:
        return after[name] - before.get(name, 0.0)

    assert grew("cohabit_submissions_total") == 2
    assert grew('cohabit_refusals_total{status="422"}') == 1
    assert grew('cohabit_jobs{state="held"}') == 1
    assert grew('cohabit_jobs_ended_total{state="done"}') == 1
    assert grew("cohabit_journal_commit_seconds_count") >= 3
    assert grew("cohabit_pass_seconds_sum") > 0
    assert after['cohabit_nodes{state="idle"}'] == 2
    server.ask("POST", f"/v1/jobs/{held}/cancel")


@pytest.mark.slow
def test_numbers_lists_and_limits_go_on_after_a_restart(tmp_path: Path) -> None:
    config = ServeConfig(tmp_path / "state", 2, api=ApiSettings())
    first = Server(config)
    names = [first.submit("exit 0") for _ in range(3)] + [first.submit("sleep 1"), first.submit("exit 0", hold=True)]
    first.close()
    second = Server(config)
    try:
        assert second.submit("exit 0") == str(int(names[-1]) + 1)
        assert second.over(names[3])["state"] == "done"
        listed = {one["job"]: one["state"] for one in second.ask("GET", "/v1/jobs?state=all").body["jobs"]}
        assert set(names) <= set(listed)
        assert listed[names[4]] == "held"
        assert second.ask("POST", f"/v1/jobs/{names[4]}/release").status == 200
        assert second.over(names[4])["state"] == "done"
    finally:
        second.close()


def test_cores_that_were_used_and_cores_that_were_given(server: Server) -> None:
    """A job of one process on a whole node of several cores uses one of them, and keeps the others from everybody."""
    nodes = [{"cores": 4}]
    job = {
        "job": "1", "user": "ann", "program": "x", "state": "done", "nodes": [0], "processes": 1, "cores": 4,
        "used_cores": 1, "scale": 1, "limit_s": 60.0, "submitted_at": 100.0, "started_at": 100.0, "ended_at": 110.0,
    }  # fmt: skip
    assert summarise(run_table([job], nodes, "ce"))["utilisation"] == pytest.approx(0.25)
    assert allotted_utilisation([job], nodes) == pytest.approx(1.0)
    assert allotted_utilisation([], nodes) is None
    view = server.over(server.submit("exit 0"))
    assert (view["processes"], view["used_cores"]) == (1, 1)
    whole = server.over(server.submit("exit 0", nodes=1))
    assert whole["used_cores"] == whole["cores"] >= 1
    assert server.ask("GET", "/v1/ping").body["policy"]
