"""Profiling of real programs: curves from episodes, the cache stepped on an enforcing fake, estimates by valgrind."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cohabit.agent.launch.process import Request
from cohabit.agent.profiling import simulated_cache
from cohabit.agent.profiling.capacity import active_counts, measure_capacity
from cohabit.agent.profiling.episodes import SHORTEST_S, Episode, Tour, curves_of, flat, tour_of
from cohabit.agent.profiling.simulated_cache import Counted, count_misses, estimated, with_ways
from cohabit.agent.profiling.way_steps import PREFIX, WayGroup, curve_run, step_through
from cohabit.agent.resctrl.files import Mount
from cohabit.agent.resctrl.offer import ResctrlOffer, read_offer
from cohabit.agent.resctrl.schemata import parse
from cohabit.agent.sensors.source import Offer, Watch
from cohabit.app.measure.profiling import Host, Settings, account, profile
from cohabit.model.errors import InputError
from cohabit.store.learning import keep
from cohabit.store.profiles import ProfileStore, empty_store
from tests.support.resctrl import FakeResctrl

ROOT = Path("/sys/fs/resctrl")


def pid_exists(pid: int) -> bool:
    return Path("/proc", str(pid)).exists()


@pytest.fixture
def fake() -> FakeResctrl:
    return FakeResctrl(pid_exists)


def offer_of(fake: FakeResctrl) -> ResctrlOffer:
    return read_offer(fake, Mount(ROOT), "x86_64")


class Responding:
    """Counters of a program that needs four ways: by the masks of its group, and traffic into the fake itself."""

    name, slows_down = "simulated", False

    def __init__(self, fake: FakeResctrl) -> None:
        self.fake, self.seen = fake, list[int]()

    def offer(self) -> Offer:
        return Offer(self.name, True, "", "", ("instructions", "cycles"))

    def prefix(self, folder: Path) -> tuple[str, ...]:
        return ()

    def watch(self, pid: int, folder: Path) -> Watch:
        return _Response(self, pid)


class _Response:
    def __init__(self, source: Responding, pid: int) -> None:
        self.source, self.pid, self.at_s = source, pid, time.monotonic()
        self.cycles = self.instructions = 0.0

    def sample(self) -> Mapping[str, float]:
        now_s = time.monotonic()
        seconds, self.at_s = now_s - self.at_s, now_s
        group = next(name for name in self.source.fake.names(ROOT) if name.startswith(PREFIX))
        mask = next(iter(parse(self.source.fake.read(ROOT / group / "schemata"))["L3"].values()))
        ways = mask.bit_count()
        self.source.seen.append(ways)
        self.cycles += 1e9 * seconds
        self.instructions += min(1.0, ways / 4) * 1e9 * seconds
        moved = int((3e9 if ways < 4 else 1e9) * seconds)
        self.source.fake.tick(self.pid, moved, moved, 1 << 20)
        return {"cycles": self.cycles, "instructions": self.instructions}

    def stop(self) -> Mapping[str, float]:
        return {}


def sleeper(seconds: float) -> Request:
    return Request((sys.executable, "-I", "-S", "-c", f"import time; time.sleep({seconds})"))


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def test_a_tour_covers_the_cache_within_the_run() -> None:
    assert tour_of(20, 2) == Tour((2, 4, 8, 20), 5.0, 2.0)
    assert tour_of(11, 3).ways == (4, 8, 11)
    assert tour_of(4).ways == (2, 4)
    short = tour_of(20, 2, expected_s=12.0)
    assert (short.ways, short.episode_s) == ((2, 4, 8, 20), 3.0)
    assert short.settle_s == pytest.approx(1.2)
    assert tour_of(20, 2, expected_s=0.5).episode_s == SHORTEST_S
    assert tour_of(20, 2, expected_s=500.0).episode_s == 5.0


def test_curves_average_over_rounds_and_never_fall() -> None:
    episodes = [
        Episode(2, 3.0, {"instructions": 1e9, "cycles": 2e9, "memory_total_bytes": 9e9}),
        Episode(4, 3.0, {"instructions": 2e9, "cycles": 2e9, "memory_total_bytes": 3e9}),
        Episode(8, 3.0, {"instructions": 1.9e9, "cycles": 2e9, "memory_total_bytes": 3e9}),
        Episode(2, 3.0, {"instructions": 2e9, "cycles": 2e9, "memory_total_bytes": 3e9}),
    ]
    found = curves_of(episodes)
    assert found.ipc is not None
    assert found.bandwidth_gbs is not None
    assert found.ipc.ways == (2, 4, 8)
    assert found.ipc.values == pytest.approx((0.75, 0.975, 0.975))
    assert found.bandwidth_gbs.values == pytest.approx((2.0, 1.0, 1.0))
    assert found.miss_rate is None


def test_what_was_not_counted_is_not_made_up() -> None:
    found = curves_of([Episode(2, 1.0, {}), Episode(4, 1.0, {"memory_total_bytes": 1e9}), Episode(8, 1.0, {})])
    assert (found.ipc, found.bandwidth_gbs, found.miss_rate) == (None, None, None), "one allocation is no curve"
    timed = curves_of([Episode(w, 1.0, {"instructions": w * 1e9, "task_clock": 1.0}) for w in (2, 4)])
    assert timed.ipc is not None
    assert timed.ipc.values == pytest.approx((2.0, 4.0)), "without cycles by processor time"
    assert flat(1.5, 0).at(1) == flat(1.5, 0).at(99) == 1.5


# ---- stepping on the fake --------------------------------------------------------------------------------------------


def test_the_cache_is_stepped_round_and_round_and_the_curve_is_found(fake: FakeResctrl, tmp_path: Path) -> None:
    group, counters = WayGroup(fake, offer_of(fake)), Responding(fake)
    ended, episodes = curve_run(sleeper(5.0), Tour((2, 4, 8), 0.25, 0.1), group, counters, tmp_path, 60)
    group.close()
    assert ended.status == 0
    assert [one.ways for one in episodes] == [(2, 4, 8)[at % 3] for at in range(len(episodes))]
    assert len(episodes) > 3
    found = curves_of(episodes)
    assert found.ipc is not None
    assert found.bandwidth_gbs is not None
    assert found.ipc.values == pytest.approx((0.5, 1.0, 1.0), rel=0.02)
    assert found.bandwidth_gbs.values[0] > 2.5 * found.bandwidth_gbs.values[2]
    assert not [name for name in fake.names(ROOT) if name.startswith(PREFIX)], "its group is gone"


def test_an_episode_cut_short_does_not_count() -> None:
    waits = iter([False, False, False, True])
    given: list[int] = []
    found = step_through(
        Tour((2, 4), 5.0, 2.0), given.append, lambda: {"cycles": 1.0}, lambda s: next(waits), lambda: 0.0
    )
    assert (given, [one.ways for one in found]) == ([2, 4], [2])


def test_a_counter_that_starts_anew_is_left_out() -> None:
    samples = iter([{"cycles": 9.0, "instructions": 1.0}, {"cycles": 1.0, "instructions": 3.0}])
    waits = iter([False, False, True])
    (one,) = step_through(
        Tour((2,), 1.0, 0.1), lambda w: None, lambda: next(samples), lambda s: next(waits), lambda: 0.0
    )
    assert one.amounts == {"instructions": 2.0}


def test_groups_of_killed_profilers_go_and_those_of_others_stay(fake: FakeResctrl) -> None:
    fake.add_foreign_class("somebody")
    fake.make(ROOT / f"{PREFIX}999999-0")
    group = WayGroup(fake, offer_of(fake))
    names = fake.names(ROOT)
    assert f"{PREFIX}999999-0" not in names
    assert "somebody" in names
    group.close()


def test_no_class_left_is_one_sentence(fake: FakeResctrl) -> None:
    def use_up() -> None:
        for number in itertools.count():
            fake.make(ROOT / f"cohabit.class{number}")

    with pytest.raises(OSError, match="No space") as refused:
        use_up()
    assert refused.value.errno == errno.ENOSPC
    with pytest.raises(InputError, match="no group of its own"):
        WayGroup(fake, offer_of(fake))


# ---- the whole thing -------------------------------------------------------------------------------------------------


@pytest.fixture
def store() -> Iterator[ProfileStore]:
    with empty_store() as found:
        yield found


def host_of(fake: FakeResctrl) -> Host:
    return Host(fake, lambda: Mount(ROOT), Responding(fake))


def test_a_real_program_is_profiled_with_curves_and_kept(
    fake: FakeResctrl, store: ProfileStore, tmp_path: Path
) -> None:
    said: list[str] = []
    settings = Settings((sys.executable, "-I", "-S", "-c", "import time; time.sleep(4.2)"), "sleeper")
    found = profile(settings, tmp_path, said.append, host_of(fake))
    one = found.scales[0]
    assert one.complete
    assert one.ipc is not None
    assert one.ipc.at(2) == pytest.approx(0.5, rel=0.1)
    assert 4.2 < one.time_s < 15.0
    assert found.hardware.startswith(f"{len(os.sched_getaffinity(0))}c-")
    assert "for the curves" in said[-1]
    known, why = keep(store, found)
    assert (why, store.get("sleeper")) == ("", known)
    document = account(known, found, why, store.where)
    assert document["curves"]["ipc"] is not None


def test_repeated_runs_are_averaged_and_a_changed_program_starts_afresh(store: ProfileStore, tmp_path: Path) -> None:
    def settings(seconds: float) -> Settings:
        code = f"import time; time.sleep({seconds})"
        return Settings((sys.executable, "-I", "-S", "-c", code), "p", repeats=2, curve="none")

    first = profile(settings(0.5), tmp_path, lambda text: None)
    assert first.scales[0].samples == 2
    keep(store, first)
    known, why = keep(store, first)
    assert (known.scales[0].samples, why) == (4, "")
    other = profile(settings(2.5), tmp_path, lambda text: None)
    known, why = keep(store, other)
    assert "its time went from" in why
    assert known.scales[0].time_s == other.scales[0].time_s


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(("no-such-program",), "x"), "there is no program"),
        (Settings(("true",), "x", processes=4096), "4096 processes"),
        (Settings(("true",), "x", curve="resctrl"), "cannot be stepped"),
        (Settings(("false",), "x", curve="none"), "fails alone"),
        (Settings(("sleep", "60"), "x", curve="none", limit_s=0.3), "fails alone"),
    ],
)
def test_what_cannot_be_profiled_is_one_sentence(settings: Settings, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        profile(settings, tmp_path, lambda text: None, Host(FakeResctrl(pid_exists), lambda: None))


# ---- valgrind --------------------------------------------------------------------------------------------------------

SMALL = {"I1": (16384, 4, 64), "D1": (16384, 4, 64), "LL": (256 << 10, 8, 64)}


def test_fewer_ways_are_a_smaller_cache_with_the_same_sets() -> None:
    assert with_ways(SMALL, 2)["LL"] == (64 << 10, 2, 64)
    assert with_ways(SMALL, 8) == SMALL


def test_the_estimate_charges_every_extra_miss() -> None:
    counted = [Counted(2, 1e8, 6e7), Counted(8, 1e8, 1e7)]
    found = estimated(counted, busy_s=1.0, processes=1)
    assert found.ipc is not None
    assert found.bandwidth_gbs is not None
    assert found.ipc.values == pytest.approx((1 / (1 + 5e7 * simulated_cache.STALL_S), 1.0))
    assert found.bandwidth_gbs.values == pytest.approx((6e7 * 64 / 2.0 / 1e9, 1e7 * 64 / 1e9))
    assert found.miss_rate is not None
    assert found.miss_rate.values == pytest.approx((0.6, 0.1))
    shared = estimated(counted, busy_s=1.0, processes=5)
    assert shared.ipc is not None
    assert shared.ipc.values[0] == pytest.approx(1 / 1.2), "five processes wait side by side"


@pytest.mark.skipif(shutil.which("valgrind") is None or shutil.which("awk") is None, reason="needs valgrind and awk")
def test_a_real_program_misses_more_in_a_smaller_simulated_cache(tmp_path: Path) -> None:
    code = "BEGIN { for (i = 0; i < 3000; i++) a[i] = i; for (r = 0; r < 4; r++) for (i = 0; i < 3000; i++) s += a[i] }"
    counted = count_misses(Request(("awk", code)), 1.0, 300.0, tmp_path, SMALL)
    assert [one.ways for one in counted] == [2, 4, 8]
    misses = [one.misses for one in counted]
    assert misses[0] > 1.5 * misses[2]
    assert misses[0] >= misses[1] >= misses[2]


# ---- capacity --------------------------------------------------------------------------------------------------------


def test_active_cores_are_looked_at_where_the_curve_bends() -> None:
    assert active_counts(1) == (1,)
    assert active_counts(2) == (1, 2)
    assert active_counts(28) == (1, 2, 3, 4, 6, 8, 12, 16, 24, 28)


def test_a_real_stream_on_each_core_draws_something() -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    points = measure_capacity(cores, seconds=0.3, size_mb=32)
    assert [active for active, _ in points] == list(active_counts(len(cores)))
    assert all(gbs > 0.1 for _, gbs in points)
