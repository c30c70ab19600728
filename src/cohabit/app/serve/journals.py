"""Read, write and replay journals: a fresh core must give the same commands for the same events."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from cohabit.app.scenario.reading import scenario_from
from cohabit.app.simulate.simulation import Prepared, prepare, traced_jobs
from cohabit.core.core import SchedulerCore
from cohabit.model import event as fact
from cohabit.model.codec import decode_events
from cohabit.model.command import MoveJob, StartJob
from cohabit.model.errors import InputError
from cohabit.model.event import Event
from cohabit.model.job import Job
from cohabit.model.records import STATUS_NAMES, RunTable
from cohabit.report.tables import read_jobs_parquet
from cohabit.sim import journal as lines
from cohabit.sim.journal import Journal
from cohabit.whole_files import replacing


def write_journal(journal: Journal, path: Path) -> None:
    """Write three columns; the jobs they refer to are in jobs.parquet beside it."""
    import polars as pl

    attempt = np.ones(len(journal.row), np.int32) if journal.attempt is None else journal.attempt
    columns = {"time_us": journal.time_us, "kind": journal.kind, "row": journal.row, "attempt": attempt}
    frame = pl.DataFrame(columns)
    if journal.learned:
        told = [journal.learned[row] if kind == lines.LEARNED else None
                for kind, row in zip(journal.kind.tolist(), journal.row.tolist(), strict=True)]  # fmt: skip
        frame = frame.with_columns(pl.Series("content", told, dtype=pl.Binary))
    with replacing(path) as draft:
        frame.write_parquet(draft)


def read_journal(path: Path) -> Journal:
    """Read a journal from a file."""
    import polars as pl

    try:
        frame = pl.read_parquet(path)
        learned = tuple(frame["content"].drop_nulls().to_list()) if "content" in frame.columns else ()
        columns = {name: frame[name].to_numpy() for name in ("time_us", "kind", "row", "attempt")}
        return Journal(**columns, learned=learned)
    except FileNotFoundError:
        raise InputError("there is no such journal", str(path), "simulate with --out DIR --journal") from None
    except Exception as error:
        raise InputError(f"is not a journal: {error}", str(path), "simulate with --out DIR --journal") from error


def load_run(folder: Path) -> tuple[Prepared, RunTable]:
    """Load a finished run from its folder alone."""
    path = folder / "jobs.parquet"
    if not path.is_file():
        raise InputError("the folder has no jobs.parquet", str(folder), "simulate with --out DIR, without --no-report")
    workload, columns = read_jobs_parquet(path)
    table = RunTable(workload, **columns)
    settings = dict(table.settings)
    if settings.get("domain"):
        raise InputError("is a run of several domains", str(folder), "jobs.csv and report.html say what happened in it")
    settings["jobs"] = {"trace": str(path)}
    scenario = scenario_from(msgspec.to_builtins(settings), str(folder))
    return prepare(scenario, workload), table


@dataclass(frozen=True)
class Replayed:
    """The result of a replay."""

    steps: int
    orders: int
    difference: str  # empty: the same commands, byte for byte


def replay_journal(place: Path) -> Replayed:
    """Pass every event of the journal to a fresh core and compare its commands with the recorded ones."""
    path = place / "journal.parquet" if place.is_dir() else place
    journal = read_journal(path)
    prepared, table = load_run(path.parent)
    jobs = [traced.job for traced in traced_jobs(prepared)]
    core = SchedulerCore(prepared.cluster, prepared.policies, profiles=prepared.profiles)
    assert journal.attempt is not None  # a journal on disk has them
    status = [STATUS_NAMES[code] for code in table.status[prepared.rows]]
    ids = prepared.workload.job_id[prepared.rows]

    def name(numbers: list[int]) -> str:
        return "starts of " + (", ".join(str(ids[number]) for number in numbers[:5]) or "nobody")

    kinds, steps, orders, at = journal.kind, 0, 0, 0
    ever_moved = set(journal.row[kinds == lines.MOVE].tolist())
    while at < len(kinds):
        now_us, begin = int(journal.time_us[at]), at
        while at < len(kinds) and kinds[at] < lines.START and journal.time_us[at] == now_us:
            at += 1
        told = zip(*(column[begin:at].tolist() for column in (kinds, journal.row, journal.attempt)), strict=True)
        events = [
            decode_events(journal.learned[row])[0]
            if kind == lines.LEARNED
            else _event(kind, row, attempt, jobs, status)
            for kind, row, attempt in told
        ]
        ordered_from = at
        while at < len(kinds) and kinds[at] >= lines.START and journal.time_us[at] == now_us:
            at += 1
        commands = core.step(now_us, events)
        starts = [command for command in commands if isinstance(command, StartJob)]
        moves = [(int(one.job_id), one.nodes[0][0]) for one in commands if isinstance(one, MoveJob)]
        here = range(ordered_from, at)
        moved = [(int(journal.row[i]), int(journal.attempt[i])) for i in here if kinds[i] == lines.MOVE]
        expected = [int(journal.row[i]) for i in here if kinds[i] == lines.START]
        given = [int(command.job_id) for command in starts]
        steps, orders = steps + 1, orders + len(given) + len(moves)
        if given != expected:
            return Replayed(steps, orders, f"at {now_us / 1e6:g} s: {name(given)}, the journal has {name(expected)}")
        if moves != moved:
            return Replayed(steps, orders, f"at {now_us / 1e6:g} s: other moves than the journal has")
        for command in starts:
            row = int(prepared.rows[int(command.job_id)])
            stayed = int(command.job_id) not in ever_moved  # after a move the table has only the job's last nodes
            if stayed and table.start_us[row] == now_us and command.nodes != _nodes_of(table, row):
                return Replayed(steps, orders, f"at {now_us / 1e6:g} s: job {ids[int(command.job_id)]} got other nodes")
        core.step(now_us, [fact.JobStarted(command.job_id, command.attempt) for command in starts])
    return Replayed(steps, orders, "")


def _nodes_of(table: RunTable, row: int) -> tuple[tuple[int, int], ...]:
    ranges = table.node_ranges
    if ranges is None:
        return ()
    own = slice(int(ranges.offsets[row]), int(ranges.offsets[row + 1]))
    return tuple((int(first), int(count)) for first, count in zip(ranges.first[own], ranges.count[own], strict=True))


def _event(kind: int, row: int, attempt: int, jobs: list[Job], status: list[str]) -> Event:
    if kind == lines.SUBMITTED:
        return fact.JobSubmitted(jobs[row])
    if kind == lines.FINISHED:
        return fact.JobFinished(str(row), attempt, status[row])
    if kind == lines.NODE_UP:
        return fact.NodeUp(row)
    if kind == lines.NODE_DOWN:
        return fact.NodeDown(row)
    return fact.NodeDrained(row) if kind == lines.NODE_DRAINED else fact.Woken()
