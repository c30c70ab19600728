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
from tests.public_data import SLICES, whole

TRACES = [  # jobs in the slice and in the whole file, nodes, processors
    ("swf/KTH-SP2-1996-2.1-cln.swf.xz", 5000, 27_992, 100, 100),
    ("swf/CTC-SP2-1996-3.1-cln.swf.xz", 5000, 77_222, 338, 338),
    ("swf/SDSC-BLUE-2000-4.2-cln.swf.xz", 5000, 243_306, 144, 1_152),
    ("swf/HPC2N-2002-2.2-cln.swf.xz", 5000, 202_871, 240, 240),
    ("lanl/LANL-Trinity-atlas-concat.swf.xz", 3000, 21_247, 9_408, 301_056),
    ("argonne/theta_2022.swf.xz", 3000, 23_911, 4_360, 4_360),
    ("argonne/mira_walltime.swf.xz", 3000, 22_508, 49_152, 49_152),
]


@pytest.mark.parametrize(("name", "few", "all_jobs", "nodes", "processors"), TRACES)
def test_public_traces(name: str, few: int, all_jobs: int, nodes: int, processors: int) -> None:
    for path, jobs in [(SLICES / name, few), *((path, all_jobs) for path in whole(name))]:
        trace = read_trace(path)
        assert len(trace) == jobs
        assert (trace.max_nodes, trace.max_procs) == (nodes, processors)
        assert trace.defects == ({"lines with more than 18 fields": jobs} if "mira" in name else {})
        assert len(trace.order()) == jobs


def test_rejections_of_blue_horizon() -> None:
    name = "swf/SDSC-BLUE-2000-4.2-cln.swf.xz"
    for path, rejected in [(SLICES / name, 335), *((path, 10_744) for path in whole(name))]:
        assert int((read_swf(path).rejection == BAD_RUN).sum()) == rejected


def test_first_job_of_ctc() -> None:
    trace = read_swf(SLICES / "swf/CTC-SP2-1996-3.1-cln.swf.xz")
    assert trace.header["MaxNodes"] == "338 (batch partition; 512 total)"
    first = (trace.submit_us[0], trace.run_us[0], trace.limit_us[0], trace.processes[0])
    assert first == (0, 937_000_000, 35_100_000_000, 306)
    assert trace.user_names[trace.user[0]] == "97"
    assert trace.program_names[trace.program[0]] == "307"


@pytest.mark.parametrize("name", ["swf/KTH-SP2-1996-2.1-cln.swf.xz", "swf/CTC-SP2-1996-3.1-cln.swf.xz"])
def test_public_traces_survive_writing(tmp_path: Path, name: str) -> None:
    trace = read_swf(SLICES / name, every_field=True)
    write_swf(trace, tmp_path / "again.swf")
    again = read_swf(tmp_path / "again.swf", every_field=True)
    same_jobs(trace, again)
    counts = {"MaxJobs": str(len(trace)), "MaxRecords": str(len(trace))}
    assert again.header.pop("Partition", "").split() == trace.header.pop("Partition", "").split()
    assert again.header == trace.header | counts
    for column in trace.extra:
        assert again.extra[column].tolist() == trace.extra[column].tolist()


@pytest.mark.parametrize(
    ("name", "jobs", "processes"),
    [("argonne/lumos_data_theta.csv.xz", 14_374, 341_484), ("argonne/lumos_data_thetagpu.csv.xz", 22_606, 4_430)],
)
def test_lumos_tables(name: str, jobs: int, processes: int) -> None:
    for path, count in [(SLICES / name, 2000), *((path, jobs) for path in whole(name))]:
        table = lumos.parse(read_text(path), name)
        assert len(table) == count
        assert ("gpus" in table.extra) == ("gpu" in name)
        if path == SLICES / name:
            assert (table.processes.min(), table.processes.sum()) == (1, processes)
