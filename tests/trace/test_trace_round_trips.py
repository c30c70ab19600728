"""What is written is read back: SWF and jobs.csv as properties over random workloads, and the way files appear."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_strategies import decoded, same_jobs, workloads

from cohabit.model.errors import InputError
from cohabit.model.workload import Workload
from cohabit.trace.catalogue import read_trace, write_trace
from cohabit.trace.jobs_csv import read_jobs_csv, write_jobs_csv
from cohabit.trace.mix import generate_mix
from cohabit.trace.poisson import generate_poisson
from cohabit.trace.sacct import parse as parse_sacct
from cohabit.trace.swf import read_swf, write_swf
from tests.breadth import examples


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("round")


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(before=workloads(for_csv=False))
def test_swf_round_trip(folder: Path, before: Workload) -> None:
    path = folder / "t.swf"
    write_swf(before, path)
    after = read_swf(path, every_field=True)
    same_jobs(before, after)
    assert (after.max_nodes, after.max_procs) == (before.max_nodes, before.max_procs)
    assert after.memory_bytes is not None
    assert before.memory_bytes is not None
    assert after.memory_bytes.tolist() == before.memory_bytes.tolist()
    assert before.partition is not None
    read_partition = np.full(len(after), -1) if after.partition is None else after.partition
    assert decoded(read_partition, after.partition_names) == decoded(before.partition, before.partition_names)
    write_swf(after, path)
    again = read_swf(path, every_field=True)
    same_jobs(after, again)
    for name, column in after.extra.items():
        assert again.extra[name].tolist() == column.tolist()


@pytest.mark.parametrize("accounts", [["physics", "", "chem"], ["7", "", "3"]])
def test_accounts_are_the_groups_of_swf_and_a_column_of_jobs_csv(folder: Path, accounts: list[str]) -> None:
    before = generate_poisson(np.random.default_rng(1), 3, 4)
    before.extra["account"] = np.array(accounts, np.object_)
    for name in ("t.swf", "t.csv"):
        write_trace(before, folder / name)
        assert read_trace(folder / name, accounts=True).extra["account"].tolist() == accounts
    assert "account" not in read_trace(folder / "t.swf").extra


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(before=workloads(for_csv=True), data=st.data())
def test_jobs_csv_round_trip(folder: Path, before: Workload, data: st.DataObject) -> None:
    jobs = len(before)

    def column(values: list[object]) -> list[object]:
        return data.draw(st.lists(st.sampled_from(values), min_size=jobs, max_size=jobs))

    before.extra["group"] = np.array(column(["", "x", 'a "b", c']), np.object_)
    before.extra["alpha"] = np.array(column([np.nan, 0.9, 1.0]), np.float64)
    before.extra["skip_threshold"] = np.array(column([-1, 0, 5]), np.int64)
    ids = [str(job) for job in before.job_id.tolist()]
    waits = tuple(tuple(ids[:row][: data.draw(st.integers(0, 2))]) for row in range(jobs))
    before = Workload(**{**before.__dict__, "after": waits})
    known = (before.program >= 0) | (before.run_us != -1)
    assert known.all()
    path = folder / "t.csv"
    write_jobs_csv(before, path)
    after = read_jobs_csv(path)
    same_jobs(before, after)
    assert tuple(after.after or ()) == waits
    assert after.extra["group"].tolist() == before.extra["group"].tolist()
    np.testing.assert_array_equal(after.extra["alpha"], before.extra["alpha"])
    assert after.extra["skip_threshold"].tolist() == before.extra["skip_threshold"].tolist()
    assert after.memory_bytes is not None
    assert before.memory_bytes is not None
    assert after.memory_bytes.tolist() == before.memory_bytes.tolist()


@pytest.mark.parametrize("name", ["t.swf", "t.swf.gz", "t.swf.xz", "t.csv", "t.csv.xz"])
def test_every_ending_can_be_written_and_recognised(tmp_path: Path, name: str) -> None:
    before = generate_poisson(np.random.default_rng(3), 500, 64, load=0.9)
    write_trace(before, tmp_path / name)
    same_jobs(before, read_trace(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_names_survive_in_swf(tmp_path: Path) -> None:
    mix = generate_mix(np.random.default_rng(1), 20, {"lu": 1, "my solver": 2}, [4], median_run_s=60)
    write_swf(mix, tmp_path / "t.swf")
    assert read_swf(tmp_path / "t.swf").program_names == ["lu", "my solver"]


def test_swf_needs_run_times_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without a run time"):
        write_swf(generate_mix(np.random.default_rng(1), 3, {"lu": 1}, [4]), tmp_path / "t.swf")
    assert list(tmp_path.iterdir()) == []


def test_ids_that_are_not_numbers_become_rows_in_swf(tmp_path: Path) -> None:
    jobs = parse_sacct("JobID|Submit|NCPUS|ElapsedRaw\n5_1|2024-01-01T00:00:00|2|7\n5_2|2024-01-01T00:00:00|2|8\n")
    assert jobs.job_id.tolist() == ["5_1", "5_2"]
    write_swf(jobs, tmp_path / "t.swf")
    assert read_swf(tmp_path / "t.swf").job_id.tolist() == [1, 2]


def test_places_that_cannot_be_written_and_names_without_meaning(tmp_path: Path) -> None:
    jobs = generate_poisson(np.random.default_rng(3), 5, 8)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        write_trace(jobs, tmp_path / "file" / "t.swf")
    (tmp_path / "folder.swf").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_trace(jobs, tmp_path / "folder.swf")
    with pytest.raises(InputError, match="no known ending"):
        write_trace(jobs, tmp_path / "t.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.swf"]


def test_a_header_remark_is_kept_only_while_it_is_true(tmp_path: Path) -> None:
    path = tmp_path / "t.swf"
    path.write_text(
        "; MaxNodes: 338 (512 total)\n; Note: one\n; Note: two\n1 0 -1 5 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1\n"
    )
    jobs = read_swf(path)
    write_swf(jobs, path)
    assert "; MaxNodes: 338 (512 total)\n" in path.read_text()
    assert read_swf(path).header["Note"] == "one\ntwo"
    write_swf(Workload(**{**jobs.__dict__, "max_nodes": 400}), path)
    assert "; MaxNodes: 400\n" in path.read_text()
