"""What jobs of Slurm waited for besides nodes: read from sacct, written to jobs.csv, and replayed in the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.app.scenario.reading import scenario_for
from cohabit.app.simulate import simulation
from cohabit.cli.import_log import import_log
from cohabit.model.records import CANCELLED, DONE, FAILED, NEVER
from cohabit.model.units import SECOND
from cohabit.trace import sacct
from cohabit.trace.catalogue import read_trace, write_trace

HEADER = "JobID|User|JobName|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NCPUS|SubmitLine\n"


def row(job: str, line: str, submit: int = 0, run: int = 60, wait: int = 1, **said: object) -> str:
    """A job of 4 cores on a clock that begins at 1000 s."""
    begin = 1000 + submit
    cells = {
        "user": "ann", "name": "a", "state": "COMPLETED", "submit": begin, "eligible": begin, "start": begin + wait,
        "end": begin + wait + run, "run": run, "limit": 20, "cores": 4, "line": line,
    } | said  # fmt: skip
    return "|".join([job, *map(str, cells.values())]) + "\n"


def replayed(tmp_path: Path, *rows: str, cores: int = 16) -> dict[str, tuple[float | None, int]]:
    """Start in seconds after the first submission, and status, of every job; through a jobs.csv."""
    write_trace(sacct.parse(HEADER + "".join(rows)), tmp_path / "jobs.csv")
    scenario = scenario_for(str(tmp_path / "jobs.csv"), nodes=1, cores=cores, policy="cs")
    table, _ = simulation.run(simulation.prepare(scenario))
    starts = [None if at == NEVER else at / SECOND - 1000 for at in table.start_us.tolist()]
    return dict(zip(map(str, table.workload.job_id), zip(starts, table.status.tolist(), strict=True), strict=True))


def test_dependencies_are_replayed(tmp_path: Path) -> None:
    found = replayed(
        tmp_path,
        row("1", "sbatch a.sh", run=100),
        row("2", "sbatch a.sh", run=50, state="FAILED"),
        row("3", "sbatch --dependency=afterok:1 a.sh"),
        row("4", "sbatch -d afternotok:2 a.sh"),
        row("5", "sbatch -dafterany:1:2 a.sh"),
        row("6", "sbatch --dependency after:1 a.sh"),
        row("7", "sbatch --dependency=afterok:2 a.sh"),
        row("8", "sbatch --dependency=afterok:7 a.sh"),
        cores=64,
    )
    starts = {name: start for name, (start, _) in found.items()}
    assert starts == {"1": 0, "2": 0, "3": 100, "4": 50, "5": 100, "6": 0, "7": None, "8": None}
    assert [found[name][1] for name in "1278"] == [DONE, FAILED, CANCELLED, CANCELLED]


def test_singletons_arrays_and_corresponding_tasks_are_replayed(tmp_path: Path) -> None:
    arrays = [row(f"4_{task}", "sbatch --array=1-3%1 a.sh", name="c") for task in (1, 2, 3)]
    after = [row(f"5_{task}", "sbatch -a 1-3 -d aftercorr:4 a.sh", name="d") for task in (1, 2, 3)]
    single = [row("6", "sbatch a.sh", name="s", wait=0), row("7", "sbatch -d singleton a.sh", submit=1, name="s")]
    found = replayed(tmp_path, *arrays, *after, *single, cores=64)
    assert [found[f"4_{task}"][0] for task in (1, 2, 3)] == [0, 60, 120]
    assert [found[f"5_{task}"][0] for task in (1, 2, 3)] == [60, 120, 180]
    assert (found["6"][0], found["7"][0]) == (0, 60)


def test_begin_times_holds_and_cancelled_jobs_are_replayed(tmp_path: Path) -> None:
    found = replayed(
        tmp_path,
        row("1", "sbatch --begin=now+1hour a.sh", eligible=4600),
        row("2", "sbatch --exclusive a.sh", cores=16, run=500),
        row("3", "sbatch a.sh", state="CANCELLED by 1000", start="None", end=1040, run=0, submit=10),
        row("4", "sbatch a.sh", submit=11),
    )
    assert found == {"1": (3600, DONE), "2": (0, DONE), "3": (None, CANCELLED), "4": (500, DONE)}


def test_a_cancelled_job_that_begins_in_the_replay_runs_until_its_owner_cancels_it(tmp_path: Path) -> None:
    rows = (
        row("1", "sbatch a.sh", state="CANCELLED by 1000", start="None", end=1040, run=0, cores=16),
        row("2", "sbatch a.sh", submit=1, cores=16),
    )
    assert replayed(tmp_path, *rows) == {"1": (0, CANCELLED), "2": (40, DONE)}


def test_what_cannot_be_said_waits_until_the_job_became_eligible(tmp_path: Path) -> None:
    text = HEADER + row("1", "sbatch a.sh") + row("2", "sbatch -d afterok:1?afterok:9 a.sh", eligible=1030)
    jobs = sacct.parse(text)
    assert jobs.extra["begin_after_us"].tolist() == [-SECOND, 30 * SECOND]
    assert any("(?)" in sentence for sentence in jobs.defects)
    unknown = sacct.parse(HEADER + row("2", "sbatch -d afterok:9 a.sh", eligible=1030))
    assert unknown.defects["dependencies on jobs that are not in the report, left out"] == 1


def test_submit_lines_with_separators_and_several_lines() -> None:
    text = HEADER + row("1", "sbatch --wrap a | b").rstrip("\n") + '\necho "2|3"\n' + row("2", "sbatch 'open")
    jobs = sacct.parse(text)
    assert jobs.job_id.tolist() == [1, 2]
    assert jobs.defects["submit lines of several lines"] == 1


def test_waits_are_kept_in_both_formats_and_swf_says_what_it_cannot_keep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.txt"
    log.write_text(HEADER + row("1", "sbatch a.sh", wait=7) + row("2", "sbatch -d afterok:1 a.sh", wait=90))
    import_log("sacct", log, tmp_path / "jobs.swf")
    assert "SWF has no place for dependencies (1 jobs): -o jobs.csv keeps them" in capsys.readouterr().err
    import_log("sacct", log, tmp_path / "jobs.csv")
    assert "SWF" not in capsys.readouterr().err
    assert read_trace(tmp_path / "jobs.csv").extra["swf_wait_us"].tolist() == [7 * SECOND, 90 * SECOND]
    assert " 7 60 " in (tmp_path / "jobs.swf").read_text()
