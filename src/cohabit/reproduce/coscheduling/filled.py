"""A stretch of a month that begins on filled machines, so that a short simulation has the queues of a long one.

The month is first simulated without mates, every machine by itself (the whole-trace driver: a tenth of a second). At
an instant well into it, its running jobs are carried over with what is left of them, and its waiting jobs with their
age. The coupled simulation of the stretch starts from there. Nothing here simulates coupled machines or judges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cohabit.model.records import RunTable
from cohabit.model.units import DAY, HOUR
from cohabit.model.workload import Ints, Workload
from cohabit.trace.pairing import Tie

BEGINS_AFTER_US = 10 * DAY  # the machines fill within two days
GROUP, COUNTED = "group", "counted"  # columns: the mates; whether a job was submitted within the stretch


@dataclass(frozen=True)
class Stretch:
    """A stretch of time of a month."""

    begin_us: int
    end_us: int


def stretch_of(large: Workload, jobs: int) -> Stretch:
    """Return the stretch in which so many jobs of the large machine are submitted."""
    submitted = np.sort(large.submit_us)
    begin_us = int(submitted[0]) + BEGINS_AFTER_US
    last = min(int(np.searchsorted(submitted, begin_us)) + jobs, len(submitted) - 1)
    return Stretch(begin_us, int(submitted[last]))


def from_filled_machines(months: dict[str, RunTable], stretch: Stretch, ties: list[Tie]) -> dict[str, Workload]:
    """Return the jobs of a stretch, from the machines' own months and the pairs of the month.

    A pair counts if neither of its jobs had started. Carried jobs start at once, hours before the stretch, together
    with a job that keeps the other nodes until it begins: so the waiting jobs wait as they did in the month.
    """
    chosen = {name: _chosen(table, stretch) for name, table in months.items()}
    free = [np.isin(np.arange(len(table)), chosen[name][1]) for name, table in months.items()]
    alive = [tie for tie in ties if all(free[at][tie.rows[at]] for at in tie.domains())]
    first_us = min(int(months[name].workload.submit_us[rows].min()) for name, (_, rows) in chosen.items())
    found = {}
    for place, (name, table) in enumerate(months.items()):
        group = np.full(len(table), None, object)
        for tie in alive:
            group[tie.rows[place]] = tie.name
        counted = table.workload.submit_us >= stretch.begin_us
        extra = table.workload.extra | {GROUP: group, COUNTED: counted}
        jobs = replace(table, workload=replace(table.workload, extra=extra))
        found[name] = _carried(jobs, *chosen[name], min(first_us, stretch.begin_us) - HOUR, stretch.begin_us)
    return found


def _chosen(table: RunTable, stretch: Stretch) -> tuple[Ints, Ints]:
    """Return the rows of the jobs that run when the stretch begins, and of those that have yet to start."""
    submit_us = table.workload.submit_us
    runs = (table.start_us <= stretch.begin_us) & (table.end_us > stretch.begin_us)
    waits = (table.start_us > stretch.begin_us) & (submit_us < stretch.end_us)
    return np.flatnonzero(runs), np.flatnonzero(waits)


def _carried(table: RunTable, runs: Ints, waits: Ints, from_us: int, begin_us: int) -> Workload:
    """Return a machine's jobs; its running ones, and one on all other nodes, are submitted at `from_us`."""
    free = table.cluster_nodes - int(table.nodes[runs].sum())
    rows = np.concatenate([runs, runs[:1] if len(runs) else waits[:1], waits])
    jobs = table.workload.take(rows)
    carried = len(runs)
    submit_us, run_us, limit_us = jobs.submit_us.copy(), jobs.run_us.copy(), jobs.limit_us.copy()
    processes, counted, group = jobs.processes.copy(), jobs.extra[COUNTED].copy(), jobs.extra[GROUP].copy()
    submit_us[: carried + 1] = from_us
    run_us[:carried] = table.end_us[runs] - from_us
    limit_us[:carried] += table.start_us[runs] - from_us
    run_us[carried] = limit_us[carried] = begin_us - from_us
    processes[carried], counted[: carried + 1], group[: carried + 1] = max(free, 1), False, None
    jobs = replace(
        jobs,
        job_id=np.arange(1, len(rows) + 1),
        submit_us=submit_us,
        run_us=run_us,
        limit_us=limit_us,
        processes=processes,
        extra=jobs.extra | {COUNTED: counted, GROUP: group},
    )
    return jobs if free else jobs.take(np.delete(np.arange(len(rows)), carried))


def counted(table: RunTable) -> RunTable:
    """Return the table with the jobs that were submitted within the stretch; whole if it is a month's."""
    marks = table.workload.extra.get(COUNTED)
    if marks is None:
        return table
    rows = np.flatnonzero(marks)
    names = ("start_us", "end_us", "nodes", "cores", "scale", "status", "reason")
    columns = {name: getattr(table, name)[rows] for name in names}
    return replace(table, workload=table.workload.take(rows), node_ranges=None, shares=None, **columns)
