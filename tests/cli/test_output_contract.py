"""What simulate leaves behind: the JSON document, the files of --out, the columns and rows of jobs.csv."""

from __future__ import annotations

import csv
import gzip
import json
import lzma
from pathlib import Path

import pytest
from cli_calls import EXAMPLE, JOB_A, JOB_B, JOB_C, cohabit, program

KEYS = {
    "jobs", "rejected", "events", "wall_s", "jobs_per_s", "rss_mb", "seed", "scenario_hash", "journal_hash", "version",
    "metrics",
}  # fmt: skip
METRICS = {
    "mean_wait_s", "max_wait_s", "mean_turnaround_s", "mean_slowdown", "mean_bounded_slowdown", "utilisation",
    "makespan_s", "throughput_per_s", "node_hours",
}  # fmt: skip
COLUMNS = ["job_id", "program", "user", "submit_s", "start_s", "end_s", "nodes", "cores", "scale", "status", "reason"]


def simulated(path: Path, *options: str | Path) -> list[dict[str, str]]:
    """The rows of jobs.csv."""
    folder = path.parent / "run"
    answer = cohabit("simulate", path, "--out", folder, "--no-report", "--json", *options)
    assert answer.code == 0, answer.err
    with (folder / "jobs.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def swf(folder: Path, *lines: str, nodes: int = 10) -> Path:
    path = folder / "jobs.swf"
    path.write_text(f"; MaxNodes: {nodes}\n" + "".join(f"{line}\n" for line in lines))
    return path


def job(number: int, submit: float, run: float, size: int, request: int = -1) -> str:
    return f"{number} {submit} -1 {run} {size} -1 -1 {size} {request} -1 1 1 1 1 1 1 -1 -1"


def test_the_document_on_stdout(trace: Path) -> None:
    answer = cohabit("simulate", trace, "--json")
    document = answer.document
    assert answer.err == ""
    assert document.keys() >= KEYS
    assert document["metrics"].keys() >= METRICS
    assert (document["jobs"], document["rejected"], document["events"], document["seed"]) == (3, 0, 6, 1)
    metrics = document["metrics"]
    assert metrics["mean_wait_s"] == 33.0
    assert metrics["max_wait_s"] == 99.0
    assert metrics["makespan_s"] == 1002.0
    assert metrics["mean_turnaround_s"] == pytest.approx((100 + 159 + 1000) / 3)
    assert metrics["throughput_per_s"] == pytest.approx(3 / 1259)
    assert metrics["utilisation"] == pytest.approx((600 + 480 + 2000) / (10 * 1002))
    assert metrics["node_hours"] == pytest.approx(3080 / 3600)


def test_the_same_call_gives_the_same_hashes(trace: Path) -> None:
    first, again = (cohabit("simulate", trace, "--json").document for _ in range(2))
    other = cohabit("simulate", trace, "--backfill", "none", "--json").document
    for key in ("scenario_hash", "journal_hash"):
        assert first[key] == again[key] != other[key]


def test_the_example_of_the_contract(trace: Path) -> None:
    rows = simulated(trace)
    assert list(rows[0]) == COLUMNS
    assert [(row["job_id"], row["start_s"], row["end_s"]) for row in rows] == [
        ("1", "0", "100"), ("2", "100", "160"), ("3", "2", "1002"),
    ]  # fmt: skip
    assert rows[1] == dict(zip(COLUMNS, ["2", "1", "2", "1", "100", "160", "8", "8", "1", "done", ""], strict=True))


@pytest.mark.parametrize(
    ("backfill", "starts"),
    [
        ("easy", ["0", "100", "2"]), ("1", ["0", "100", "2"]), ("2", ["0", "100", "2"]), ("none", ["0", "100", "100"]),
        ("0", ["0", "100", "100"]), ("conservative", ["0", "100", "2"]), ("first-fit", ["0", "100", "2"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("engine", ["fast", "steps"])
def test_the_example_under_every_kind_of_backfilling(
    trace: Path, backfill: str, starts: list[str], engine: str
) -> None:
    rows = simulated(trace, "--backfill", backfill, "--engine", engine)
    assert [row["start_s"] for row in rows] == starts


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_compressed_traces_give_the_same(trace: Path, pack) -> None:  # type: ignore[no-untyped-def]
    plain = simulated(trace)
    packed = trace.with_name("packed.swf.z")
    packed.write_bytes(pack(EXAMPLE.encode()))
    assert simulated(packed) == plain


def test_rows_stay_in_file_order_and_times_on_the_traces_clock(tmp_path: Path) -> None:
    base = 1_000_000_000
    path = swf(tmp_path, job(7, base + 50, 5, 10), job(3, base, 100, 10), job(9, base + 20, 5, 4))
    rows = simulated(path)
    assert [row["job_id"] for row in rows] == ["7", "3", "9"]
    assert [int(row["submit_s"]) - base for row in rows] == [50, 0, 20]
    assert [int(row["start_s"]) - base for row in rows] == [105, 0, 100]


def test_negative_times_and_fractions_stay_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,program,processes,submit_s,run_s\na,x,10,-5,2.25\nb,x,10,-4.5,1\n")
    rows = simulated(path, "--nodes", "10")
    assert [float(row["submit_s"]) for row in rows] == [-5.0, -4.5]
    assert [float(row["start_s"]) for row in rows] == [-5.0, -2.75]
    assert [float(row["end_s"]) for row in rows] == [-2.75, -1.75]


def test_jobs_that_cannot_run_stay_in_the_table_with_a_reason(tmp_path: Path) -> None:
    path = swf(tmp_path, job(1, 0, 10, 4), job(2, 0, -1, 4), job(3, 0, 10, 0), job(4, 0, 10, 11))
    rows = simulated(path)
    assert [row["status"] for row in rows] == ["done", "rejected", "rejected", "rejected"]
    for row in rows[1:]:
        assert (row["start_s"], row["end_s"]) == ("", "")
        assert row["reason"]
    assert len({row["reason"] for row in rows}) == 4
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["jobs"], summary["rejected"]) == (1, 3)


def test_rejections_are_told_on_stderr(tmp_path: Path) -> None:
    answer = cohabit("simulate", swf(tmp_path, job(1, 0, 10, 4), job(2, 0, -1, 4)), "--json")
    assert answer.document["rejected"] == 1
    assert answer.err.startswith("cohabit: 1 job")


def fates(rows: list[dict[str, str]]) -> list[tuple[str, str, str]]:
    return [(row["start_s"], row["end_s"], row["status"]) for row in rows]


def test_a_run_longer_than_its_request(tmp_path: Path) -> None:
    path = swf(tmp_path, job(1, 0, 100, 10, request=40), job(2, 1, 5, 10, request=5))
    cut = simulated(path)
    assert fates(cut) == [("0", "40", "killed"), ("40", "45", "done")]
    assert cut[0]["reason"]
    kept = simulated(path, "--no-kill")
    assert fates(kept) == [("0", "100", "done"), ("100", "105", "done")]


def test_sizes_and_requests_follow_the_fields(tmp_path: Path) -> None:
    """Field 8 wins over field 5, and the run time stands in for a missing request."""
    path = swf(tmp_path, "1 0 -1 10 3 -1 -1 6 -1 -1 1 1 1 1 1 1 -1 -1", "2 0 -1 10 5 -1 -1 -1 0 -1 1 1 1 1 1 1 -1 -1")
    rows = simulated(path)
    assert [row["nodes"] for row in rows] == ["6", "5"]
    assert [row["start_s"] for row in rows] == ["0", "10"]


def test_processors_are_packed_into_nodes_of_several_cores(tmp_path: Path) -> None:
    rows = simulated(swf(tmp_path, job(1, 0, 10, 9), job(2, 0, 10, 4)), "--nodes", "4", "--cores", "4")
    assert [(row["nodes"], row["cores"], row["start_s"]) for row in rows] == [("3", "9", "0"), ("1", "4", "0")]


def test_the_machine_is_nodes_then_processors_then_the_option(tmp_path: Path) -> None:
    path = tmp_path / "jobs.swf"
    path.write_text("; MaxProcs: 20\n" + JOB_A + JOB_B + JOB_C)
    assert [row["start_s"] for row in simulated(path)] == ["0", "1", "2"]
    path.write_text("; MaxProcs: 20\n; MaxNodes: 10\n" + JOB_A + JOB_B + JOB_C)
    assert [row["start_s"] for row in simulated(path)] == ["0", "100", "2"]
    assert [row["start_s"] for row in simulated(path, "--nodes", "20")] == ["0", "1", "2"]


def test_a_job_of_no_length_ends_where_it_starts(tmp_path: Path) -> None:
    rows = simulated(swf(tmp_path, job(1, 5, 0, 10), job(2, 5, 0, 10), job(3, 5, 7, 10)))
    assert [(row["start_s"], row["end_s"]) for row in rows] == [("5", "5"), ("5", "5"), ("5", "12")]


def test_files_of_a_run(trace: Path) -> None:
    folder = trace.parent / "run"
    cohabit("simulate", trace, "--out", folder, "--no-report")
    assert sorted(path.name for path in folder.iterdir()) == ["jobs.csv", "summary.json"]
    answer = cohabit("simulate", trace, "--out", folder, "--journal", "--json")
    names = ["jobs.csv", "jobs.parquet", "journal.parquet", "report.html", "summary.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    summary = json.loads((folder / "summary.json").read_text())
    assert {key: summary[key] for key in answer.document} == answer.document
    page = (folder / "report.html").read_text()
    assert "<script src=" not in page
    assert "<link " not in page


def test_parquet_has_the_same_rows_and_the_node_lists(finished: Path) -> None:
    import polars as pl

    with (finished / "jobs.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    frame = pl.read_parquet(finished / "jobs.parquet")
    assert list(frame.columns)[: len(COLUMNS)] == COLUMNS
    assert frame["job_id"].cast(pl.String).to_list() == [row["job_id"] for row in rows]
    assert {"node_list", "shares"} <= set(frame.columns)


def test_the_table_for_people_goes_to_stdout(trace: Path) -> None:
    answer = cohabit("simulate", trace)
    assert answer.code == 0
    assert "Mean wait" in answer.out
    assert "33 s" in answer.out
    assert answer.err == ""


def test_the_real_program_end_to_end(trace: Path) -> None:
    answer = program("simulate", "abc.swf", "--out", "deep/run", "--json", folder=trace.parent)
    assert answer.code == 0, answer.err
    assert answer.document["jobs"] == 3
    assert (trace.parent / "deep" / "run" / "report.html").is_file()


ORDER = """
CHANGING = False


def scores(jobs, rows, now_us):
    return -jobs.limit_us[rows]
"""


def test_an_order_of_ones_own(trace: Path) -> None:
    mine = trace.with_name("mine.py")
    mine.write_text(ORDER)
    rows = simulated(trace, "--order", mine, "--backfill", "none")
    longest = simulated(trace, "--order", "ljf", "--backfill", "none")
    assert rows == longest


def test_another_text_of_an_order_is_another_scenario(trace: Path) -> None:
    mine = trace.with_name("mine.py")
    hashes = []
    for sign in ("-", "+"):
        mine.write_text(ORDER.replace("return -", f"return {sign}"))
        hashes.append(cohabit("simulate", trace, "--order", mine, "--json").document["scenario_hash"])
    assert hashes[0] != hashes[1]


def test_a_job_after_one_that_can_never_run_never_runs(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,program,processes,submit_s,run_s,after\na,x,20,0,5,\nb,x,1,0,5,a\nc,x,1,0,5,\n")
    rows = simulated(path, "--nodes", "10")
    assert rows[1]["start_s"] == ""
    assert rows[1]["status"] in ("cancelled", "rejected")
    assert rows[1]["reason"] == "waits for a job that was rejected"
    assert rows[2]["status"] == "done"
