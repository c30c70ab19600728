"""What goes into the telemetry store comes out of it; a writer that is killed leaves nothing half-written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cohabit.model.errors import InputError
from cohabit.model.telemetry import WINDOW_US, Window
from cohabit.store.telemetry import TelemetryStore, TelemetryWriter
from cohabit.store.telemetry_reduce import Reduced

COUNTERS = ("disk.reads", "disk.writes", "load.load_1m")
NODES = ("n1", "n2", "n3")
HOUR = 3_600_000_000
BEGIN_US = 500_000 * HOUR


def window(number: int, nodes: int = 3, counters: tuple[str, ...] = COUNTERS, shift: float = 0.0) -> Reduced:
    """The window that ends `number` windows after the beginning; its numbers tell which one it is."""
    mean = number + shift + np.arange(nodes * len(counters), dtype=np.float32).reshape(nodes, -1) / 100
    found = Window(BEGIN_US + number * WINDOW_US, counters, mean - 1, mean + 1, mean.astype(np.float32))
    return Reduced(found, np.full(nodes, 5, np.int32))


def filled(folder: Path, count: int, **options: int) -> TelemetryStore:
    with TelemetryWriter(folder, **options) as store:
        for number in range(1, count + 1):
            store.add(window(number), NODES)
    return TelemetryStore(folder)


def test_windows_come_back_as_they_were(tmp_path: Path) -> None:
    store = filled(tmp_path, 30)
    found = list(store.windows(BEGIN_US, BEGIN_US + 30 * WINDOW_US))
    assert len(found) == 30
    for number, one in enumerate(found, 1):
        assert one.nodes == NODES
        assert one.window.digest == window(number).window.digest
        assert one.samples.tolist() == [5, 5, 5]
    assert store.newest_end_us() == BEGIN_US + 30 * WINDOW_US
    assert not store.notes


def test_a_range_of_time_nodes_and_counters(tmp_path: Path) -> None:
    store = filled(tmp_path, 30)
    found = list(store.windows(BEGIN_US + 4 * WINDOW_US, BEGIN_US + 7 * WINDOW_US, ("n3", "nobody"), COUNTERS[1:2]))
    assert [one.window.end_us for one in found] == [BEGIN_US + number * WINDOW_US for number in (5, 6, 7)]
    assert found[0].window.counters == ("disk.writes",)
    assert found[0].window.mean[0, 0] == window(5).window.mean[2, 1]
    assert np.isnan(found[0].window.mean[1]).all()
    assert found[0].samples.tolist() == [5, 0]


def test_a_counter_the_store_never_saw_is_not_known(tmp_path: Path) -> None:
    (found,) = filled(tmp_path, 1).windows(0, BEGIN_US + HOUR, None, ("pressure.io_some_us", "disk.reads"))
    assert np.isnan(found.window.mean[:, 0]).all()
    assert not np.isnan(found.window.mean[:, 1]).any()


def test_hours_that_are_over_become_one_segment_each(tmp_path: Path) -> None:
    store = filled(tmp_path, 12 * 3 + 2)
    hours = [one for one in store.segments() if one.first_us != one.last_us]
    assert len(hours) == 3
    assert [(one.first_us - BEGIN_US, one.last_us - BEGIN_US) for one in hours] == [
        (hour * HOUR + WINDOW_US, (hour + 1) * HOUR) for hour in range(3)
    ]
    assert len(list(tmp_path.glob("*.parquet"))) == 3 + 2


def test_beyond_the_retention_the_oldest_hours_go(tmp_path: Path) -> None:
    store = filled(tmp_path, 12 * 8, keep_us=3 * HOUR)
    ends = [one.window.end_us for one in store.windows(0, BEGIN_US + 100 * HOUR)]
    assert ends[-1] == BEGIN_US + 8 * HOUR
    assert 3 * 12 <= len(ends) <= 4 * 12


def test_a_clock_that_jumps_ahead_does_not_empty_the_store(tmp_path: Path) -> None:
    with TelemetryWriter(tmp_path, keep_us=24 * HOUR) as store:
        for number in (*range(1, 13), 10**6, 10**6 + 1, 13, 14):
            store.add(window(number), NODES)
        assert len(list(store.windows(0, BEGIN_US + 2 * HOUR))) == 14


def test_of_a_window_written_twice_the_later_one_counts(tmp_path: Path) -> None:
    for again in range(2):  # before and after the hour was put together
        with TelemetryWriter(tmp_path) as store:
            store.add(window(3), NODES)
            store.add(window(3, shift=100), NODES)
            if again:
                store.tidy(BEGIN_US + 5 * HOUR)
        (found,) = TelemetryStore(tmp_path).windows(0, BEGIN_US + HOUR)
        assert found.window.digest == window(3, shift=100).window.digest


def test_other_nodes_and_other_counters_of_the_same_window_are_added(tmp_path: Path) -> None:
    with TelemetryWriter(tmp_path) as store:
        store.add(window(3, 1), ["n1"])
        store.add(window(3, 1), ["n2"])
        store.add(window(3, 1, ("network.rx_bytes",), shift=7), ["n1"])
        for _ in range(2):
            (found,) = store.windows(0, BEGIN_US + HOUR)
            assert found.nodes == ("n1", "n2")
            assert set(found.window.counters) == {*COUNTERS, "network.rx_bytes"}
            by_name = dict(zip(found.window.counters, found.window.mean.T, strict=True))
            assert by_name["network.rx_bytes"][0] == 10
            assert np.isnan(by_name["network.rx_bytes"][1])
            assert by_name["disk.reads"].tolist() == [3, 3]
            store.tidy(BEGIN_US + 5 * HOUR)
        assert len(store.segments()) == 1


def test_what_was_known_before_a_job_began(tmp_path: Path) -> None:
    """R3 and R60: the five minutes before, and nothing that ended after its start."""
    store = filled(tmp_path, 30)
    for offset in (0, 1, WINDOW_US - 1):
        found = store.before(BEGIN_US + 9 * WINDOW_US + offset, NODES, COUNTERS)
        assert found is not None
        assert found.digest == window(9).window.digest
    assert store.before(BEGIN_US + WINDOW_US - 1) is None
    assert store.before(BEGIN_US + 31 * WINDOW_US) is None


def test_shorter_windows_are_put_together(tmp_path: Path) -> None:
    """Means are weighted by samples."""
    one = Window(BEGIN_US + 60_000_000, COUNTERS[:1], *(np.array([[value]], np.float32) for value in (1, 3, 2)))
    two = Window(BEGIN_US + 120_000_000, COUNTERS[:1], *(np.array([[value]], np.float32) for value in (0, 9, 5)))
    with TelemetryWriter(tmp_path) as store:
        store.add(Reduced(one, np.array([1], np.int32)), ["n1"])
        store.add(Reduced(two, np.array([2], np.int32)), ["n1"])
        found = store.before(BEGIN_US + 121_000_000)
    assert found is not None
    assert [float(table[0, 0]) for table in (found.lowest, found.highest, found.mean)] == [0, 9, 4]


def test_nodes_that_came_and_went_are_all_in_the_window_before(tmp_path: Path) -> None:
    with TelemetryWriter(tmp_path) as store:
        store.add(window(1, 1), ["n1"])
        store.add(window(2, 1), ["n2"])
        found = store.before(BEGIN_US + 2 * WINDOW_US, span_us=2 * WINDOW_US)
    assert found is not None
    assert found.mean[:, 0].tolist() == [1, 2]


def test_a_damaged_segment_is_left_out_and_said(tmp_path: Path) -> None:
    store = filled(tmp_path, 5)
    second = store.segments()[1].path
    second.write_bytes(second.read_bytes()[:200])
    assert len(list(store.windows(0, BEGIN_US + HOUR))) == 4
    assert len(list(store.windows(0, BEGIN_US + HOUR))) == 4
    (note,) = store.notes
    assert second.name in note
    assert "left out" in note
    with TelemetryWriter(tmp_path) as writer:  # what cannot be read is not thrown away behind anybody's back
        writer.tidy(BEGIN_US + 9 * HOUR)
    assert second.exists()
    assert len(list(TelemetryStore(tmp_path).windows(0, BEGIN_US + HOUR))) == 4


def test_a_draft_is_never_read_and_the_next_writer_says_so(tmp_path: Path) -> None:
    store = filled(tmp_path, 2)
    whole = store.segments()[0].path
    draft = tmp_path / f".{BEGIN_US + 9 * WINDOW_US}-{BEGIN_US + 9 * WINDOW_US}-9.parquet.4711.part"
    draft.write_bytes(whole.read_bytes()[:100])
    (tmp_path / ".somebody-else.part").write_text("not ours")
    assert len(list(TelemetryStore(tmp_path).windows(0, BEGIN_US + HOUR))) == 2
    assert draft.exists()  # a reader may not know whether somebody is writing it
    with TelemetryWriter(tmp_path) as writer:
        assert writer.notes == ["a half-written window of a writer that was killed was dropped"]
    assert not draft.exists()
    assert (tmp_path / ".somebody-else.part").exists()


def test_two_writers_are_refused(tmp_path: Path) -> None:
    with TelemetryWriter(tmp_path):
        with pytest.raises(InputError, match="another process is writing it"):
            TelemetryWriter(tmp_path)
        TelemetryStore(tmp_path)
    TelemetryWriter(tmp_path).close()


@pytest.mark.parametrize("place", ["file", "file/below", "/proc/cohabit"])
def test_folders_that_cannot_be_used(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        TelemetryWriter(tmp_path / place)
    with pytest.raises(InputError, match="no telemetry store"):
        TelemetryStore(tmp_path / place)


def test_a_reader_follows_a_writer_that_puts_hours_together(tmp_path: Path) -> None:
    with TelemetryWriter(tmp_path) as writer:
        for number in range(1, 12):
            writer.add(window(number), NODES)
        reader = TelemetryStore(tmp_path)
        windows = reader.windows(0, BEGIN_US + HOUR)
        assert next(windows).window.end_us == BEGIN_US + WINDOW_US
        writer.tidy(BEGIN_US + 5 * HOUR)  # every segment it has still to read is gone now
        assert len(list(windows)) == 10
        assert not reader.notes


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_telemetry_store import NODES, window
from cohabit.store.telemetry import TelemetryWriter
with TelemetryWriter(Path(sys.argv[1])) as store:
    number = 0
    while True:
        number += 1
        store.add(window(number), NODES)
        print(number, flush=True)
"""


@pytest.mark.slow
def test_kill_9_loses_at_most_the_window_being_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    for turn in range(6):
        folder = tmp_path / str(turn)
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), str(Path(__file__).parent)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(float(rng.uniform(0.0, 0.5)))
        os.kill(process.pid, signal.SIGKILL)
        said = process.stdout.read().split()
        process.wait()
        written = int(said[-1]) if said else 1
        with TelemetryWriter(folder) as store:
            found = [one.window for one in store.windows(0, BEGIN_US + 10**6 * WINDOW_US)]
            assert not [note for note in store.notes if "cannot be read" in note]
            assert written <= len(found) <= written + 1
            for number, one in enumerate(found, 1):
                assert one.digest == window(number).window.digest
            assert all(path.suffix == ".parquet" for path in folder.iterdir() if not path.name.startswith(".writer"))
