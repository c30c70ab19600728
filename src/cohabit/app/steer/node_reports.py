"""What the daemon of a node reports to the controller: the node's own counters every few seconds, and ended runs."""

from __future__ import annotations

import bisect
import logging
import time
from collections import deque
from pathlib import Path
from typing import Any

from cohabit.agent.node.keeper import NodeRun
from cohabit.agent.samplers.catalogue import all_samplers
from cohabit.agent.samplers.meter import Meter
from cohabit.agent.samplers.sampler import HOST
from cohabit.live.nodes.sender import Controller, Sender
from cohabit.live.peers.keys import read_keys
from cohabit.model.errors import InputError
from cohabit.model.node_report import AtWays, EndedRun, NodeMeters, Sample

SAMPLE_S = 2.0
SENT_AND_RECEIVED = ("network.rx_bytes", "network.tx_bytes")
NETWORK = "network_bytes_mean"  # of a run that was alone on its node, over all network devices of the node
MOMENTS = 50_000  # of the totals for that: more than a day
log = logging.getLogger(__name__)


def controller_at(address: str, key: Path | None) -> Controller:
    """Return the controller at HOST:PORT, with this node's key."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) <= 65535:
        raise InputError(f"{address!r} is not an address", "--controller", "write HOST:PORT, as [nodes] listen")
    if key is None:
        raise InputError("the key of this node is not given", "--controller", "name it: --key FILE")
    if not key.exists():
        fix = "make it where the controller is (cohabit node key NODE --site SITE.toml) and copy it here, for root only"
        raise InputError("there is no key of this node", str(key), fix)
    return Controller(host, int(port), read_keys(key))


class NodeReports:
    """The reports of one node."""

    def __init__(self, node: str, controller: Controller, meters: NodeMeters | None = None, root: Path = HOST) -> None:
        self._sender = Sender(node, controller, meters=meters)
        self._meter = Meter(all_samplers(root), lambda text: log.info("%s", text))
        self._sampled_s = 0.0
        self._moments: deque[tuple[float, float]] = deque(maxlen=MOMENTS)  # instant, bytes so far

    def start(self) -> None:
        """Begin to send."""
        self._sender.start()

    def stop(self) -> None:
        """Send what is left, if the controller takes it at once."""
        self._sender.stop()

    def step(self, now_s: float) -> None:
        """Take a sample if it is time."""
        if 0 <= now_s - self._sampled_s < SAMPLE_S:
            return
        values = self._meter.sample(round(now_s * 1e6), time.monotonic())
        moved = sum(values.get(name, 0.0) for name in SENT_AND_RECEIVED) * max(now_s - self._sampled_s, 0.0)
        self._moments.append((now_s, (self._moments[-1][1] if self._moments else 0.0) + moved))
        self._sampled_s = now_s
        if values:
            self._sender.sampled(Sample(round(now_s * 1e6), values))

    def ended(self, run: NodeRun) -> None:
        """Report a run. The network belongs to the node: only of a run that was alone it is known what moved it."""
        moved = self._network(run.notice.begun_s, run.notice.ended_s) if run.alone else None
        means = run.means if moved is None else run.means | {NETWORK: moved}
        ended_us = round(run.notice.ended_s * 1e6)
        steps = tuple(AtWays(one.ways, one.seconds, dict(one.amounts)) for one in run.episodes)
        self._sender.ended(
            EndedRun(run.notice.name, max(run.seconds, 0.0), ended_us, run.alone, run.cores, means, steps)
        )

    def standing(self, now_s: float) -> dict[str, Any]:
        """Return how sending goes, for display."""
        return self._sender.standing(now_s)

    def _network(self, begun_s: float, ended_s: float) -> float | None:
        """Return bytes per second between two instants; None: there were too few samples."""
        first = bisect.bisect_left(self._moments, (begun_s, 0.0))
        last = bisect.bisect_right(self._moments, (ended_s, float("inf"))) - 1
        if last <= first or self._moments[last][0] <= self._moments[first][0]:
            return None
        (begin_s, before), (end_s, after) = self._moments[first], self._moments[last]
        return (after - before) / (end_s - begin_s)
