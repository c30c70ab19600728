"""The rules of jobs.csv and the sentence for everything that can be wrong in one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cohabit.model.errors import InputError
from cohabit.model.units import SECOND
from cohabit.model.workload import ACCEPTED, BAD_RUN, BAD_SIZE, Workload
from cohabit.trace.jobs_csv import check_dependencies, read_jobs_csv

HEADER = "job_id,program,processes,submit_s"


def read(folder: Path, text: str) -> Workload:
    path = folder / "jobs.csv"
    path.write_text(text, newline="")
    return read_jobs_csv(path)


def test_run_and_limit_may_be_absent(tmp_path: Path) -> None:
    jobs = read(tmp_path, f"{HEADER},run_s,limit_s\na,lu,16,0,,\nb,cg,28,1.5,60,\nc,cg,28,2,60,120\nd,cg,28,3,,90\n")
    assert jobs.run_us.tolist() == [-1, 60 * SECOND, 60 * SECOND, -1]
    assert jobs.limit_us.tolist() == [-1, 60 * SECOND, 120 * SECOND, 90 * SECOND]
    assert jobs.submit_us.tolist()[1] == 1_500_000
    assert jobs.program_names == ["cg", "lu"]
    assert jobs.program.tolist() == [1, 0, 0, 0]
    assert set(jobs.rejection.tolist()) == {ACCEPTED}
    assert jobs.job_id.tolist() == ["a", "b", "c", "d"]


def test_columns_in_any_order_blank_lines_and_carriage_returns(tmp_path: Path) -> None:
    jobs = read(tmp_path, "submit_s, processes ,program,job_id\r\n5,4,lu,2\r\n\r\n1,4,lu,1\r\n")
    assert jobs.job_id.tolist() == [2, 1]
    assert jobs.defects == {"submit times earlier than on the line before": 1}


def test_impossible_jobs_are_rejected_not_refused(tmp_path: Path) -> None:
    jobs = read(tmp_path, f"{HEADER},run_s\n1,lu,4,0,-1\n2,lu,0,0,5\n3,lu,4,0,0\n")
    assert jobs.rejection.tolist() == [BAD_RUN, BAD_SIZE, ACCEPTED]


def test_memory_is_for_the_job_and_kept_per_process(tmp_path: Path) -> None:
    jobs = read(tmp_path, f"{HEADER},memory_mb\n1,lu,4,0,100\n2,lu,3,0,\n")
    assert jobs.memory_bytes is not None
    assert jobs.memory_bytes.tolist() == [25 * 2**20, 0]


def test_the_columns_of_later_policies(tmp_path: Path) -> None:
    jobs = read(
        tmp_path,
        f"{HEADER},alpha,user,mate,group,skip_threshold,workload_type,after,partition\n"
        "1,lu,4,0,0.9,ann,B:7,g,3,io,,fast\n2,lu,4,0,,,,,,,1,\n3,lu,4,0,,,,,,,1; 2,\n",
    )
    np.testing.assert_array_equal(jobs.extra["alpha"], [0.9, np.nan, np.nan])
    assert jobs.extra["skip_threshold"].tolist() == [3, -1, -1]
    assert [jobs.extra[name].tolist()[0] for name in ("mate", "group", "workload_type")] == ["B:7", "g", "io"]
    assert jobs.after == [(), ("1",), ("1", "2")]
    assert jobs.user.tolist() == [0, -1, -1]
    assert jobs.partition is not None
    assert jobs.partition.tolist() == [0, -1, -1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "has no jobs"),
        (f"{HEADER}\n", "has no jobs"),
        ("job_id,progam,processes,submit_s\n1,a,1,0\n", "line 1: unknown column 'progam'; did you mean program?"),
        ("job_id,program,processes,submit_s,zzz\n1,a,1,0,\n", "known are job_id"),
        ("job_id,program,processes\n1,a,1\n", "line 1: has no column submit_s"),
        (f"{HEADER},program\n1,a,1,0,b\n", "column program comes twice"),
        (f"{HEADER}\n1,a,4,0\n\n2,a,x,0\n", "line 4, processes: 'x' is not a whole number"),
        (f"{HEADER}\n1,a,4,soon\n", "line 2, submit_s: 'soon' is not a number of seconds"),
        (f"{HEADER}\n1,a,4,\n", "line 2, submit_s: is empty"),
        (f"{HEADER}\n1,a,4,nan\n", "line 2, submit_s"),
        (f"{HEADER}\n1,,4,0\n", "line 2, run_s: is empty and so is program"),
        (f"{HEADER}\n1,a,4,0\n7,b,4,0\n1,c,4,0\n", "line 4, job_id: 1 is already used on line 2"),
        (f"{HEADER}\nx y,a,4,0\n", "line 2, job_id: 'x y' contains a space"),
        (f"{HEADER}\n1,a,4,0,9,9\n", "line 2: has 6 columns where the header has 4"),
        (f"{HEADER},user\n1,a,4,0,u\n2,a,4,0", "line 3: the last line is cut short"),
        (f"{HEADER},after\n1,a,4,0,\n2,a,4,0,5\n", "line 3, after: job 5 does not exist"),
        (f"{HEADER},after\n1,a,4,0,2\n2,a,4,0,1\n", "line 2, after: job 1 depends on itself"),
        (f"{HEADER},after\n1,a,4,0,1\n", "line 2, after: job 1 depends on itself"),
        (f"{HEADER},alpha\n1,a,4,0,1.5\n", "line 2, alpha: '1.5' is not above 0 and at most 1"),
        (f"{HEADER},memory_mb\n1,a,4,0,-5\n", "line 2, memory_mb: '-5' is not a size in MB"),
        (f"{HEADER},skip_threshold\n1,a,4,0,1.5\n", "line 2, skip_threshold: '1.5' is not a whole number"),
        (f"{HEADER},account\n1,a,4,0,p\n2,a,4,0,p q\n", "line 3, account: 'p q' is no account"),
        (f'{HEADER}\n1,"a,4,0\n', "jobs.csv"),
    ],
)
def test_every_mistake_has_its_sentence(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_text_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes(f"{HEADER}\n1,caf\u00e9,4,0\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"line 2: is not UTF-8"):
        read_jobs_csv(path)


def test_a_long_chain_of_dependencies_is_checked_in_linear_time() -> None:
    ids = [str(row) for row in range(50_000)]
    backwards = [(str(row + 1),) if row < 49_999 else () for row in range(50_000)]
    check_dependencies(ids, backwards, str)
    with pytest.raises(InputError, match="circular"):
        check_dependencies(ids, [*backwards[:-1], ("0",)], str)


def test_columns_are_ordinary_writable_arrays(tmp_path: Path) -> None:
    jobs = read(tmp_path, f"{HEADER},run_s,alpha,memory_mb\n1,lu,4,0,5,0.9,8\n")
    columns = (jobs.job_id, jobs.submit_us, jobs.run_us, jobs.limit_us, jobs.processes, jobs.user, jobs.program)
    assert all(column.flags.writeable for column in (*columns, jobs.rejection, jobs.extra["alpha"]))
    assert [column.dtype for column in columns[:5]] == [np.int64] * 5
    assert jobs.user.dtype == jobs.program.dtype == np.int32
