"""A run written with its journal is replayed by a fresh core with the same orders; a tampered journal is found out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cohabit.app.scenario.tables import FaultsConfig
from cohabit.app.serve.journals import read_journals, replay_journal, write_journals
from cohabit.app.simulate.finished import ONLY
from cohabit.app.simulate.outputs import write_run
from cohabit.app.simulate.simulation import run
from cohabit.model.errors import InputError
from cohabit.model.records import DONE
from cohabit.model.units import SECOND
from cohabit.sim import journal as lines
from cohabit.sim.journal import Journal
from tests.support.builders import Choice, TraceRow, prepared_trace
from tests.support.randomised import random_trace

CHOICES = (
    Choice(), Choice("wfp", "easy"), Choice("fcfs", "3"), Choice("unicef", "conservative"), Choice("sjf", "none"),
    Choice("fcfs", "conservative"), Choice("saf", "first-fit"), Choice("multifactor", "easy", "sjf"),
)  # fmt: skip
FAULTS = {
    "none": FaultsConfig(),
    "node loss": FaultsConfig(node_mtbf_h=0.05, node_repair_h=0.01),
    "late reports": FaultsConfig(late_reports_s=5.0),
}


def read_journal(path: Path) -> Journal:
    return read_journals(path)[ONLY]


def trace(seed: int = 2, jobs: int = 60) -> list[TraceRow]:
    return [row for row in random_trace(np.random.default_rng(seed), jobs, 8, longest_s=60) if row.size <= 8]


def written(folder: Path, choice: Choice, faults: FaultsConfig, engine: str = "auto", seed: int = 1) -> Path:
    """A run on disk, as `cohabit simulate --out DIR --journal` leaves it."""
    folder.mkdir()
    table, journal = run(prepared_trace(trace(), 8, choice, seed=seed, faults=faults), engine=engine)
    write_run(table, journal, folder, 0.0, report=False, keep_journal=True, title="test")
    return folder


each_choice = [
    pytest.param(choice, id=f"{choice.order}-{choice.backfill}", marks=pytest.mark.slow if number > 3 else ())
    for number, choice in enumerate(CHOICES)
]


@pytest.mark.parametrize("faults", [pytest.param(value, id=name) for name, value in FAULTS.items()])
@pytest.mark.parametrize("choice", each_choice)
def test_a_replay_gives_the_same_orders(choice: Choice, faults: FaultsConfig, tmp_path: Path) -> None:
    replayed = replay_journal(written(tmp_path / "run", choice, faults))
    assert replayed.difference == ""
    assert replayed.orders >= 50
    assert replayed.steps > replayed.orders // 10


@pytest.mark.slow
def test_a_replay_with_node_loss_and_late_reports_at_once(tmp_path: Path) -> None:
    """A late report of a run that was lost in the meantime speaks of the old attempt, in the replay too."""
    both = FaultsConfig(node_mtbf_h=0.02, node_repair_h=0.01, late_reports_s=20.0)
    for seed in range(3):
        replayed = replay_journal(written(tmp_path / f"run{seed}", Choice(), both, seed=seed))
        assert replayed.difference == "", f"seed {seed}"


def test_both_engines_leave_the_same_journal(tmp_path: Path) -> None:
    fast = written(tmp_path / "fast", Choice("fcfs", "conservative"), FaultsConfig(), "fast")
    steps = written(tmp_path / "steps", Choice("fcfs", "conservative"), FaultsConfig(), "steps")
    journals = [read_journal(folder / "journal.parquet") for folder in (fast, steps)]
    assert journals[0].hash() == journals[1].hash()


def tamper(folder: Path, **columns: np.ndarray) -> str:
    path = folder / "journal.parquet"
    write_journals({ONLY: replace(read_journal(path), **columns)}, path)
    return replay_journal(folder).difference


@pytest.mark.parametrize("faults", [FAULTS["none"], FAULTS["node loss"]], ids=["calm", "node loss"])
def test_a_tampered_journal_is_different(faults: FaultsConfig, tmp_path: Path) -> None:
    folder = written(tmp_path / "run", Choice(), faults)
    journal = read_journal(folder / "journal.parquet")
    starts = np.flatnonzero(journal.kind == lines.START)
    swapped = journal.row.copy()
    first, second = next((a, b) for a, b in pairwise(starts) if journal.row[a] != journal.row[b])
    swapped[[first, second]] = swapped[[second, first]]
    assert "the journal has" in tamper(folder, row=swapped)
    kept = np.arange(len(journal.kind)) != starts[len(starts) // 2]
    dropped = {name: getattr(journal, name)[kept] for name in ("time_us", "kind", "row", "attempt")}
    assert tamper(folder, **dropped)
    unchanged = {name: getattr(journal, name) for name in ("time_us", "kind", "row", "attempt")}
    assert tamper(folder, **unchanged) == ""


def test_a_changed_end_is_different(tmp_path: Path) -> None:
    """Facts are taken as they stand: with another end somebody starts at another time."""
    folder = written(tmp_path / "run", Choice(), FaultsConfig())
    journal = read_journal(folder / "journal.parquet")
    kind, ends = journal.kind.copy(), np.flatnonzero(journal.kind == lines.FINISHED)
    kind[ends[len(ends) // 2]] = lines.WOKEN
    assert tamper(folder, kind=kind)


def test_changed_nodes_are_different(tmp_path: Path) -> None:
    from cohabit.report.tables import write_jobs_parquet

    folder = tmp_path / "run"
    folder.mkdir()
    table, journal = run(prepared_trace(trace(), 8))
    assert table.node_ranges is not None
    row = int(np.flatnonzero((table.status == DONE) & (table.nodes < 8))[0])
    first = table.node_ranges.first.copy()
    first[table.node_ranges.offsets[row]] ^= 1
    write_run(table, journal, folder, 0.0, report=False, keep_journal=True, title="test")
    write_jobs_parquet(replace(table, node_ranges=replace(table.node_ranges, first=first)), folder / "jobs.parquet")
    assert "other nodes" in replay_journal(folder).difference


def test_a_file_that_is_no_journal(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such journal"):
        read_journal(tmp_path / "journal.parquet")
    (tmp_path / "journal.parquet").write_text("hello")
    with pytest.raises(InputError, match="is not a journal"):
        read_journal(tmp_path / "journal.parquet")


def test_journal_hashes_tell_runs_apart() -> None:
    rows = [TraceRow(0, SECOND, SECOND, 1), TraceRow(0, SECOND, SECOND, 1)]
    hashes = {
        run(prepared_trace(rows, 2))[1].hash(), run(prepared_trace(rows, 1))[1].hash(),
        run(prepared_trace([*rows, rows[0]], 2))[1].hash(),
    }  # fmt: skip
    assert len(hashes) == 3


def test_the_journal_hash_of_a_known_run_never_changes() -> None:
    """Stored here: if this fails, old journals can no longer be compared with new ones."""
    rows = [TraceRow(0, 100 * SECOND, 100 * SECOND, 6), TraceRow(SECOND, 60 * SECOND, 60 * SECOND, 8)]
    rows.append(TraceRow(2 * SECOND, 1000 * SECOND, 1000 * SECOND, 2))
    assert run(prepared_trace(rows, 10))[1].hash() == "b51bd730f34fdad6451ac1fab2147e1c"
