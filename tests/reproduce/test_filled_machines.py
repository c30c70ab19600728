"""A stretch of a month from filled machines: it goes on exactly as the month does, and counts only its own jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cohabit.model.records import RunTable
from cohabit.model.units import HOUR
from cohabit.model.workload import Workload
from cohabit.reproduce.coscheduling.filled import COUNTED, GROUP, Stretch, counted, from_filled_machines, stretch_of
from cohabit.reproduce.coscheduling.lab import LARGE, MACHINES, SMALL, Cell, alone, months_of, run_cell, workloads
from cohabit.reproduce.coscheduling.plan import BASE
from cohabit.trace.pairing import Tie

CELL = Cell(41, 300, BASE, load=0.75, filled=True)


@pytest.fixture(scope="module")
def months() -> dict[str, RunTable]:
    return months_of(CELL)


def names_of(jobs: Workload) -> list[tuple[int, int, int]]:
    return list(zip(jobs.submit_us.tolist(), jobs.processes.tolist(), jobs.run_us.tolist(), strict=True))


def test_a_stretch_goes_on_as_its_month(months: dict[str, RunTable]) -> None:
    stretch = alone(CELL)
    for name in MACHINES:
        of_month = dict(zip(names_of(months[name].workload), months[name].start_us.tolist(), strict=True))
        table = stretch[name]
        known = [(row, of_month[job]) for row, job in enumerate(names_of(table.workload)) if job in of_month]
        assert len(known) >= counted(table).workload.extra[COUNTED].sum()
        begin_us = stretch_of(months[LARGE].workload, CELL.jobs).end_us
        early = [(row, start_us) for row, start_us in known if start_us < begin_us - HOUR]
        assert len(early) > len(known) / 2
        assert [int(table.start_us[row]) for row, _ in early] == [start_us for _, start_us in early]


def test_the_large_machine_is_full_when_the_stretch_begins(months: dict[str, RunTable]) -> None:
    stretch, table = stretch_of(months[LARGE].workload, CELL.jobs), alone(CELL)[LARGE]
    before = table.workload.submit_us < stretch.begin_us
    waiting = before & (table.start_us > stretch.begin_us)
    runs = (table.start_us <= stretch.begin_us) & (table.end_us > stretch.begin_us)
    assert waiting.sum() > 5
    assert table.nodes[runs].sum() > 0.8 * table.cluster_nodes


def test_only_jobs_of_the_stretch_are_counted(months: dict[str, RunTable]) -> None:
    stretch, outcome = stretch_of(months[LARGE].workload, CELL.jobs), run_cell(CELL)
    assert outcome[LARGE]["jobs_total"] == CELL.jobs
    submit_us = months[SMALL].workload.submit_us
    assert outcome[SMALL]["jobs_total"] == ((submit_us >= stretch.begin_us) & (submit_us < stretch.end_us)).sum()
    assert outcome[SMALL]["utilisation"] == pytest.approx(0.75, abs=0.05)  # the month's


def test_a_pair_counts_if_neither_had_started(months: dict[str, RunTable]) -> None:
    stretch = stretch_of(months[LARGE].workload, CELL.jobs)
    rows = {}
    for name, table in months.items():
        submit_us = table.workload.submit_us
        started = (table.start_us < stretch.begin_us) & (table.end_us > stretch.begin_us)
        rows[name] = int(np.flatnonzero(started)[0]), *np.flatnonzero(submit_us >= stretch.begin_us)[:3].tolist()
    ties = [Tie("begun", (rows[LARGE][0], rows[SMALL][1])), Tie("both", (rows[LARGE][2], rows[SMALL][3]))]
    for jobs in from_filled_machines(months, stretch, ties).values():
        assert [name for name in jobs.extra[GROUP] if name] == ["both"]


def test_carried_jobs_end_when_they_do_in_the_month(months: dict[str, RunTable]) -> None:
    begin_us = stretch_of(months[SMALL].workload, 100).begin_us
    jobs = from_filled_machines(months, Stretch(begin_us, begin_us + HOUR), [])[SMALL]
    carried = jobs.submit_us == jobs.submit_us.min()
    table = months[SMALL]
    runs = (table.start_us <= begin_us) & (table.end_us > begin_us)
    ends = (jobs.submit_us + jobs.run_us)[carried]
    assert sorted(ends[ends > begin_us].tolist()) == sorted(table.end_us[runs].tolist())
    assert jobs.processes[carried].sum() == table.cluster_nodes
    assert not jobs.extra[COUNTED][carried].any()


def test_a_machine_on_which_nothing_runs_is_kept_whole_until_the_stretch(months: dict[str, RunTable]) -> None:
    stretch, table = stretch_of(months[LARGE].workload, 100), months[SMALL]
    begun = table.start_us <= stretch.begin_us
    idle = months | {SMALL: replace(table, end_us=np.where(begun, table.start_us, table.end_us))}
    first = {name: int(np.flatnonzero(one.workload.submit_us >= stretch.begin_us)[0]) for name, one in months.items()}
    jobs = from_filled_machines(idle, stretch, [Tie("both", (first[LARGE], first[SMALL]))])[SMALL]
    assert jobs.processes[0] == table.cluster_nodes
    assert jobs.extra[GROUP].tolist().count("both") == 1


def test_all_schemes_of_a_stretch_see_the_same_jobs() -> None:
    first, other = (workloads(replace(CELL, schemes=schemes)) for schemes in ("HH", "AA"))
    assert all(first[name].submit_us.tolist() == other[name].submit_us.tolist() for name in MACHINES)
    assert sum(bool(name) for name in first[LARGE].extra[GROUP]) > 10
    by_number = workloads(replace(CELL, schemes="HH", load=0.0, proportion=0.2))
    assert sum(bool(name) for name in by_number[LARGE].extra[GROUP]) == pytest.approx(60, abs=20)
