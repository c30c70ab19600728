"""Every verb once from end to end: what it says, what it writes, and its JSON."""

from __future__ import annotations

import csv
import json
import os
import re
from itertools import pairwise
from pathlib import Path

import pytest
from cli_calls import cohabit

# ---- compare --------------------------------------------------------------------------------------------------------


def generated(folder: Path, jobs: int = 60) -> Path:
    path = folder / "made.toml"
    path.write_text(f'seed = 4\n[cluster]\nnodes = 32\n[jobs]\ngenerator = "lublin"\njobs = {jobs}\nload = 1.0\n')
    return path


def test_equal_reasons_are_said_once(tmp_path: Path) -> None:
    run = tmp_path / "run"
    scenario = Path(__file__).parents[2] / "scenarios" / "sharing.toml"
    assert cohabit("simulate", scenario, "--out", run).code == 0
    with open(run / "jobs.csv", newline="") as stream:
        rows = csv.DictReader(stream)
        waited = [row["job_id"] for row in rows if float(row["start_s"]) - float(row["submit_s"]) > 60]
    assert waited
    for job in waited:
        lines = cohabit("why", job, "--run", run).out.splitlines()
        reasons = [line.partition(" s  ")[2] for line in lines if line.startswith("  after ")]
        assert all(one != two for one, two in pairwise(reasons)), lines


def test_compare_with_repeats(tmp_path: Path) -> None:
    out = tmp_path / "out"
    policies = "ce,ce-easy,sjf+easy,conservative"
    answer = cohabit("compare", generated(tmp_path), "--policies", policies, "--repeat", "3", "--out", out, "--json")
    assert answer.code == 0, answer.err
    document = answer.document
    assert document["complete"]
    assert [run["seed"] for run in document["runs"]] == [4] * 4 + [5] * 4 + [6] * 4
    names = list(dict.fromkeys(run["policy"] for run in document["runs"]))
    assert names == ["ce", "ce-easy", "sjf + easy", "conservative"]
    assert {row["policy"] for row in document["comparison"]} == set(names)
    assert {"metric", "mean"} <= document["comparison"][0].keys()
    assert len({run["journal_hash"] for run in document["runs"]}) > 4
    assert sorted(path.name for path in out.iterdir()) == ["report.html", "summary.json"]
    assert json.loads((out / "summary.json").read_text())["runs"] == document["runs"]


def test_compare_says_what_simulate_says(scenario: Path) -> None:
    runs = cohabit("compare", scenario, "--policies", "ce,ce-easy", "--json").document["runs"]
    for name, run in zip(("ce", "ce-easy"), runs, strict=True):
        alone = cohabit("simulate", scenario, "--policy", name, "--json").document
        assert run["metrics"] == alone["metrics"]
        assert run["journal_hash"] == alone["journal_hash"]


def test_compare_shows_occupied_nodes_and_varying_runs_beside_intervals() -> None:
    from cohabit.cli.compare import columns

    for repeated in (False, True):
        assert {"node_hours_occupied", "varying_runs", "jobs_below_promise"} <= set(columns(True, repeated))
    assert "varying_runs" not in columns(False, True)


def test_compare_for_people(scenario: Path) -> None:
    out = scenario.parent / "out"
    answer = cohabit("compare", scenario, "--policies", "ce,ce-easy", "--out", out, "--no-report")
    assert answer.code == 0
    assert "ce-easy" in answer.out
    assert sorted(path.name for path in out.iterdir()) == ["summary.json"]


# ---- sweep ----------------------------------------------------------------------------------------------------------

GRID = ("--vary", "order=fcfs,sjf", "--vary", "jobs.load=0.7,1.0")


def test_sweep_covers_the_grid(tmp_path: Path) -> None:
    out = tmp_path / "out"
    answer = cohabit("sweep", generated(tmp_path), *GRID, "--workers", "1", "--out", out, "--json")
    assert answer.code == 0, answer.err
    cells = answer.document["cells"]
    assert [(cell["policy.order"], cell["jobs.load"]) for cell in cells] == [
        ("fcfs", 0.7), ("fcfs", 1.0), ("sjf", 0.7), ("sjf", 1.0),
    ]  # fmt: skip
    assert answer.document["complete"]
    with (out / "sweep.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["mean_wait_s"]) for row in rows] == [cell["mean_wait_s"] for cell in cells]
    assert sorted(path.name for path in out.iterdir()) == ["summary.json", "sweep.csv"]


@pytest.mark.slow
def test_two_workers_give_the_same_rows_as_one(tmp_path: Path) -> None:
    path = generated(tmp_path)
    one, two = (cohabit("sweep", path, *GRID, "--workers", count, "--json").document for count in ("1", "2"))
    assert one == two


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_rows(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not here; install cohabit[dask]")
    path = generated(tmp_path)
    local = cohabit("sweep", path, *GRID, "--workers", "1", "--json").document
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        answer = cohabit("sweep", path, *GRID, "--dask", cluster.scheduler_address, "--json")
    assert answer.document == local


def test_without_dask_the_option_says_what_to_install(scenario: Path) -> None:
    try:
        import distributed  # type: ignore[import-not-found] # noqa: F401
    except ImportError:
        answer = cohabit("sweep", scenario, "--vary", "seed=1", "--dask", "tcp://127.0.0.1:1")
        assert "cohabit[dask]" in answer.sentence()
    else:
        pytest.skip("Dask is installed")


def test_a_cell_that_cannot_run_is_kept_and_makes_the_status_1(scenario: Path) -> None:
    answer = cohabit("sweep", scenario, "--vary", "nodes=1,10", "--workers", "1", "--json")
    small, large = answer.document["cells"]
    assert "none of the 3 jobs" in small["error"]
    assert large["mean_wait_s"] == 33.0
    assert answer.document["failed"] == 1
    assert "1 of 2 cells could not run" in answer.err
    assert answer.code == 1


def test_failed_cells_in_the_table_for_people(scenario: Path) -> None:
    out = scenario.parent / "out"
    answer = cohabit("sweep", scenario, "--vary", "nodes=1,10", "--workers", "1", "--out", out)
    assert "Traceback" not in answer.err
    assert "none of the 3 jobs" in answer.err
    assert "failed" in answer.out
    assert (out / "sweep.csv").read_text().count("\n") == 3


# ---- generate, import -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["lublin", "--load", "0.8"], "jobs.swf"),
        (["poisson", "--load", "0.8", "--requests", "modal"], "jobs.swf.xz"),
        (["poisson", "--mean-gap-s", "10", "--sizes", "1,2,4", "--sigma", "1"], "jobs.csv"),
        (["mix", "--programs", "MG=1,EP=2", "--processes", "4,8", "--median-run-s", "60"], "jobs.csv.gz"),
    ],
)
def test_generate_then_simulate(tmp_path: Path, options: list[str], name: str) -> None:
    path = tmp_path / name
    call = ["generate", *options, "--jobs", "80", "--nodes", "32", "--seed", "5", "-o", path]
    made = cohabit(*call, "--json")
    assert made.code == 0, made.err
    assert made.document["jobs"] == 80
    if "--load" in options:
        assert made.document["offered_load"] == pytest.approx(0.8, rel=0.01)
    first = path.read_bytes()
    cohabit(*call)
    assert path.read_bytes() == first
    answer = cohabit("simulate", path, "--nodes", "32", "--json")
    assert answer.code == 0, answer.err
    assert answer.document["jobs"] == 80


def test_a_generated_file_and_the_scenario_that_makes_the_same_jobs(tmp_path: Path) -> None:
    path = tmp_path / "jobs.swf"
    cohabit("generate", "lublin", "--jobs", "60", "--nodes", "32", "--load", "1.0", "--seed", "4", "-o", path)
    from_file = cohabit("simulate", path, "--json").document["metrics"]
    from_scenario = cohabit("simulate", generated(tmp_path), "--json").document["metrics"]
    waits = ("mean_wait_s", "max_wait_s", "utilisation", "makespan_s")
    assert {key: from_file[key] for key in waits} == {key: from_scenario[key] for key in waits}


GRID_ENGINE = [
    "all.q", "node1", "staff", "ann", "solve", "17", "sge", "0", "1704456000", "1704456060", "1704456160", "0", "0",
    "100", *["0"] * 15, "none", "none", "NONE", "defaultdepartment", "mpi", "4", "0", "0", "0", "0", "-l h_rt=600",
    "0", "NONE", "0", "0", "0",
]  # fmt: skip
LOGS = {
    "sacct": "JobID|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|NCPUS|State\n"
    "7|ann|2024-01-05T12:00:00|2024-01-05T12:01:00|2024-01-05T12:02:40|100|10|4|COMPLETED\n"
    "7.batch|ann|2024-01-05T12:00:00|2024-01-05T12:01:00|2024-01-05T12:02:40|100|10|4|COMPLETED\n",
    "gridengine": ":".join(GRID_ENGINE) + "\n",
    "lumos": ",job,user,project,state,gpu_num,cpu_num,node_num,submit_time,wait_time,run_time,wall_time,node_hour\n"
    "0,17,1,1,Pass,0,0,4,1704456000,60,100.0,600,0.1\n",
    "cobalt": "01/05/2024 12:02:40;E;17;ctime=1704456000.0 end=1704456160.0 Resource_List.nodect=4 "
    "Resource_List.walltime=0:10:00 qtime=1704456000.0 queue=default start=1704456060.0 user=ann\n",
    "atlas": "user_ID,group_ID,submit_time,start_time,dispatch_time,queue_time,end_time,wallclock_limit,job_status,"
    "node_count,tasks_requested\n1,1,2024-01-05 12:00:00,2024-01-05 12:01:00,2024-01-05 12:01:00,"
    "2024-01-05 12:00:00,2024-01-05 12:02:40,00:10:00,COMPLETED,1,4\n",
}


@pytest.mark.parametrize("kind", LOGS)
def test_import_then_simulate(tmp_path: Path, kind: str) -> None:
    log = tmp_path / "log"
    log.write_text(LOGS[kind])
    answer = cohabit("import", kind, log, "-o", tmp_path / "jobs.swf", "--json")
    assert answer.code == 0, answer.err
    assert answer.document["jobs"] == 1
    assert answer.document["file"].endswith("jobs.swf")
    out = tmp_path / "run"
    ran = cohabit("simulate", tmp_path / "jobs.swf", "--nodes", "4", "--out", out, "--no-report", "--json")
    assert ran.code == 0, ran.err
    with (out / "jobs.csv").open(newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert (row["submit_s"], row["start_s"], row["end_s"], row["nodes"]) == (
        "1704456000", "1704456000", "1704456100", "4",
    )  # fmt: skip


def test_import_counts_what_it_skips(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(LOGS["sacct"])
    answer = cohabit("import", "sacct", log, "-o", tmp_path / "jobs.csv")
    assert "wrote 1 jobs" in answer.out
    assert "job steps, skipped" in answer.err


def test_a_log_given_to_simulate_names_the_import(tmp_path: Path) -> None:
    for kind, text in LOGS.items():
        log = tmp_path / f"{kind}.log"
        log.write_text(text)
        assert f"cohabit import {kind}" in cohabit("simulate", log).sentence()


# ---- policies, why, view, replay, demo, doctor ----------------------------------------------------------------------


def test_policies_lists_every_name() -> None:
    document = cohabit("policies", "--json").document
    contract = ["fcfs", "sjf", "ljf", "saf", "wfp", "unicef", "f1", "f2", "f3", "f4", "age", "multifactor"]
    assert set(contract) <= document["order"].keys()
    assert {"none", "easy", "conservative"} <= document["backfill"].keys()
    assert "exclusive" in document["placement"]
    assert {"ce", "ce-easy", "fifo"} <= document["policy"].keys()
    text = cohabit("policies").out
    for known in document.values():
        for name, about in known.items():
            assert about["summary"]
            assert about["source"]
            assert name in text


def test_why_a_job_waited(finished: Path) -> None:
    story = cohabit("why", "2", "--run", finished, "--json").document
    assert (story["submit_s"], story["start_s"], story["wait_s"], story["overtaken_by"]) == (1.0, 100.0, 99.0, 1)
    first = story["reasons"][0]
    assert first["at_s"] == 1.0
    assert "needs 8 nodes" in first["reason"]
    text = cohabit("why", "2", "--run", finished).out
    assert "waited 1 min 39 s" in text
    assert "needs 8 nodes" in text


def test_why_a_job_did_not_wait(finished: Path) -> None:
    story = cohabit("why", "3", "--run", finished, "--json").document
    assert (story["wait_s"], story["reasons"]) == (0.0, [])
    assert "at once" in story["summary"]


def test_why_a_job_was_rejected(finished: Path) -> None:
    story = cohabit("why", "4", "--run", finished, "--json").document
    assert story["status"] == "rejected"
    assert story["start_s"] is None
    assert "larger than the machine" in story["summary"]


def test_view_says_where_the_report_is(finished: Path) -> None:
    assert cohabit("view", finished, "--json").document == {"report": str(finished / "report.html")}


def test_view_makes_a_missing_report(trace: Path) -> None:
    out = trace.parent / "run"
    cohabit("simulate", trace, "--out", out, "--no-report", "--journal")
    assert not (out / "report.html").exists()
    assert cohabit("view", out, "--json").code == 0
    assert (out / "report.html").stat().st_size > 1000


@pytest.mark.parametrize("place", ["", "journal.parquet"])
def test_replay_gives_the_same_orders(finished: Path, place: str) -> None:
    answer = cohabit("replay", finished / place, "--verify", "--json")
    assert (answer.code, answer.err) == (0, "")
    document = answer.document
    assert (document["orders"], document["identical"], document["difference"]) == (3, True, None)
    assert "identical" in cohabit("replay", finished / place).out


def tampered(finished: Path, folder: Path) -> Path:
    """The run with its first start given to another job."""
    import polars as pl

    from cohabit.sim.journal import START

    for name in ("jobs.parquet", "journal.parquet"):
        (folder / name).write_bytes((finished / name).read_bytes())
    frame = pl.read_parquet(folder / "journal.parquet")
    rows = frame["row"].to_list()
    first = frame["kind"].to_list().index(START)
    rows[first] = (rows[first] + 1) % 3
    frame.with_columns(pl.Series("row", rows, dtype=frame["row"].dtype)).write_parquet(folder / "journal.parquet")
    return folder


def test_replay_of_a_changed_journal_fails(finished: Path, tmp_path: Path) -> None:
    answer = cohabit("replay", tampered(finished, tmp_path), "--verify", "--json")
    assert answer.document["identical"] is False
    assert answer.document["difference"]
    assert answer.code == 1


def test_doctor() -> None:
    document = cohabit("doctor", "--json").document
    assert document["ok"] is True
    findings = {finding["what"]: finding for finding in document["findings"]}
    assert findings["numpy"]["state"] == "ok"
    assert {"scikit-learn", "skops"} <= findings.keys()
    assert {finding["state"] for finding in findings.values()} <= {"ok", "optional", "missing"}
    assert "numpy" in cohabit("doctor").out


@pytest.mark.slow
def test_demo_in_the_simulator(tmp_path: Path) -> None:
    text = cohabit("demo", "--simulated", "--out", tmp_path / "out").out
    assert "report.html" in text
    last = text.strip().splitlines()[-1]
    assert last.startswith("On 8 simulated nodes")
    assert len(re.findall(r"(?:blind|exclusive) \d+ % later \(", last)) == 2, "cohabit is the winner"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report.html", "summary.json"]


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the demonstration needs two cores")
def test_demo_with_real_programs(tmp_path: Path) -> None:
    """The same jobs really run under each policy, in turns; every figure shown follows from what was recorded."""
    answer = cohabit("demo", "--out", tmp_path / "out", "--json")
    assert (answer.code, answer.err) == (0, "")
    assert {run["policy"] for run in answer.document["simulated"]["runs"]} == {"cohabit", "cs", "ce"}
    real = answer.document["real"]
    assert list(real["policies"]) == ["exclusive", "blind", "cohabit"]
    for found in real["policies"].values():
        assert (found["jobs"], len(found["makespans_s"]), len(found["wide_waits_s"])) == (7, 3, 3)
        assert min(found["makespans_s"]) > max(real["solo_s"].values()) / 2
    alone = real["policies"]["exclusive"]
    assert max(alone["makespans_s"]) >= 7 * alone["mean_run_s"] * 0.9  # one at a time
    assert min(real["policies"]["blind"]["makespans_s"]) < 7 * real["policies"]["blind"]["mean_run_s"]  # not so here
    waits = {policy: sorted(real["policies"][policy]["wide_waits_s"])[1] for policy in ("blind", "cohabit")}
    assert waits["cohabit"] < waits["blind"], "the job on both cores is promised a start"
    assert real["gained"].keys() == {"exclusive", "blind"}
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    assert (tmp_path / "out" / "degradation.csv").read_text().startswith(",stream,dense,remote\n")
