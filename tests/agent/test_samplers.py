"""Samplers over trees of files as real hosts show them; what the meter makes of counters and clocks that misbehave."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from cohabit.agent.samplers import disk, infiniband, load, lustre, network, omni_path, pressure
from cohabit.agent.samplers.catalogue import all_samplers
from cohabit.agent.samplers.meter import Meter
from cohabit.agent.samplers.sampler import Sampler
from cohabit.agent.sensors.source import Offer
from cohabit.model.telemetry import feature_names, growth
from cohabit.model.telemetry_counters import BY_NAME, INFINIBAND, LUSTRE, OMNI_PATH, PAPER_SOURCES, SOURCES

NOW_US = 1_800_000_000_000_000
NET = """\
Inter-|   Receive                                                |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 900      9    0    0    0     0          0         0      900       9    0    0    0     0       0          0
  eth0: 1000    10    1    2    0     0          0         3     2000      20    3    4    0     0       0          0
docker0: 7777  77    0    0    0     0          0         0     7777      77    0    0    0     0       0          0
"""
DISKS = """\
   7       0 loop0 5 0 50 5 0 0 0 0 0 5 5 0 0 0 0 0 0
 259       0 nvme0n1 100 7 800 40 200 9 1600 80 3 60 120 0 0 0 0 0 0
 259       1 nvme0n1p1 90 7 700 30 190 9 1500 70 0 50 100 0 0 0 0 0 0
   8       0 sda 1 0 8 1 2 0 16 2 0 3 4
 253       0 dm-0 190 0 1500 70 390 0 3100 150 0 110 220 0 0 0 0 0 0
"""
LLITE = """\
snapshot_time             1605312000.123456 secs.usecs
read_bytes                12 samples [bytes] 4096 1048576 5000000 9999
write_bytes               3 samples [bytes] 1 4096 8192
brw_read                  4 samples [pages] 1 256 300
open                      154 samples [regs]
getattr                   20 samples [usec] 10 200 900 50000
nonsense                  1 samples [regs]
close
seek                      many samples [regs]
"""


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{content}\n" if not str(content).endswith("\n") else str(content))


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A node with two InfiniBand ports, an Omni-Path adapter, Lustre, a network card, disks, pressure and load."""
    adapters = tmp_path / "sys" / "class" / "infiniband"
    for port in (1, 2):
        for number, one in enumerate(INFINIBAND):
            folder = "hw_counters" if one.name == "out_of_buffer" else "counters"
            write(adapters / "mlx5_0" / "ports" / str(port) / folder / one.name, port * (number + 1))
    for one in OMNI_PATH:
        place = adapters / "hfi1_0" / "ports" / "1" if one.name.startswith("Tx") else adapters / "hfi1_0"
        write(place / "hw_counters" / one.name, 5)
    write(adapters / "hfi1_0" / "ports" / "1" / "counters" / "port_xmit_data", 1000)
    write(tmp_path / "proc" / "fs" / "lustre" / "llite" / "scratch-ffff8800" / "stats", LLITE)
    write(tmp_path / "proc" / "net" / "dev", NET)
    write(tmp_path / "sys" / "class" / "net" / "eth0" / "device" / "vendor", "0x1af4")
    write(tmp_path / "sys" / "class" / "net" / "docker0" / "mtu", 1500)
    write(tmp_path / "proc" / "diskstats", DISKS)
    for name in ("loop0", "nvme0n1", "sda", "dm-0"):
        write(tmp_path / "sys" / "block" / name / "size", 1)
    for resource in ("cpu", "memory", "io"):
        text = "some avg10=1.00 avg60=0.50 avg300=0.10 total=700\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=40\n"
        write(tmp_path / "proc" / "pressure" / resource, text)
    write(tmp_path / "proc" / "loadavg", "3.04 1.56 1.50 7/94 16789")
    return tmp_path


def test_the_papers_sources_have_the_papers_number_of_features() -> None:
    features = [len(feature_names([one.full_name for one in SOURCES[name]])) for name in PAPER_SOURCES]
    assert features == [66, 102, 102]
    assert len(BY_NAME) == sum(len(counters) for counters in SOURCES.values())
    assert all(one.unit and one.meaning for one in BY_NAME.values())


def test_every_sampler_offers_its_whole_catalogue_on_a_full_host(host: Path) -> None:
    samplers = all_samplers(host)
    assert [one.name for one in samplers] == list(SOURCES)
    for one in samplers:
        offer = one.offer()
        assert offer.available, offer
        assert list(offer.counters) == [counter.name for counter in SOURCES[one.name]]


def test_infiniband_reads_every_port_of_every_adapter(host: Path) -> None:
    found = infiniband.read(host)
    assert found["port_xmit_data", "mlx5_0.2"] == 2
    assert found["out_of_buffer", "mlx5_0.1"] == 22
    assert found["port_xmit_data", "hfi1_0.1"] == 1000
    assert len(found) == 2 * 22 + 1


def test_a_port_without_counters_says_so_in_words_and_is_left_out(host: Path) -> None:
    port = host / "sys" / "class" / "infiniband" / "mlx5_0" / "ports" / "1" / "counters"
    write(port / "VL15_dropped", "N/A (no PMA)")
    (port / "symbol_error").unlink()
    (port / "link_downed").unlink()
    (port / "link_downed").mkdir()  # any error of the system in place of content
    write(port / "port_rcv_data", -5)
    found = infiniband.read(host)
    for name in ("VL15_dropped", "symbol_error", "link_downed", "port_rcv_data"):
        assert (name, "mlx5_0.1") not in found
        assert (name, "mlx5_0.2") in found


def test_omni_path_reads_adapters_of_its_driver_only(host: Path) -> None:
    found = omni_path.read(host)
    assert {device for _, device in found} == {"hfi1_0", "hfi1_0.1"}
    assert found["DcRcvFcn", "hfi1_0"] == 5
    assert found["TxWait", "hfi1_0.1"] == 5


def test_lustre_takes_sums_of_sizes_and_numbers_of_calls(host: Path) -> None:
    found = {name: value for (name, _), value in lustre.read(host).items()}
    assert found["read_bytes"] == 5_000_000
    assert found["brw_read"] == 300
    assert found["open"] == 154
    assert found["getattr"] == 20  # its sum is a time
    assert found["seek"] == found["close"] == found["mmap"] == 0  # unreadable, cut off, never happened
    assert set(found) == {one.name for one in LUSTRE}


def test_lustre_of_later_versions_is_in_debugfs(tmp_path: Path) -> None:
    write(tmp_path / "sys" / "kernel" / "debug" / "lustre" / "llite" / "fs-1" / "stats", LLITE)
    (found,) = [one for one in all_samplers(tmp_path) if one.name == "lustre2_client"]
    assert found.offer().available


def test_network_counts_hardware_and_loopback_apart(host: Path) -> None:
    found = network.read(host)
    assert found["rx_bytes", "eth0"] == 1000
    assert found["tx_dropped", "eth0"] == 4
    assert found["loopback_bytes", "lo"] == 900
    assert {device for _, device in found} == {"eth0", "lo"}


def test_network_in_a_container_takes_what_there_is(host: Path) -> None:
    (host / "sys" / "class" / "net" / "eth0" / "device" / "vendor").unlink()
    (host / "sys" / "class" / "net" / "eth0" / "device").rmdir()
    assert {device for _, device in network.read(host)} == {"eth0", "docker0", "lo"}


def test_disks_are_counted_once(host: Path) -> None:
    found = disk.read(host)
    assert {device for _, device in found} == {"nvme0n1", "sda"}
    assert found["read_bytes", "nvme0n1"] == 800 * 512
    assert found["in_flight", "nvme0n1"] == 3
    assert found["queue_ms", "sda"] == 4


def test_pressure_and_load(host: Path) -> None:
    found = pressure.read(host)
    assert found["cpu_some_us", ""] == 700
    assert found["io_full_us", ""] == 40
    assert ("cpu_full_us", "") not in found
    assert load.read(host) == {
        ("load_1m", ""): 3.04,
        ("load_5m", ""): 1.56,
        ("load_15m", ""): 1.5,
        ("running", ""): 7,
    }


@pytest.mark.parametrize("content", ["", "\0\0", "total=", "some total=x\n", "1 2", "a: 1 2 3\n eth0: 1\n", "é" * 9])
def test_files_that_hold_something_else_are_no_data_and_no_error(host: Path, content: str) -> None:
    for path in host.rglob("*"):
        if path.is_file():
            path.write_text(content)
    for sampler in all_samplers(host):
        readings = sampler.read()
        assert all(value == 0 for value in readings.values()), sampler.name
        assert sampler.name == "lustre2_client" or not sampler.offer().available


def test_absent_hardware_is_said_once_and_skipped(tmp_path: Path) -> None:
    write(tmp_path / "proc" / "loadavg", "3.04 1.56 1.50 7/94 16789")
    said: list[str] = []
    meter = Meter(all_samplers(tmp_path), said.append)
    assert meter.counters == ("load.load_1m", "load.load_5m", "load.load_15m", "load.running")
    for second in range(4):
        assert set(meter.sample(NOW_US + second * 1_000_000, float(second))) == set(meter.counters)
    assert len(said) == 6
    assert all("is left out: " in sentence for sentence in said)


def test_this_very_host() -> None:
    """No tree of files but the kernel."""
    said: list[str] = []
    meter = Meter(all_samplers(), said.append)
    assert "load.load_1m" in meter.counters
    meter.sample(time.time_ns() // 1000, time.monotonic())
    time.sleep(0.05)
    row = meter.sample(time.time_ns() // 1000, time.monotonic())
    assert set(row) == set(meter.counters)
    assert all(value >= 0 for value in row.values())


# ---- the meter ------------------------------------------------------------------------------------------------------


class Scripted:
    """Readings one after the other; the last one stays."""

    def __init__(self, name: str, *readings: Mapping[tuple[str, str], float]) -> None:
        self.name, self.readings = name, list(readings)
        self.counters = tuple(dict.fromkeys(counter for counter, _ in readings[0]))

    def offer(self) -> Offer:
        return Offer(self.name, True, "", "", self.counters)

    def read(self) -> Mapping[tuple[str, str], float]:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def metered(sampler: Sampler, steps: int, step_s: float = 10.0) -> tuple[list[dict[str, float]], list[str], Meter]:
    said: list[str] = []
    meter = Meter([sampler], said.append)
    rows = [meter.sample(NOW_US + round(step * step_s * 1e6), step * step_s) for step in range(steps)]
    return rows, said, meter


def test_amounts_are_per_second_and_summed_over_devices_and_levels_are_levels() -> None:
    first = {("reads", "a"): 100.0, ("reads", "b"): 7.0, ("in_flight", "a"): 2.0, ("in_flight", "b"): 3.0}
    rows, said, _ = metered(Scripted("disk", first, first | {("reads", "a"): 150.0, ("reads", "b"): 57.0}), 2)
    assert rows == [{"disk.in_flight": 5.0}, {"disk.reads": 10.0, "disk.in_flight": 5.0}]
    assert not said


def test_a_counter_that_wraps_round_is_corrected() -> None:
    high = 2.0**32 - 100
    rows, said, meter = metered(Scripted("disk", {("busy_ms", "a"): high}, {("busy_ms", "a"): 400.0}), 2)
    assert rows[1] == {"disk.busy_ms": 50.0}
    assert said == ["disk.busy_ms of a wrapped round, which is allowed for"]
    assert meter.defects["wrapped round"] == 1


def test_a_counter_that_was_reset_is_unknown_once() -> None:
    readings = [{("reads", "a"): value} for value in (1000.0, 5.0, 25.0)]
    rows, said, _ = metered(Scripted("disk", *readings), 3)
    assert rows == [{}, {}, {"disk.reads": 2.0}]
    assert said == ["disk.reads of a was reset: its growth is not known this once"]


def test_a_counter_that_stays_at_its_highest_value_says_nothing() -> None:
    rows, said, _ = metered(Scripted("sysclassib", *[{("symbol_error", "p"): 65535.0}] * 3), 3)
    assert rows == [{}, {}, {}]
    assert said == ["sysclassib.symbol_error of p stays at its highest value until it is cleared"]
    rows, _, _ = metered(Scripted("sysclassib", *[{("port_xmit_data", "p"): 65535.0}] * 3), 3)
    assert rows[1:] == [{"sysclassib.port_xmit_data": 0.0}] * 2


def test_a_counter_that_is_missing_is_said_once_and_comes_back() -> None:
    both = {("rx_bytes", "e"): 10.0, ("tx_bytes", "e"): 10.0}
    one = {("rx_bytes", "e"): 10.0}
    rows, said, meter = metered(Scripted("network", both, one, one, both, both), 5)
    assert [("network.tx_bytes" in row) for row in rows] == [False, False, False, False, True]
    assert said == ["network.tx_bytes cannot be read now and is left out"]
    assert meter.defects["missing"] == 2


def test_a_device_that_vanishes_takes_nothing_with_it() -> None:
    two = {("rx_bytes", "e0"): 100.0, ("rx_bytes", "e1"): 1000.0}
    rows, said, _ = metered(Scripted("network", two, {("rx_bytes", "e0"): 110.0}, {("rx_bytes", "e0"): 120.0}), 3)
    assert rows[1:] == [{"network.rx_bytes": 1.0}] * 2
    assert said == ["e1 of network has vanished"]


@pytest.mark.parametrize(("jump_s", "words"), [(-7200, "set back by 7,200 s"), (86400, "set forward by 86,400 s")])
def test_a_clock_that_jumps_is_said_and_spoils_no_rate(jump_s: int, words: str) -> None:
    said: list[str] = []
    meter = Meter([Scripted("disk", {("reads", "a"): 0.0}, {("reads", "a"): 100.0})], said.append)
    meter.sample(NOW_US, 50.0)
    assert meter.sample(NOW_US + (10 + jump_s) * 1_000_000, 60.0) == {"disk.reads": 10.0}
    assert said == [f"the clock was {words}"]


def test_after_a_long_sleep_amounts_begin_anew() -> None:
    readings = [{("reads", "a"): value} for value in (0.0, 9e9, 9e9 + 10)]
    rows, said, meter = metered(Scripted("disk", *readings), 3, step_s=301.0)
    assert rows == [{}, {}, {}]
    assert "no sample for 301 s" in said[0]
    assert meter.defects["a gap between samples"] == 2


def test_time_that_stands_still_gives_no_rate() -> None:
    rows, _, _ = metered(Scripted("disk", {("reads", "a"): 0.0}, {("reads", "a"): 100.0}), 2, step_s=0.0)
    assert rows[1] == {}


# ---- the arithmetic -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "bits", "stays", "rate"),
    [
        (10, 30, 64, False, 2.0),
        (2.0**32 - 10, 10, 32, False, 2.0),
        (2.0**64 - 2048, 2048, 64, False, 409.6),
        (2.0**32 - 10, 10, 64, False, math.nan),  # far from the end of a 64-bit counter: a reset
        (2.0**31, 10, 32, False, math.nan),
        (2.0**33, 10, 32, False, math.nan),  # more than it could hold: it is not what we think it is
        (250, 5, 8, True, math.nan),  # it does not wrap, so it was cleared
        (250, 255, 8, True, 0.5),
        (255, 255, 8, True, math.nan),
        (2.0**32 - 1, 2.0**32 - 1, 64, True, math.nan),
        (0, 0, 8, True, 0.0),
        (math.nan, 5, 64, False, math.nan),
        (5, math.nan, 64, False, math.nan),
    ],
)
def test_growth_by_hand(before: float, after: float, bits: int, stays: bool, rate: float) -> None:
    found = float(growth(before, after, 10.0, bits, stays).per_second)
    assert found == pytest.approx(rate, nan_ok=True)
