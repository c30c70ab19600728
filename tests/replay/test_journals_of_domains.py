"""The journals of coupled domains: each is replayed by a fresh core, with the messages of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from cohabit.app.scenario.reading import scenario_from
from cohabit.app.serve.journals import Replayed, read_journals, replay_journal, write_journals
from cohabit.app.simulate.coupling import prepare_domains, run_domains
from cohabit.core.core import SchedulerCore
from cohabit.model.codec import decode_commands, decode_events, encode
from cohabit.model.command import Command, HoldJob
from cohabit.model.errors import InputError
from cohabit.model.event import Event, JobFinished, JobStarted, PeerReported
from cohabit.sim import journal as lines
from cohabit.sim.journal import Journal
from tests.replay.coupled_runs import scenario, tables, written

SCHEMES = (("hold", "hold"), ("hold", "yield"), ("yield", "yield"), ("agree", "agree"))
CONDITIONS: dict[str, dict[str, Any]] = {
    "latency": {"coupling": {"latency_s": 0.5}},
    "loss": {"coupling": {"latency_s": 0.2, "jitter_s": 0.3, "loss": 0.2, "duplicate": 0.1}},
    "other clocks": {"d1": {"clock_offset_s": 4000.0}, "coupling": {"latency_s": 0.1}},
    "node loss": {"faults": {"node_mtbf_h": 0.5, "node_repair_h": 0.05}},
}


@pytest.mark.parametrize("schemes", SCHEMES, ids="+".join)
def test_a_replay_gives_the_same_orders_in_every_domain(schemes: tuple[str, ...], tmp_path: Path) -> None:
    _, run = written(tmp_path, scenario(tables(tmp_path), schemes))
    replayed = replay_journal(tmp_path)
    assert replayed.difference == ""
    assert replayed.domains == ("d0", "d1")
    assert replayed.messages == run.messages > 50
    assert replayed.orders > replayed.messages + 48  # starts, holds and releases, too


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_replay_under_worse_conditions(name: str, tmp_path: Path) -> None:
    written(tmp_path, scenario(tables(tmp_path), ("hold", "yield"), **CONDITIONS[name]))
    assert replay_journal(tmp_path).difference == ""


def test_a_replay_of_runs_that_were_stopped_and_repeated(tmp_path: Path) -> None:
    """Messages are lost and mates must be heard all the time: fuses burn. The table has each job's last run only."""
    coupling = {"latency_s": 0.1, "loss": 0.15, "lease_s": 10.0, "overlap_s": -1.0, "when_dead": "wait"}
    _, run = written(tmp_path, scenario(tables(tmp_path, jobs=6, seed=3), ("hold", "yield"), coupling=coupling))
    assert all(stopped(journal) for journal in run.journals.values())
    assert replay_journal(tmp_path).difference == ""


def stopped(journal: Journal) -> list[JobFinished]:
    told = [decode_events(journal.learned[row])[0] for row in journal.row[journal.kind == lines.LEARNED]]
    return [event for event in told if isinstance(event, JobFinished)]


def test_three_domains(tmp_path: Path) -> None:
    written(tmp_path, scenario(tables(tmp_path, 3), ("hold", "yield", "agree")))
    replayed = replay_journal(tmp_path / "journal.parquet")
    assert replayed.difference == ""
    assert replayed.domains == ("d0", "d1", "d2")


def test_a_journal_has_every_step_of_its_core(tmp_path: Path) -> None:
    """With messages that take no time many steps are at one instant; none is merged with another."""
    prepared = prepare_domains(scenario_from(scenario(tables(tmp_path), ("hold", "hold")), "test"))
    seen: dict[str, list[tuple[int, int]]] = {name: [] for name in prepared.domains}

    def watching(name: str) -> Callable[[int, list[Event], list[Command], SchedulerCore], None]:
        def watch(now_us: int, events: list[Event], commands: list[Command], core: SchedulerCore) -> None:
            if not isinstance(events[0], JobStarted):
                seen[name].append((now_us, len(events)))

        return watch

    run = run_domains(prepared, keep_journals=True, observe={name: watching(name) for name in seen})
    for name, journal in run.journals.items():
        assert [(now_us, len(told)) for now_us, told, _ in journal.steps()] == seen[name]
        assert (journal.kind == lines.AGAIN).any()


# ---- journals that somebody has changed -----------------------------------------------------------------------------

Change = Callable[[Journal], Journal]


def changed(folder: Path, change: Change) -> Replayed:
    """Replay a run in which the second domain's journal was changed."""
    path = folder / "journal.parquet"
    journals = read_journals(path)
    write_journals(journals | {"d1": change(journals["d1"])}, path)
    return replay_journal(folder)


def without(journal: Journal, line: int) -> Journal:
    kept = np.arange(len(journal.kind)) != line
    assert journal.attempt is not None
    kinds, rows = journal.kind[kept], journal.row[kept].copy()
    whole = np.isin(kinds, (lines.LEARNED, lines.ABOUT_MATES))
    learned = tuple(journal.learned[row] for row in rows[whole])
    rows[whole] = np.arange(len(learned))
    return Journal(journal.time_us[kept], kinds, rows, journal.attempt[kept], learned)


def places_of(journal: Journal, kind: int, wanted: type) -> list[int]:
    """The lines of this kind with an event or a command of this type."""
    decode = decode_events if kind == lines.LEARNED else decode_commands
    found = np.flatnonzero(journal.kind == kind).tolist()
    return [line for line in found if isinstance(decode(journal.learned[journal.row[line]])[0], wanted)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written(tmp_path, scenario(tables(tmp_path), ("hold", "yield")))
    return tmp_path


def test_an_unchanged_journal_is_identical(folder: Path) -> None:
    assert changed(folder, lambda journal: journal).difference == ""


def test_a_start_that_is_missing_is_found_out(folder: Path) -> None:
    found = changed(folder, lambda one: without(one, int(np.flatnonzero(one.kind == lines.START)[3])))
    assert found.difference.startswith("domain d1, at ")
    assert "the journal has" in found.difference


def test_a_hold_that_is_missing_is_found_out(folder: Path) -> None:
    found = changed(folder, lambda one: without(one, places_of(one, lines.ABOUT_MATES, HoldJob)[0]))
    assert found.difference.startswith("domain d1, at ")
    assert "another order about mates: HoldJob" in found.difference


def test_a_message_that_is_missing_is_found_out(folder: Path) -> None:
    found = changed(folder, lambda one: without(one, places_of(one, lines.LEARNED, PeerReported)[2]))
    assert found.difference.startswith("domain d1, at ")


def test_a_message_that_no_mate_has_sent_is_found_out(folder: Path) -> None:
    def forge(journal: Journal) -> Journal:
        row = int(journal.row[places_of(journal, lines.LEARNED, PeerReported)[-1]])
        event = decode_events(journal.learned[row])[0]
        assert isinstance(event, PeerReported)
        forged = encode([PeerReported(msgspec.structs.replace(event.message, seq=event.message.seq + 1))])
        return replace(journal, learned=(*journal.learned[:row], forged, *journal.learned[row + 1 :]))

    assert "it heard a message that d0 has not sent" in changed(folder, forge).difference


def test_a_journal_of_another_run_is_refused(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    written(other, scenario(tables(other, 3), ("hold",) * 3))
    (folder / "journal.parquet").write_bytes((other / "journal.parquet").read_bytes())
    with pytest.raises(InputError, match="not the journal of the run beside it"):
        replay_journal(folder)
