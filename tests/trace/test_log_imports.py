"""The five importers: what each understands of its log, what it skips and counts, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cohabit.model.errors import InputError
from cohabit.model.units import HOUR, MINUTE, SECOND
from cohabit.model.workload import ACCEPTED, BAD_RUN
from cohabit.trace import atlas, cobalt, gridengine, lumos, sacct
from cohabit.trace.catalogue import READERS, read_trace

JANUARY_US = int(datetime(2024, 1, 5, 12, tzinfo=UTC).timestamp()) * SECOND

SACCT_HEADER = "JobID|User|JobName|Partition|State|Submit|Start|End|Elapsed|Timelimit|NNodes|NCPUS|ReqMem\n"
SACCT_JOB = (
    "7|ann|solve|batch|COMPLETED|2024-01-05T12:00:00|2024-01-05T12:10:00|2024-01-05T13:10:00|"
    "01:00:00|1-02:00:00|2|64|4Gn\n"
)


def sacct_row(**changes: str) -> str:
    cells = dict(zip(SACCT_HEADER.strip().split("|"), SACCT_JOB.strip().split("|"), strict=True)) | changes
    return "|".join(cells.values()) + "\n"


def test_sacct_reads_a_job() -> None:
    jobs = sacct.parse(SACCT_HEADER + SACCT_JOB)
    assert jobs.job_id.tolist() == [7]
    assert jobs.submit_us.tolist() == [JANUARY_US]
    assert jobs.run_us.tolist() == [HOUR]
    assert jobs.limit_us.tolist() == [26 * HOUR]
    assert jobs.processes.tolist() == [64]
    assert jobs.extra["nodes"].tolist() == [2]
    assert jobs.memory_bytes is not None
    assert jobs.memory_bytes.tolist() == [2 * 4 * 2**30 // 64]
    assert (jobs.user_names, jobs.program_names, jobs.partition_names) == (["ann"], ["solve"], ["batch"])
    charged = sacct.parse(SACCT_HEADER.strip() + "|Account\n" + SACCT_JOB.strip() + "|physics\n")
    assert (charged.extra["account"].tolist(), "account" in jobs.extra) == (["physics"], False)


def test_sacct_skips_steps_and_keeps_arrays_and_heterogeneous_parts() -> None:
    rows = [sacct_row(JobID=job) for job in ("7", "7.batch", "7.0", "8_4", "8_4.extern", "9+1", "10_[5-9]")]
    jobs = sacct.parse(SACCT_HEADER + "".join(rows))
    assert jobs.job_id.tolist() == ["7", "8_4", "9+1", "10_[5-9]"]
    assert jobs.defects["job steps, skipped"] == 3
    assert jobs.defects["parts of heterogeneous jobs, each taken as a job"] == 1


def test_sacct_jobs_that_did_not_run_are_rejected() -> None:
    rows = [
        sacct_row(JobID="1", State="CANCELLED by 1000", Start="Unknown", End="2024-01-05T12:30:00", Elapsed="00:00:00"),
        sacct_row(JobID="2", State="CANCELLED", Start="None", Elapsed="00:00:00"),
        sacct_row(JobID="3", State="PENDING", Start="Unknown", End="Unknown", Elapsed="00:00:00"),
        sacct_row(JobID="4", State="RUNNING", End="Unknown"),
        sacct_row(JobID="5", State="CANCELLED by 1000"),
    ]
    jobs = sacct.parse(SACCT_HEADER + "".join(rows))
    assert jobs.rejection.tolist() == [BAD_RUN] * 4 + [ACCEPTED]
    assert jobs.defects["jobs that never started, cancelled while they waited"] == 2
    assert jobs.defects["jobs not finished when the report was made"] == 2


@pytest.mark.parametrize("limit", ["UNLIMITED", "Partition_Limit", ""])
def test_sacct_without_a_limit_asks_for_the_run_time(limit: str) -> None:
    jobs = sacct.parse(SACCT_HEADER + sacct_row(Timelimit=limit))
    assert jobs.limit_us.tolist() == [HOUR]
    assert jobs.defects == {"jobs without a time limit": 1}


def test_sacct_raw_columns_epoch_dates_and_names_with_the_separator() -> None:
    header = "JobID|Submit|Start|End|JobName|ElapsedRaw|TimelimitRaw|ReqCPUS|ReqMem\n"
    row = "7|1704456000|1704456060|1704456160|a|b|c|100|90|4|2Gc\n"
    jobs = sacct.parse(header + row)
    assert jobs.submit_us.tolist() == [JANUARY_US]
    assert jobs.run_us.tolist() == [100 * SECOND]
    assert jobs.limit_us.tolist() == [90 * MINUTE]
    assert jobs.program_names == ["a|b|c"]
    assert jobs.memory_bytes is not None
    assert jobs.memory_bytes.tolist() == [2 * 2**30]


def test_sacct_falls_back_to_dates_and_nodes() -> None:
    header = "JobID|Submit|Start|End|NNodes\n"
    jobs = sacct.parse(header + "7|2024-01-05T12:00:00|2024-01-05T12:00:00|2024-01-05T12:00:30|3\n")
    assert jobs.run_us.tolist() == [30 * SECOND]
    assert jobs.processes.tolist() == [3]
    assert jobs.defects["jobs without a processor count, counted in nodes"] == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "line 1: has no header row"),
        ("1 2 3\n", "line 1: has no header row"),
        (SACCT_HEADER, "has no jobs"),
        (SACCT_HEADER + "7|ann|solve\n", "line 2: has 3 columns where the header has 13"),
        (SACCT_HEADER + sacct_row(Submit="yesterday"), "line 2, Submit: 'yesterday' is not a date"),
        (SACCT_HEADER + sacct_row(Submit="Unknown"), "line 2, Submit: has no submit time"),
        (SACCT_HEADER + sacct_row(Elapsed="long"), "line 2, Elapsed"),
        (SACCT_HEADER + sacct_row(Timelimit="short"), "line 2, Timelimit"),
    ],
)
def test_sacct_refuses(text: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        sacct.parse(text)
    assert expected in str(caught.value)


def grid_engine_line(**changes: str) -> str:
    fields = ["0"] * 45
    named = {
        "qname": (0, "all.q"), "hostname": (1, "n1"), "group": (2, "g"), "owner": (3, "ann"), "job_name": (4, "solve"),
        "job_number": (5, "99"), "account": (6, "sge"), "submitted": (8, "1704456000"), "started": (9, "1704456060"),
        "ended": (10, "1704459660"), "failed": (11, "0"), "wallclock": (13, "3600"), "project": (31, "p"),
        "department": (32, "d"), "granted_pe": (33, "mpi"), "slots": (34, "16"), "task": (35, "0"),
        "category": (39, "-U x -l h_rt=7200,h_vmem=2G -pe mpi 16"), "pe_taskid": (41, "NONE"),
    }  # fmt: skip
    for name, (place, value) in named.items():
        fields[place] = changes.get(name, value)
    return ":".join(fields) + "\n"


def test_gridengine_reads_a_job() -> None:
    jobs = gridengine.parse("# Version: 8.1.9\n#\n" + grid_engine_line())
    assert jobs.job_id.tolist() == [99]
    assert jobs.submit_us.tolist() == [JANUARY_US]
    assert jobs.run_us.tolist() == [HOUR]
    assert jobs.limit_us.tolist() == [2 * HOUR]
    assert jobs.processes.tolist() == [16]
    assert jobs.memory_bytes is not None
    assert jobs.memory_bytes.tolist() == [2 * 2**30]
    assert (jobs.user_names, jobs.program_names, jobs.partition_names) == (["ann"], ["solve"], ["all.q"])
    assert jobs.extra["account"].tolist() == ["p"]
    assert "account" not in gridengine.parse(grid_engine_line(project="NONE")).extra


def test_gridengine_arrays_milliseconds_clock_limits_and_parallel_tasks() -> None:
    times = {"submitted": "1704456000123", "started": "1704456060000", "ended": "1704456061500"}
    text = (
        grid_engine_line(task="3")
        + grid_engine_line(**times)
        + grid_engine_line(category="-l h_rt=01:30:00,h_vmem=500M")
        + grid_engine_line(pe_taskid="1.n2")
        + grid_engine_line(category="NONE")
    )
    jobs = gridengine.parse(text)
    assert jobs.job_id.tolist() == ["99.3", "99", "99", "99"]
    assert jobs.submit_us.tolist()[1] == JANUARY_US + 123_000
    assert jobs.run_us.tolist()[1] == 1_500_000
    assert jobs.limit_us.tolist()[2] == 90 * MINUTE
    assert jobs.limit_us.tolist()[3] == HOUR
    assert jobs.defects["lines of parallel tasks within a job, skipped"] == 1
    assert jobs.defects["jobs without a time limit"] == 1
    assert jobs.defects["job ids used before"] == 2


def test_gridengine_failed_starts_and_backward_clocks() -> None:
    jobs = gridengine.parse(
        grid_engine_line(started="0", ended="0", failed="26") + grid_engine_line(ended="1704456000", wallclock="5.5")
    )
    assert jobs.rejection.tolist() == [BAD_RUN, ACCEPTED]
    assert jobs.run_us.tolist()[1] == 5_500_000
    assert jobs.defects["jobs that never started"] == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "has no jobs"),
        ("qname all.q\n", "line 1: has 1 fields where an accounting line has 45"),
        (grid_engine_line() + grid_engine_line(slots="many"), "line 2: has a field that is not a number"),
    ],
)
def test_gridengine_refuses(text: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        gridengine.parse(text)
    assert expected in str(caught.value)


LUMOS_HEADER = (
    ",job,user,project,state,gpu_num,cpu_num,node_num,submit_time,wait_time,run_time,wall_time,node_hour,new_status\n"
)


def test_lumos_reads_both_machines() -> None:
    jobs = lumos.parse(
        LUMOS_HEADER
        + "0,639487,70296325381051.0,0.0,0,0,512.0,8.0,1672529301,71,3632.92,3600.0,8.07,Killed\n"
        + "1,10120170,0.0,3.0,0,2.0,0,1.0,1672529197.0,5.0,2305.54,,0.64,Pass\n"
        + "2,10120171,,3.0,0,2.0,0,0.0,1672529199.5,5.0,-1,60,0.64,Pass\n"
    )
    assert jobs.job_id.tolist() == [639487, 10120170, 10120171]
    assert jobs.processes.tolist() == [8, 1, 2]
    assert jobs.run_us.tolist() == [3_632_920_000, 2_305_540_000, -SECOND]
    assert jobs.limit_us.tolist() == [HOUR, 2_305_540_000, MINUTE]
    assert jobs.submit_us.tolist()[2] == 1_672_529_199_500_000
    assert jobs.extra["gpus"].tolist() == [0, 2, 2]
    assert jobs.user.tolist() == [1, 0, -1]
    assert jobs.user_names == ["0", "70296325381051"]
    assert jobs.defects["jobs without a node count, counted in GPUs or processors"] == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "line 1: has no column job"),
        ("a,b\n1,2\n", "line 1: has no column job"),
        (LUMOS_HEADER, "has no jobs"),
        (LUMOS_HEADER + "0,1,0,0,0,0,1,1,x,0,1,1,1,Pass\n", "line 2, submit_time: 'x' is not a number"),
        (LUMOS_HEADER + "0,1,0,0,0\n", "line 2, submit_time: is empty"),
    ],
)
def test_lumos_refuses(text: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        lumos.parse(text)
    assert expected in str(caught.value)


COBALT_LOG = (
    "04/03/2019 00:31:56;Q;327220;queue=default\n"
    '04/03/2019 00:32:17;S;327220;Resource_List.ncpus=3000 Resource_List.nodect=3000 Resource_List.walltime=1:00:00 '
    'args= ctime=1554251516.32 exe=/home/ann/bin/solve exec_host="0-4, 6-7" jobname=x qtime=1554251516.5 queue=default '
    "start=1554251537.0 user=ann\n"
    "04/03/2019 01:00:00;E;327220;end=1554253200.25 Exit_status=0 start=1554251537.0\n"
    "04/03/2019 01:00:00;Q;327221;queue=debug Resource_List.nodect=8 Resource_List.walltime=00:30:00\n"
    "restarted\n"
)  # fmt: skip


def test_cobalt_joins_the_lines_of_a_job() -> None:
    jobs = cobalt.parse(COBALT_LOG)
    assert jobs.job_id.tolist() == [327220, 327221]
    assert jobs.submit_us.tolist()[0] == 1_554_251_516_500_000
    assert jobs.submit_us.tolist()[1] == int(datetime(2019, 4, 3, 1, tzinfo=UTC).timestamp()) * SECOND
    assert jobs.run_us.tolist() == [1_663_250_000, -SECOND]
    assert jobs.limit_us.tolist() == [HOUR, 30 * MINUTE]
    assert jobs.processes.tolist() == [3000, 8]
    assert jobs.rejection.tolist() == [ACCEPTED, BAD_RUN]
    assert (jobs.user_names, jobs.program_names, jobs.partition_names) == (["ann"], ["solve"], ["debug", "default"])
    assert jobs.defects == {"jobs without a start or an end": 1, "lines that are not job records, skipped": 1}


def test_cobalt_workload_form() -> None:
    line = (
        "jobid=5;qtime=2010-01-01 00:00:10;Resource_List.nodect=512;Resource_List.walltime=3600;"
        "start=2010-01-01 00:01:00;end=2010-01-01 00:02:30;queue=prod;user=bob\n"
    )
    backwards = (
        line.replace("jobid=5", "jobid=6").replace("00:02:30", "00:00:30").replace("Resource_List.walltime=3600;", "")
    )
    jobs = cobalt.parse(line + backwards)
    assert jobs.run_us.tolist() == [90 * SECOND, -SECOND]
    assert jobs.limit_us.tolist()[0] == HOUR
    assert jobs.processes.tolist() == [512, 512]
    assert jobs.defects == {"jobs that end before they start": 1, "jobs without a time limit": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nothing here\n", "has no jobs"),
        ("04/03/2019 00:31:56;E;1;end=5\n", "line 1: job 1 has no submit time"),
        ("04/03/2019 00:31:56;Q;1;qtime=noon\n", "line 1, qtime: 'noon' is not a date"),
        ("04/03/2019 00:31:56;Q;1;Resource_List.walltime=long\n", "Resource_List.walltime: 'long' is not a duration"),
    ],
)
def test_cobalt_refuses(text: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        cobalt.parse(text)
    assert expected in str(caught.value)


TRINITY_HEADER = (
    "user_ID,group_ID,submit_time,start_time,dispatch_time,queue_time,end_time,wallclock_limit,job_status,"
    "node_count,tasks_requested\n"
)
TRINITY_JOB = (
    "57,59,2016-02-02 06:53:00-07:00,2016-02-02 07:00:00-07:00,2016-02-02 07:00:00-07:00,2016-02-02 06:53:00-07:00,"
    "2016-02-02 07:10:00-07:00,3600,JOBEND,54,1728\n"
)


def test_atlas_reads_trinity() -> None:
    no_tasks = TRINITY_JOB.replace(",54,1728", ",2,0")
    no_start = TRINITY_JOB.replace("2016-02-02 07:00:00-07:00", "")
    backwards = TRINITY_JOB.replace("2016-02-02 07:10:00-07:00,3600", "2016-02-02 06:10:00-07:00,")
    jobs = atlas.parse(TRINITY_HEADER + TRINITY_JOB + no_tasks + no_start + backwards)
    assert jobs.submit_us.tolist()[0] == int(datetime(2016, 2, 2, 13, 53, tzinfo=UTC).timestamp()) * SECOND
    assert jobs.run_us.tolist() == [10 * MINUTE, 10 * MINUTE, -SECOND, -SECOND]
    assert jobs.limit_us.tolist()[0] == HOUR
    assert jobs.processes.tolist() == [1728, 64, 1728, 1728]
    assert jobs.extra["nodes"].tolist() == [54, 2, 54, 54]
    assert (jobs.max_nodes, jobs.max_procs) == (9408, 301056)
    assert jobs.job_id.tolist() == [1, 2, 3, 4]
    assert jobs.user_names == ["57"]
    assert jobs.defects == {
        "jobs without a task count, given whole nodes": 1, "jobs without a start or an end": 1,
        "jobs that end before they start": 1, "jobs without a time limit": 1,
    }  # fmt: skip


def test_atlas_reads_mustang() -> None:
    text = (
        "user_ID,group_ID,submit_time,start_time,end_time,wallclock_limit,job_status,node_count,tasks_requested\n"
        "1,1,2011-10-01 00:00:00-06:00,2011-10-01 00:00:01-06:00,2011-10-01 00:00:09-06:00,16:00:00,COMPLETED,2,0\n"
    )
    jobs = atlas.parse(text)
    assert (jobs.max_nodes, jobs.max_procs) == (1600, 38400)
    assert jobs.processes.tolist() == [48]
    assert jobs.limit_us.tolist() == [16 * HOUR]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "line 1: has no column user_ID"),
        (TRINITY_HEADER, "has no jobs"),
        (TRINITY_HEADER + TRINITY_JOB.replace("2016-02-02 06:53:00-07:00", ""), "line 2, submit_time: is empty"),
        (TRINITY_HEADER + TRINITY_JOB.replace("07:10:00", "late"), "line 2, end_time"),
        (TRINITY_HEADER + TRINITY_JOB.replace("1728", "lots"), "line 2, tasks_requested: 'lots' is not a number"),
        (TRINITY_HEADER + TRINITY_JOB.replace(",3600,", ",long,"), "line 2, wallclock_limit: 'long'"),
        (TRINITY_HEADER + "57,59,2016-02-02 06:53:00-07:00,2016\n", "line 2"),
    ],
)
def test_atlas_refuses(text: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        atlas.parse(text)
    assert expected in str(caught.value)


LOGS = {
    "sacct": SACCT_HEADER + SACCT_JOB,
    "gridengine": "# a comment\n" + grid_engine_line(),
    "lumos": LUMOS_HEADER + "0,639487,0.0,0.0,0,0,512.0,8.0,1672529301,71,3632.92,3600.0,8.07,Killed\n",
    "cobalt": COBALT_LOG,
    "atlas": TRINITY_HEADER + TRINITY_JOB,
}


@pytest.mark.parametrize("name", sorted(LOGS))
def test_every_log_is_read_by_name_and_advised_on_when_given_as_a_trace(tmp_path: Path, name: str) -> None:
    path = tmp_path / "log.txt"
    path.write_text(LOGS[name])
    assert len(READERS[name](path)) >= 1
    with pytest.raises(InputError, match=f"cohabit import {name}"):
        read_trace(path)


def test_a_csv_that_is_no_job_table_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("jobid,program,processes,submit_s\n1,a,1,0\n")
    with pytest.raises(InputError, match=r"did you mean job_id\?"):
        read_trace(path)
