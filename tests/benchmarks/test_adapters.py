"""The benchmark beside the peers: their result files are read, their inputs are written, the page hides nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from benchmarks.peers import page, simulators, workload
from benchmarks.peers.__main__ import parse

from tests.reference.textbook import Job

ROOT = Path(__file__).resolve().parents[2]
JOBS = [Job(1, 0, 497, 1080, 21), Job(2, 11, 60, 60, 120), Job(3, 45, 39, 60, 1)]
ADAPTERS = {one.name: one for one in simulators.ADAPTERS}


def a_workload(folder: Path, nodes: int = 128) -> workload.Workload:
    swf = folder / "jobs.swf"
    swf.write_text(workload.as_swf(JOBS, nodes))
    return workload.Workload(swf, tuple(JOBS), nodes, workload.easy_starts(JOBS, nodes))


def test_the_trace_is_written_as_it_is_read() -> None:
    assert workload.clean(workload.as_swf(JOBS, 128)) == JOBS
    (long,) = workload.clean("7 5 -1 900 4 -1 -1 4 300 -1 1 1 1 1 1 1 -1 -1\n")
    assert (long.run, long.limit) == (300, 300)  # no peer has to decide what happens to it


def test_the_reference_is_the_same_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    found = workload.easy_starts(JOBS, 128)
    monkeypatch.setattr(workload, "compiler", lambda: None)
    assert workload.easy_starts(JOBS, 128) == found


def test_start_times_are_compared_job_by_job(tmp_path: Path) -> None:
    work = a_workload(tmp_path)
    assert work.easy == {1: 0, 2: 497, 3: 45}
    assert workload.compare(work, work.easy).text == "yes, all"
    assert workload.compare(work, work.easy | {2: 983}).text.startswith("no: 67 % of them, mean wait 2.00 times")
    assert "1 of 3 jobs never start" in workload.compare(work, {1: 0, 2: 497}).text


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (simulators.read_pairs, "1 0\n2 497\n3 45\n"),
        (
            simulators.read_accasim,
            "3;-1;1970-01-01 00:00:45__23;1#__1970-01-01 00:00:45;1970-01-01 00:01:24;1;1;NA;60;\n"
            "1;-1;1970-01-01 00:00:00__1;1#2;1#__1970-01-01 00:00:00;1970-01-01 00:08:17;21;21;NA;1080;\n"
            "2;-1;1970-01-01 00:00:11__1;1#2;1#__1970-01-01 00:08:17;1970-01-01 00:09:17;120;120;NA;60;\n",
        ),
        (
            simulators.read_cohabit,
            "job_id,program,user,submit_s,start_s,end_s\n1,,,0,0,497\n2,,,11,497,557\n3,,,45,45,84\n",
        ),
        (
            lambda text: simulators.read_cqsim(text, {1: 0, 2: 11, 3: 45}),
            "1;21;21;1080.0;497.0;0.0;0.0;0.0;497.0\n3;1;1;60.0;39.0;0.0;45.0;45.0;84.0\n2;120;120;60.0;60.0;486.0;11.0;497.0;557.0\n",
        ),
        (
            lambda text: simulators.read_alea(text, {1: 0, 2: 11, 3: 45}),
            "job_ID \t DAG_ID \t arrival \t wait \t start_time \t runtime\n"
            "1\t-1\t0\t0,0\t10\t497\n2\t-1\t11\t486\t507\t60\n3\t-1\t45\t0\t55\t39\n",
        ),
    ],
    ids=["pairs", "accasim", "cohabit", "cqsim", "alea"],
)  # fmt: skip
def test_results_of_every_simulator_are_read(read: Any, text: str) -> None:
    assert read(text) == {1: 0, 2: 497, 3: 45}


def test_a_simulator_is_run_and_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = simulators.measure(ADAPTERS["plain Python"], simulators.Given(), a_workload(tmp_path), tmp_path, 60.0)
    assert found["easy"] == "yes, all"
    assert found["jobs_per_cpu_s"] > 0


def test_cqsim_gets_our_trace_and_easy(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "src" / "Config").mkdir(parents=True)
    (source / "src" / "cqsim.py").touch()
    given = simulators.Given({"cqsim": source})
    assert not ADAPTERS["CQSim"].missing(given)
    work = a_workload(tmp_path)
    command = ADAPTERS["CQSim"].command(given, work, tmp_path)
    assert "cqsim.py -j peers.swf -n peers.swf -C peers.set" in command[-1]
    assert (tmp_path / "cqsim" / "data" / "InputFiles" / "peers.swf").read_text() == work.swf.read_text()
    settings = (tmp_path / "cqsim" / "src" / "Config" / "peers.set").read_text().splitlines()
    assert {"backfill=1", "win=0", "read_num=3"} <= set(settings)


def test_settings_of_alea_keep_what_is_not_ours() -> None:
    found = simulators.alea_settings("data_sets=hpc2n.swf,other.swf\nalgorithms=0,2\nskip=1,1\n", 5)
    assert found.splitlines()[:3] == ["data_sets=peers.swf", "algorithms=2", "skip=1,1"]
    assert "total_gridlet=5" in found


def test_what_is_not_there_is_said() -> None:
    missing = {one.name: one.missing(simulators.Given()) for one in simulators.ADAPTERS}
    assert [name for name, problem in missing.items() if not problem] == ["Cohabit", "plain Python"]
    assert missing["Alea"] == "no folder was given (--alea DIR)"
    with pytest.raises(SystemExit) as refused:
        parse(["--cqsim", "/no/such/folder"])
    assert refused.value.code == 2


def test_the_page_is_made_of_the_figures() -> None:
    facts = json.loads((ROOT / "docs" / "peers.json").read_text())
    text = page.write(facts)
    assert (ROOT / "docs" / "peers.md").read_text() == text, "run `python -m benchmarks.peers`, do not edit the page"
    for one in simulators.ADAPTERS:
        assert one.name in text
    for name in ("Slurm", "task-spooler", "nq"):
        assert name in text


def test_the_page_names_every_figure_in_which_a_peer_is_ahead() -> None:
    ours = {"submit_ms": 200.0, "jobs_per_s": 100.0, "queued": 10, "queued_mb": 90.0}
    theirs = {"submit_ms": 5.0, "jobs_per_s": 50.0, "queued": 9, "queued_mb": 1.0}
    found = page.losses(None, {"found": {"Cohabit": ours, "nq": theirs}})
    assert len(found) == 1
    assert found[0].startswith("**submit**: 200 ms against 5.00 (nq): ")
    slow, fast = ({"jobs_per_cpu_s": rate, "peak_mb": 5, "cpu_s": 1.0} for rate in (10.0, 30.0))
    works = [{"label": "3 jobs", "found": {"Cohabit": slow, "AccaSim": fast}}]
    assert "3.0 times" in page.losses({"workloads": works}, None)[0]


def test_every_picture_of_the_results_has_its_command() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    pictures = re.findall(r"!\[[^]]+\]\(pictures/results-(\w+)\.svg\)", text)
    assert len(pictures) == 5
    for name in pictures:
        assert (ROOT / "docs" / "pictures" / f"results-{name}.svg").stat().st_size < 20_000
        assert f"scripts/results {name}" in text


def test_the_first_picture_of_the_readme_has_its_command_and_is_that_of_the_site() -> None:
    texts = [(ROOT / name).read_text() for name in ("README.md", "docs/index.md")]
    names = {re.findall(r"!\[[^]]{40,}\]\((?:docs/)?pictures/results-(\w+)\.svg\)", text)[0] for text in texts}
    assert names == {"cohabit"}
    assert "scripts/results cohabit" in texts[0]
    drawn = (ROOT / "docs" / "pictures" / "results-cohabit.svg").read_text()
    assert len(drawn) < 20_000
    assert all(drawn.count(f">{label}<") == 2 for label in ("CE with EASY", "CS, by free cores", "cohabit"))
