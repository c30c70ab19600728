"""The product gives the textbook's start times on every conformance case, through each of its engines."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from cohabit.model.units import SECOND
from tests.conformance.cases import CASES, Case
from tests.support.builders import Choice, TraceRow, prepared_trace, swf_text
from tests.support.engines import ENGINES, schedule

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def rows_of(case: Case) -> list[TraceRow]:
    return [TraceRow(job.submit * SECOND, job.run * SECOND, job.limit * SECOND, job.size) for job in case.jobs]


def choice_of(case: Case) -> Choice:
    return Choice(case.order, str(case.backfill), case.backfill_order)


@pytest.mark.parametrize("engine", ENGINES)
@each_case
def test_every_engine_gives_the_expected_starts(case: Case, engine: str) -> None:
    prepared = prepared_trace(rows_of(case), case.nodes, choice_of(case), kill=case.kill)
    found = schedule(prepared, engine, check=True)
    assert found.starts_us == tuple(None if start is None else start * SECOND for start in case.starts), case.why


@each_case
def test_engines_agree_on_nodes_and_journal(case: Case) -> None:
    prepared = prepared_trace(rows_of(case), case.nodes, choice_of(case), kill=case.kill)
    fast, steps, readable = (schedule(prepared, engine) for engine in ENGINES)
    assert fast == steps
    assert fast.nodes == readable.nodes


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=() if case.name == "too_large_is_rejected" else pytest.mark.slow)
        for case in CASES
        if case.kill and case.backfill_order is None
    ],
)
def test_the_command_line_gives_the_expected_starts(case: Case, tmp_path: Path) -> None:
    trace, out = tmp_path / "jobs.swf", tmp_path / "out"
    trace.write_text(swf_text(rows_of(case), case.nodes))
    command = [
        sys.executable, "-c", "from cohabit.cli.main import run; run()", "simulate", str(trace), "--order", case.order,
        "--backfill", str(case.backfill), "--out", str(out), "--no-report", "--json",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    with (out / "jobs.csv").open() as lines:
        starts = tuple(float(row["start_s"]) if row["start_s"] else None for row in csv.DictReader(lines))
    assert starts == case.starts
