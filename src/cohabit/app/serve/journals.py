"""Read, write and replay journals: a fresh core must give the same commands for the same events.

The journals of several domains are one file. Each is replayed by itself: a core hears its mates only in the messages
that the journal has. These must be messages that the mates' own journals have as sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cohabit.app.simulate.finished import ONLY, FinishedDomain, load_run
from cohabit.app.simulate.stepping import ABOUT_MATES, traced_jobs
from cohabit.core.core import SchedulerCore
from cohabit.model import event as fact
from cohabit.model.codec import decode_commands, decode_events, encode
from cohabit.model.command import Command, MoveJob, StartJob, TellPeer
from cohabit.model.errors import InputError
from cohabit.model.event import Event, PeerReported
from cohabit.model.job import Job
from cohabit.model.peer import Message
from cohabit.model.records import STATUS_NAMES, RunTable
from cohabit.sim import journal as lines
from cohabit.sim.journal import Journal
from cohabit.whole_files import replacing

if TYPE_CHECKING:
    import polars as pl

WHOLE = (lines.LEARNED, lines.ABOUT_MATES)  # lines with a content


def write_journals(journals: Mapping[str, Journal], path: Path) -> None:
    """Write the journals of all domains, one after the other; the jobs they refer to are in jobs.parquet beside it."""
    import polars as pl

    parts = []
    for domain, journal in journals.items():
        attempt = np.ones(len(journal.row), np.int32) if journal.attempt is None else journal.attempt
        columns = {"time_us": journal.time_us, "kind": journal.kind, "row": journal.row, "attempt": attempt}
        frame = pl.DataFrame(columns)
        if any(one.learned for one in journals.values()):
            told = [
                journal.learned[row] if kind in WHOLE else None
                for kind, row in zip(journal.kind.tolist(), journal.row.tolist(), strict=True)
            ]
            frame = frame.with_columns(pl.Series("content", told, dtype=pl.Binary))
        parts.append(frame if domain == ONLY else frame.with_columns(pl.lit(domain).alias("domain")))
    with replacing(path) as draft:
        pl.concat(parts).write_parquet(draft)


def read_journals(path: Path) -> dict[str, Journal]:
    """Read the journal of every domain from a file; of a run of one domain under the name ONLY."""
    import polars as pl

    try:
        frame = pl.read_parquet(path)
        if "domain" not in frame.columns:
            return {ONLY: _journal_of(frame)}
        parts = frame.partition_by("domain", maintain_order=True, as_dict=True)
        return {str(name): _journal_of(part) for (name,), part in parts.items()}
    except FileNotFoundError:
        raise InputError("there is no such journal", str(path), "simulate with --out DIR --journal") from None
    except Exception as error:
        raise InputError(f"is not a journal: {error}", str(path), "simulate with --out DIR --journal") from error


def _journal_of(frame: pl.DataFrame) -> Journal:
    learned = tuple(frame["content"].drop_nulls().to_list()) if "content" in frame.columns else ()
    columns = {name: frame[name].to_numpy() for name in ("time_us", "kind", "row", "attempt")}
    return Journal(**columns, learned=learned)


@dataclass(frozen=True)
class Replayed:
    """The result of a replay."""

    steps: int
    orders: int
    difference: str  # empty: the same commands, byte for byte
    domains: tuple[str, ...] = ()  # none: one cluster
    messages: int = 0  # that they have heard of each other


def replay_journal(place: Path) -> Replayed:
    """Pass every event of the journal to a fresh core and compare its commands with the recorded ones.

    Of a run of several domains all are replayed, each by itself, up to the first difference."""
    path = place / "journal.parquet" if place.is_dir() else place
    journals = read_journals(path)
    run = load_run(path.parent)
    if set(journals) != set(run.domains):
        raise InputError("is not the journal of the run beside it", str(path), "simulate again with --journal")
    replays = {name: _Replay(one, journals[name]) for name, one in run.domains.items()}
    difference = ""
    for name, replay in replays.items():
        difference = replay.compare()
        if difference:
            difference = difference if name == ONLY else f"domain {name}, {difference}"
            break
    steps, orders = sum(one.steps for one in replays.values()), sum(one.orders for one in replays.values())
    heard = sum(len(one.heard) for one in replays.values())
    domains = () if run.coupled is None else tuple(run.domains)
    return Replayed(steps, orders, difference or _forged(replays), domains, heard)


def _forged(replays: Mapping[str, _Replay]) -> str:
    """Return the first message that a domain heard and its sender's core has not given; empty if there is none."""
    sent = {message for replay in replays.values() for message in replay.sent}
    for name, replay in replays.items():
        for now_us, message in replay.heard:
            if message not in sent:
                return f"domain {name}, at {now_us / 1e6:g} s: it heard a message that {message.sender} has not sent"
    return ""


@dataclass
class _Replay:
    """One domain's journal beside a fresh core."""

    domain: FinishedDomain
    journal: Journal
    steps: int = 0
    orders: int = 0
    heard: list[tuple[int, Message]] = field(default_factory=list)
    sent: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        prepared, table = self.domain.prepared, self.domain.table
        self.jobs = [traced.job for traced in traced_jobs(prepared, self.domain.groups)]
        self.core = SchedulerCore(prepared.cluster, prepared.policies, profiles=prepared.profiles)
        self.status = [STATUS_NAMES[code] for code in table.status[prepared.rows]]
        self.ids = prepared.workload.job_id[prepared.rows]
        self.refused = {
            (one.job_id, one.attempt)
            for content in self.journal.learned_events()
            for one in decode_events(content)
            if isinstance(one, fact.StartRefused)
        }
        self.ever_moved = set(self.journal.row[self.journal.kind == lines.MOVE].tolist())

    def compare(self) -> str:
        """Replay the whole journal; return the first difference in words."""
        for now_us, told, ordered in self.journal.steps():
            commands = self._commands(now_us, [self._event(now_us, line) for line in told])
            self.steps += 1
            if difference := self._difference(now_us, commands, ordered):
                return f"at {now_us / 1e6:g} s: {difference}"
        return ""

    def _commands(self, now_us: int, events: list[Event]) -> list[Command]:
        """Return what the core orders, and what it orders when the starts are confirmed, as the world does."""
        found, confirmed = [], events
        while confirmed:
            commands = self.core.step(now_us + self.domain.clock_offset_us, confirmed)
            started = [(one.job_id, one.attempt) for one in commands if isinstance(one, StartJob)]
            confirmed = [fact.JobStarted(*run) for run in started if run not in self.refused]
            found += commands
        return found

    def _event(self, now_us: int, line: int) -> Event:
        journal = self.journal
        assert journal.attempt is not None  # a journal on disk has them
        kind, row = int(journal.kind[line]), int(journal.row[line])
        if kind != lines.LEARNED:
            return _event(kind, row, int(journal.attempt[line]), self.jobs, self.status)
        event = decode_events(journal.learned[row])[0]
        if isinstance(event, PeerReported):
            self.heard.append((now_us, event.message))
        return event

    def _difference(self, now_us: int, commands: list[Command], ordered: range) -> str:
        journal, kinds = self.journal, self.journal.kind
        assert journal.attempt is not None
        starts = [command for command in commands if isinstance(command, StartJob)]
        moves = [(int(one.job_id), one.nodes[0][0]) for one in commands if isinstance(one, MoveJob)]
        mates = [encode([one]) for one in commands if isinstance(one, ABOUT_MATES)]
        self.sent += [one.message for one in commands if isinstance(one, TellPeer)]
        moved = [(int(journal.row[i]), int(journal.attempt[i])) for i in ordered if kinds[i] == lines.MOVE]
        expected = [int(journal.row[i]) for i in ordered if kinds[i] == lines.START]
        about = [journal.learned[journal.row[i]] for i in ordered if kinds[i] == lines.ABOUT_MATES]
        given = [int(command.job_id) for command in starts]
        self.orders += len(given) + len(moves) + len(mates)
        if given != expected:
            return f"{self._starts_of(given)}, the journal has {self._starts_of(expected)}"
        if moves != moved:
            return "other moves than the journal has"
        if mates != about:
            return _other_order(mates, about)
        for command in starts:
            row = int(self.domain.prepared.rows[int(command.job_id)])
            stayed = int(command.job_id) not in self.ever_moved  # after a move the table has only the job's last nodes
            table = self.domain.table
            if stayed and table.start_us[row] == now_us and command.nodes != _nodes_of(table, row):
                return f"job {self.ids[int(command.job_id)]} got other nodes"
        return ""

    def _starts_of(self, numbers: list[int]) -> str:
        return "starts of " + (", ".join(str(self.ids[number]) for number in numbers[:5]) or "no job")


def _other_order(given: list[bytes], recorded: list[bytes]) -> str:
    """Return the first command about mates that differs."""
    at = next((at for at, pair in enumerate(zip(given, recorded, strict=False)) if pair[0] != pair[1]), -1)
    at = min(len(given), len(recorded)) if at < 0 else at
    kinds = [type(decode_commands(one[at])[0]).__name__ if at < len(one) else "nothing" for one in (given, recorded)]
    return f"another order about mates: {kinds[0]}, the journal has {kinds[1]}" + (
        ", with other words" if kinds[0] == kinds[1] else ""
    )


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
