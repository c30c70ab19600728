"""The public traces beside the repository: job counts, machine sizes, known defects, and a round trip of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from trace_strategies import same_jobs

from cohabit.model.workload import BAD_RUN
from cohabit.trace import lumos
from cohabit.trace.catalogue import read_trace
from cohabit.trace.files import read_text
from cohabit.trace.swf import read_swf, write_swf

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
NOT_HERE = "the public traces are not in ../shared/data beside the repository"

TRACES = [
    ("swf/KTH-SP2-1996-2.1-cln.swf.xz", 27_992, 100, 100, {}),
    ("swf/CTC-SP2-1996-3.1-cln.swf.xz", 77_222, 338, 338, {}),
    ("swf/SDSC-BLUE-2000-4.2-cln.swf.xz", 243_306, 144, 1_152, {}),
    ("swf/HPC2N-2002-2.2-cln.swf.xz", 202_871, 240, 240, {}),
    ("lanl/LANL-Trinity-atlas-concat.swf.xz", 21_247, 9_408, 301_056, {}),
    ("argonne/theta_2022.swf.xz", 23_911, 4_360, 4_360, {}),
    ("argonne/mira_walltime.swf.xz", 22_508, 49_152, 49_152, {"lines with more than 18 fields": 22_508}),
]


def public(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip(NOT_HERE)
    return path


@pytest.mark.parametrize(("name", "jobs", "nodes", "processors", "defects"), TRACES)
def test_public_traces(name: str, jobs: int, nodes: int, processors: int, defects: dict[str, int]) -> None:
    trace = read_trace(public(name))
    assert len(trace) == jobs
    assert (trace.max_nodes, trace.max_procs) == (nodes, processors)
    assert trace.defects == defects
    assert len(trace.order()) == jobs


def test_rejections_of_blue_horizon() -> None:
    trace = read_swf(public("swf/SDSC-BLUE-2000-4.2-cln.swf.xz"))
    assert int((trace.rejection == BAD_RUN).sum()) == 10_744


def test_first_job_of_ctc() -> None:
    trace = read_swf(public("swf/CTC-SP2-1996-3.1-cln.swf.xz"))
    assert trace.header["MaxNodes"] == "338 (batch partition; 512 total)"
    first = (trace.submit_us[0], trace.run_us[0], trace.limit_us[0], trace.processes[0])
    assert first == (0, 937_000_000, 35_100_000_000, 306)
    assert trace.user_names[trace.user[0]] == "97"
    assert trace.program_names[trace.program[0]] == "307"


@pytest.mark.parametrize("name", ["swf/KTH-SP2-1996-2.1-cln.swf.xz", "swf/HPC2N-2002-2.2-cln.swf.xz"])
def test_public_traces_survive_writing(tmp_path: Path, name: str) -> None:
    trace = read_swf(public(name), every_field=True)
    write_swf(trace, tmp_path / "again.swf")
    again = read_swf(tmp_path / "again.swf", every_field=True)
    same_jobs(trace, again)
    counts = {"MaxJobs": str(len(trace)), "MaxRecords": str(len(trace))}
    assert again.header.pop("Partition", "").split() == trace.header.pop("Partition", "").split()
    assert again.header == trace.header | counts
    for column in trace.extra:
        assert again.extra[column].tolist() == trace.extra[column].tolist()


@pytest.mark.parametrize(
    ("name", "jobs"), [("argonne/lumos_data_theta.csv.xz", 14374), ("argonne/lumos_data_thetagpu.csv.xz", 22_606)]
)
def test_lumos_tables(name: str, jobs: int) -> None:
    table = lumos.parse(read_text(public(name)), name)
    assert len(table) == jobs
    assert ("gpus" in table.extra) == ("gpu" in name)
    assert table.processes.min() >= 0
