"""Read telemetry of machines with the node exporter from a Prometheus server, through the query API.

The server computes rates, as it knows about resets; everything is summed over a node's devices. A server that is
down, slow or gives a wrong answer is a `problem` text and no data, never an exception, so that a gate continues
without it (model.telemetry.staleness says so). Only an invalid URL is the caller's mistake.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.model.errors import InputError
from cohabit.model.telemetry_counters import BY_NAME

TIMEOUT_S = 10.0
MOST_POINTS = 10_000  # the server refuses more than 11,000 of a series
_WIRE = '{device!~"lo|veth.*|docker.*|br-.*|virbr.*|ifb.*"}'
_LOOP = '{device="lo"}'
_DISK = '{device!~"dm-.*|md.*|sr.*|loop.*|z?ram.*|nbd.*"}'

# Our counter: the exporter's metric, and what to multiply it by.
METRICS: dict[str, tuple[str, float]] = {
    "network.rx_bytes": ("node_network_receive_bytes_total" + _WIRE, 1),
    "network.rx_packets": ("node_network_receive_packets_total" + _WIRE, 1),
    "network.rx_errors": ("node_network_receive_errs_total" + _WIRE, 1),
    "network.rx_dropped": ("node_network_receive_drop_total" + _WIRE, 1),
    "network.tx_bytes": ("node_network_transmit_bytes_total" + _WIRE, 1),
    "network.tx_packets": ("node_network_transmit_packets_total" + _WIRE, 1),
    "network.tx_errors": ("node_network_transmit_errs_total" + _WIRE, 1),
    "network.tx_dropped": ("node_network_transmit_drop_total" + _WIRE, 1),
    "network.loopback_bytes": ("node_network_transmit_bytes_total" + _LOOP, 1),
    "network.loopback_packets": ("node_network_transmit_packets_total" + _LOOP, 1),
    "disk.read_bytes": ("node_disk_read_bytes_total" + _DISK, 1),
    "disk.write_bytes": ("node_disk_written_bytes_total" + _DISK, 1),
    "disk.reads": ("node_disk_reads_completed_total" + _DISK, 1),
    "disk.writes": ("node_disk_writes_completed_total" + _DISK, 1),
    "disk.read_ms": ("node_disk_read_time_seconds_total" + _DISK, 1000),
    "disk.write_ms": ("node_disk_write_time_seconds_total" + _DISK, 1000),
    "disk.busy_ms": ("node_disk_io_time_seconds_total" + _DISK, 1000),
    "disk.queue_ms": ("node_disk_io_time_weighted_seconds_total" + _DISK, 1000),
    "disk.in_flight": ("node_disk_io_now" + _DISK, 1),
    "pressure.cpu_some_us": ("node_pressure_cpu_waiting_seconds_total", 1e6),
    "pressure.memory_some_us": ("node_pressure_memory_waiting_seconds_total", 1e6),
    "pressure.memory_full_us": ("node_pressure_memory_stalled_seconds_total", 1e6),
    "pressure.io_some_us": ("node_pressure_io_waiting_seconds_total", 1e6),
    "pressure.io_full_us": ("node_pressure_io_stalled_seconds_total", 1e6),
    "load.load_1m": ("node_load1", 1),
    "load.load_5m": ("node_load5", 1),
    "load.load_15m": ("node_load15", 1),
    "load.running": ("node_procs_running", 1),
    "sysclassib.port_xmit_data": ("node_infiniband_port_data_transmitted_bytes_total", 0.25),
    "sysclassib.port_rcv_data": ("node_infiniband_port_data_received_bytes_total", 0.25),
    "sysclassib.port_xmit_packets": ("node_infiniband_port_packets_transmitted_total", 1),
    "sysclassib.port_rcv_packets": ("node_infiniband_port_packets_received_total", 1),
    "sysclassib.unicast_xmit_packets": ("node_infiniband_unicast_packets_transmitted_total", 1),
    "sysclassib.unicast_rcv_packets": ("node_infiniband_unicast_packets_received_total", 1),
    "sysclassib.multicast_xmit_packets": ("node_infiniband_multicast_packets_transmitted_total", 1),
    "sysclassib.multicast_rcv_packets": ("node_infiniband_multicast_packets_received_total", 1),
    "sysclassib.port_xmit_wait": ("node_infiniband_port_transmit_wait_total", 1),
    "sysclassib.port_xmit_discards": ("node_infiniband_port_discards_transmitted_total", 1),
    "sysclassib.port_rcv_errors": ("node_infiniband_port_errors_received_total", 1),
    "sysclassib.symbol_error": ("node_infiniband_symbol_error_total", 1),
    "sysclassib.link_downed": ("node_infiniband_link_downed_total", 1),
    "sysclassib.link_error_recovery": ("node_infiniband_link_error_recovery_total", 1),
}
COUNTERS = tuple(METRICS)


class Fetched(NamedTuple):
    """A server's answer: rows of samples of the nodes `names`, columns as `COUNTERS`; or why there is none."""

    names: tuple[str, ...]
    nodes: NDArray[np.int64]
    times_us: NDArray[np.int64]
    values: NDArray[np.float64]
    problem: str


class _Gone(Exception):
    """The server gave no valid answer; the text says how."""


class Prometheus:
    """A server at a URL."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        try:
            import httpx
        except ImportError:
            raise InputError("reading Prometheus needs the package httpx", url, "pip install httpx") from None
        try:
            address = httpx.URL(url)
        except (httpx.InvalidURL, ValueError) as error:
            raise InputError(f"is not a URL ({error})", url, "it looks like http://host:9090") from None
        if address.scheme not in ("http", "https") or not address.host:
            raise InputError("is not the URL of a server", url, "it looks like http://host:9090")
        self.url = url.rstrip("/")
        self._failures: tuple[type[Exception], ...] = (httpx.HTTPError, httpx.InvalidURL, ValueError)
        # Proxy settings of the environment are for external hosts; a local server is queried directly.
        self._client = httpx.Client(timeout=timeout_s, trust_env=False)

    def __enter__(self) -> Prometheus:
        return self

    def __exit__(self, *exception: object) -> None:
        self._client.close()

    def fetch(self, begin_us: int, end_us: int, step_s: float) -> Fetched:
        """Return samples every `step_s` after `begin_us`, up to `end_us`; rates are over the two steps before each."""
        step_us = round(step_s * 1e6)
        times_us = np.arange(begin_us + step_us, end_us + 1, step_us, dtype=np.int64)
        found: dict[str, NDArray[np.float64]] = {}
        problem = ""
        try:
            for column, name in enumerate(COUNTERS):
                for begin in range(0, len(times_us), MOST_POINTS):
                    self._add(found, column, self._query(name, times_us[begin : begin + MOST_POINTS], step_s), times_us)
        except _Gone as gone:
            problem, found = f"{self.url} {gone}", {}
        names = tuple(sorted(found))
        if not names:
            if len(times_us):
                problem = problem or f"{self.url} has no samples of a node exporter in that time"
            empty = np.zeros(0, np.int64)
            return Fetched((), empty, empty, np.zeros((0, len(COUNTERS))), problem)
        values = np.concatenate([found[name] for name in names])
        nodes, times = np.repeat(np.arange(len(names)), len(times_us)), np.tile(times_us, len(names))
        said = ~np.isnan(values).all(axis=1)
        order = np.argsort(times[said], kind="stable")
        return Fetched(names, nodes[said][order], times[said][order], values[said][order], "")

    def _add(
        self, found: dict[str, NDArray[np.float64]], column: int, answer: list[Any], times_us: NDArray[np.int64]
    ) -> None:
        factor = METRICS[COUNTERS[column]][1]
        for node, seconds, values in _series(answer):
            table = found.setdefault(node, np.full((len(times_us), len(COUNTERS)), np.nan))
            places = np.searchsorted(times_us, np.rint(seconds * 1e6).astype(np.int64) - 1000)  # in milliseconds
            inside = places < len(times_us)
            table[places[inside], column] = values[inside] * factor

    def _query(self, name: str, times_us: NDArray[np.int64], step_s: float) -> list[Any]:
        metric = METRICS[name][0]
        if BY_NAME[name].kind == "amount":
            metric = f"rate({metric}[{max(round(2000 * step_s), 1)}ms])"
        asked = {
            "query": f"sum by (instance) ({metric})",
            "start": f"{times_us[0] / 1e6:.6f}",
            "end": f"{times_us[-1] / 1e6:.6f}",
            "step": f"{step_s:g}",
        }
        try:
            reply = self._client.post(f"{self.url}/api/v1/query_range", data=asked)
            document = reply.json()
            if document.get("status") != "success":
                raise _Gone(f"refuses: {document.get('error', reply.status_code)}")
            answer = document["data"]["result"]
        except self._failures as error:
            raise _Gone(f"does not answer: {str(error) or type(error).__name__}") from error
        except (AttributeError, KeyError, TypeError):
            raise _Gone("answers, but not as a Prometheus server does") from None
        return list(answer)


def _series(answer: list[Any]) -> Iterator[tuple[str, NDArray[np.float64], NDArray[np.float64]]]:
    """The node, times and values of every series."""
    for one in answer:
        try:
            instance = str(one["metric"]["instance"])
            pairs = [(float(time), float(value)) for time, value in one["values"]]
        except (KeyError, TypeError, ValueError):
            raise _Gone("answers, but not as a Prometheus server does") from None
        if pairs:
            host, _, port = instance.rpartition(":")
            times, values = np.array(pairs).T
            yield (host if host and port.isdigit() else instance), times, np.where(np.isfinite(values), values, np.nan)
