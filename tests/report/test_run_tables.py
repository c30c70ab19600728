"""jobs.csv, jobs.parquet and summary.json: exact text, exact round trips, whole files or none."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.model.errors import InputError
from cohabit.model.records import NEVER, NodeRanges, RunTable, Slowdowns
from cohabit.model.workload import Workload
from cohabit.report.summary_file import write_summary
from cohabit.report.tables import (
    node_list_column,
    node_ranges_of,
    read_jobs_parquet,
    seconds_column,
    write_jobs_csv,
    write_jobs_parquet,
)
from cohabit.whole_files import replacing

RunOf = Callable[..., RunTable]
COLUMNS = "job_id,program,user,submit_s,start_s,end_s,nodes,cores,scale,status,reason"


def same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and bool((left == right).all())
    if isinstance(left, NodeRanges):
        return all(same(getattr(left, part.name), getattr(right, part.name)) for part in fields(left))
    if isinstance(left, Workload):
        return all(same(getattr(left, part.name), getattr(right, part.name)) for part in fields(left))
    if isinstance(left, dict) and any(isinstance(value, np.ndarray) for value in left.values()):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list | tuple) or isinstance(right, list | tuple):
        return list(left) == list(right)
    return bool(left == right)


def test_the_csv_is_exactly_this(run_of: RunOf, tmp_path: Path) -> None:
    run = run_of([(7, 9, 20, 2), (3, None, None, 99), (8, 8, 8, 1)], reasons=("", "larger than the machine: 99 of 10"))
    run.reason[1] = 1
    write_jobs_csv(run, tmp_path / "jobs.csv")
    assert (tmp_path / "jobs.csv").read_text() == (
        f"{COLUMNS}\n"
        "1,,ada,7,9,20,2,2,1,done,\n"
        "2,,ada,3,,,0,0,1,rejected,larger than the machine: 99 of 10\n"
        "3,,ada,8,8,8,1,1,1,done,\n"
    )


def test_one_row_per_input_job_in_its_order_with_names(small_run: RunTable, tmp_path: Path) -> None:
    write_jobs_csv(small_run, tmp_path / "jobs.csv")
    with open(tmp_path / "jobs.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    jobs = small_run.workload
    assert [int(row["job_id"]) for row in rows] == jobs.job_id.tolist()
    assert [row["user"] for row in rows] == [jobs.user_names[user] for user in jobs.user]
    assert [int(row["submit_s"]) * 1_000_000 for row in rows] == jobs.submit_us.tolist()
    assert [row["start_s"] == "" for row in rows] == (small_run.start_us == NEVER).tolist()
    assert int(rows[0]["submit_s"]) > 1_000_000  # the trace's own clock, unshifted


@given(st.lists(st.integers(-(10**15), 4 * 10**15), min_size=1, max_size=20))
def test_decimal_seconds_are_exact_and_have_at_most_six_digits(times: list[int]) -> None:
    column = seconds_column("t", np.array(times, np.int64)).to_frame()
    lines = column.write_csv(float_scientific=False).splitlines()[1:]
    for text, us in zip(lines, times, strict=True):
        whole, _, part = text.partition(".")
        assert len(part) <= 6
        assert abs(int(whole)) * 10**6 + int(part.ljust(6, "0")) == abs(us)
    assert ("." in "".join(lines)) == any(us % 10**6 for us in times)


def test_a_column_with_one_fraction_keeps_the_others_whole(run_of: RunOf, tmp_path: Path) -> None:
    run = run_of([(1, 2.5, 3, 1), (2, None, None, 1), (5, 1479141234.123456, 1479141235, 1)])
    write_jobs_csv(run, tmp_path / "j.csv")
    rows = [line.split(",")[3:6] for line in (tmp_path / "j.csv").read_text().splitlines()[1:]]
    assert rows == [["1", "2.5", "3"], ["2", "", ""], ["5", "1479141234.123456", "1479141235"]]


def test_extra_columns_follow_where_the_workload_has_them(run_of: RunOf, tmp_path: Path) -> None:
    run = run_of([(0, 0, 1, 1), (0, 0, 1, 1)])
    extra = {
        "alpha": np.array([0.9, 0.8]), "domain": np.array(["a", "b,c"], object),
        "first_ready_s": np.array([np.nan, 4.5]),
    }  # fmt: skip
    run = replace(run, workload=replace(run.workload, extra=extra))
    write_jobs_csv(run, tmp_path / "j.csv")
    lines = (tmp_path / "j.csv").read_text().splitlines()
    assert lines[0] == COLUMNS + ",domain,first_ready_s"
    assert lines[1].endswith(",a,")
    assert lines[2].endswith(',"b,c",4.5')


def test_text_job_ids_and_awkward_names_survive(run_of: RunOf, tmp_path: Path) -> None:
    run = run_of([(0, 0, 1, 1), (0, 0, 1, 1)], user=np.array([0, 1], np.int32))
    names = ('say "hi", twice', "line\nbreak")
    run = replace(run, workload=replace(run.workload, job_id=np.array(["12_3", "x"], object), user_names=names))
    write_jobs_csv(run, tmp_path / "j.csv")
    with open(tmp_path / "j.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["job_id"], row["user"]) for row in rows] == [("12_3", names[0]), ("x", names[1])]


def test_the_parquet_file_alone_gives_the_run_back(small_run: RunTable, tmp_path: Path) -> None:
    write_jobs_parquet(small_run, tmp_path / "jobs.parquet")
    workload, columns = read_jobs_parquet(tmp_path / "jobs.parquet")
    again = RunTable(workload, **columns)
    for part in fields(RunTable):
        assert same(getattr(small_run, part.name), getattr(again, part.name)), part.name


def test_every_optional_column_comes_back_too(run_of: RunOf, tmp_path: Path) -> None:
    run = run_of([(0, 0, 1.25, 1), (0, None, None, 1)], user=np.array([-1, 3], np.int32))
    workload = replace(
        run.workload, memory_bytes=np.array([0, 2**40]), partition=np.array([1, -1], np.int32),
        partition_names=["batch", "debug"], after=[(), ("1", "7_2")], header={"Computer": "X"}, defects={"odd": 3},
        max_procs=64, source="a.swf", job_id=np.array(["a", "b"], object),
        extra={"alpha": np.array([0.5, 0.9]), "group": np.array(["g", None], object)},
    )  # fmt: skip
    slowdowns = Slowdowns(np.array([1.25, np.nan]), np.array([1.5, np.nan]))
    run = replace(run, workload=workload, settings={"cluster": {"nodes": 10}}, journal_hash="ab", slowdowns=slowdowns)
    write_jobs_parquet(run, tmp_path / "j.parquet")
    again, columns = read_jobs_parquet(tmp_path / "j.parquet")
    assert same(again, workload)
    assert columns["settings"] == {"cluster": {"nodes": 10}}
    assert columns["node_ranges"] is None
    stored = columns["slowdowns"]
    assert [stored.predicted[0], stored.measured[0]] == [1.25, 1.5]
    assert np.isnan([stored.predicted[1], stored.measured[1]]).all()
    assert columns["end_us"].tolist() == [1_250_000, NEVER]


def test_an_empty_run_can_be_written_and_read(run_of: RunOf, tmp_path: Path) -> None:
    run = run_of([])
    write_jobs_csv(run, tmp_path / "j.csv")
    assert (tmp_path / "j.csv").read_text() == COLUMNS + "\n"
    write_jobs_parquet(run, tmp_path / "j.parquet")
    assert len(read_jobs_parquet(tmp_path / "j.parquet")[0]) == 0


def test_a_foreign_parquet_file_is_an_input_error(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "other.parquet")
    (tmp_path / "text.parquet").write_text("no")
    for name in ("other.parquet", "text.parquet", "absent.parquet"):
        with pytest.raises(InputError, match=r"is not a jobs\.parquet"):
            read_jobs_parquet(tmp_path / name)


def test_node_lists_read_like_people_write_them() -> None:
    ranges = NodeRanges(np.array([0, 2, 2, 3]), np.array([0, 600, 7], np.int32), np.array([512, 1, 2], np.int32))
    assert node_list_column(ranges, 3).to_list() == ["0-511,600", None, "7-8"]
    assert node_list_column(None, 2).to_list() == [None, None]


@pytest.mark.slow
@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), max_size=4), min_size=1, max_size=12))
def test_node_lists_round_trip(jobs: list[list[tuple[int, int]]]) -> None:
    lengths = [len(parts) for parts in jobs]
    flat = [part for parts in jobs for part in parts]
    ranges = NodeRanges(
        np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        np.array([first for first, _ in flat], np.int32), np.array([count for _, count in flat], np.int32),
    )  # fmt: skip
    again = node_ranges_of(node_list_column(ranges, len(jobs)))
    assert again is None if not flat else same(ranges, again)


def test_the_summary_is_plain_json_with_nulls(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    write_summary({"jobs": np.int64(3), "metrics": {"mean_wait_s": None, "x": np.float64(0.5)}}, path)
    assert json.loads(path.read_text()) == {"jobs": 3, "metrics": {"mean_wait_s": None, "x": 0.5}}


def test_a_writer_that_fails_leaves_the_old_file_and_no_rubbish(tmp_path: Path) -> None:
    target = tmp_path / "jobs.csv"
    target.write_text("before")

    def fail_halfway() -> None:
        with replacing(target) as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_halfway()
    assert target.read_text() == "before"
    assert os.listdir(tmp_path) == ["jobs.csv"]


def test_an_unwritable_folder_is_one_sentence(run_of: RunOf, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = run_of([(0, 0, 1, 1)])
    for write in (write_jobs_csv, write_jobs_parquet):
        with pytest.raises(InputError) as caught:
            write(run, tmp_path / "file" / "jobs")
        assert "cannot be written" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["file"]


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    write_summary({}, tmp_path / "a" / "b" / "summary.json")
    assert (tmp_path / "a" / "b" / "summary.json").read_text() == "{}\n"


@pytest.mark.slow
def test_a_hundred_thousand_rows_round_trip(wide: Callable[..., RunTable], tmp_path: Path) -> None:
    run = wide(100_000)
    write_jobs_parquet(run, tmp_path / "j.parquet")
    workload, columns = read_jobs_parquet(tmp_path / "j.parquet")
    assert same(workload, run.workload)
    assert same(run.node_ranges, columns["node_ranges"])
