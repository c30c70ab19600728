"""Counters of nodes, which show the hidden state: some a lot, some little, most nothing. Noise from a named stream.

A counter is (floor + its part of each kind of load) x log-normal noise. Which counter shows what is an assumption made
from its meaning (model/telemetry_counters.py): data and packets follow a node's own traffic, credits and congestion
marks follow how full the network is, calls and bytes of the filesystem client follow the node's own I/O, and pages
written back under pressure follow how slow the servers are. Error counters stay at 0, as on a healthy machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohabit.model.telemetry import CANARY_TIMES, LAST_PART, Table, Window
from cohabit.model.telemetry_counters import PAPER_SOURCES, SOURCES
from cohabit.sim.weather.constants import CanaryConstants

Floats = NDArray[np.float64]
TRAFFIC, CONGESTION, IO, SLOW_IO = range(4)  # kinds of load of a node
FAITHFUL, ROUGH, POOR = 0.2, 0.5, 1.0  # deviations of the logarithm of a sample
IDLE = 0.02  # what a counter shows without load


def _each(names: str, kind: int, spread: float, share: float = 1.0) -> dict[str, tuple[int, float, float]]:
    return dict.fromkeys(names.split(), (kind, spread, share))


SHOWN: dict[str, tuple[int, float, float]] = {  # counter -> kind of load, spread, share of it; others: nothing
    **_each("port_xmit_data port_rcv_data port_xmit_packets port_rcv_packets", TRAFFIC, FAITHFUL),
    **_each("unicast_xmit_packets unicast_rcv_packets", TRAFFIC, ROUGH),
    **_each("DcXmitFlits DcRcvFlits DcXmitPkts DcRcvPkts", TRAFFIC, FAITHFUL),
    **_each("DcRxFCntl DcXmitFCntl CcePioWrSt", TRAFFIC, POOR, 0.3),
    **_each("port_xmit_wait TxWait", CONGESTION, FAITHFUL),
    **_each("TxFlowStall DcRcvFcn DcRcvBcn DcMarkFcn", CONGESTION, ROUGH),
    **_each("vTxWait PioWait DcRcvBbl RxCtxEgrS port_xmit_discards", CONGESTION, POOR, 0.3),
    **_each("read_bytes write_bytes osc_read osc_write brw_read brw_write", IO, ROUGH),
    **_each("dirty_pages_hits dirty_pages_misses writeback_ok_pages open close seek", IO, POOR),
    **_each("writeback_from_pressure writeback_from_writepage", SLOW_IO, FAITHFUL),
    **_each("fsync inode_permission getattr", SLOW_IO, ROUGH, 0.5),
}
LIVELY = {  # counters that move without meaning anything here
    "multicast_xmit_packets", "multicast_rcv_packets", "DcMcXmitPkts", "DcMcRcvPkts", "KmemWait", "CcePciCrSt",
    "CcePciTrSt", "DcXmitCorr", "DcRcvCorrCnt", "ioctl", "mmap", "setattr", "truncate", "flock", "statfs",
    "alloc_inode", "setxattr", "getxattr", "listxattr",
}  # fmt: skip
COUNTERS = tuple(one for source in PAPER_SOURCES for one in SOURCES[source])
NAMES = tuple(one.full_name for one in COUNTERS)
COLUMNS = NAMES + CANARY_TIMES


@dataclass(frozen=True)
class NodeState:
    """The loads at every node at one moment."""

    traffic: Floats  # its own, as a share of its link
    congestion: Floats  # of the network where it is
    io: Floats  # its own
    slow_io: Floats | float  # delay at the servers, the same for all or by node

    def table(self) -> NDArray[np.float32]:
        """[node, kind of load]."""
        slow = np.broadcast_to(self.slow_io, len(self.traffic))
        return np.stack([self.traffic, self.congestion, self.io, slow], axis=1).astype(np.float32)


class Sampler:
    """Reads all counters of all nodes."""

    def __init__(self, rng: np.random.Generator, canary: CanaryConstants | None) -> None:
        self._rng, self._canary = rng, canary
        self.columns = COLUMNS if canary is not None else NAMES
        weights = np.zeros((4, len(COUNTERS)), np.float32)
        floor, spread = np.zeros(len(COUNTERS), np.float32), np.zeros(len(COUNTERS), np.float32)
        for at, counter in enumerate(COUNTERS):
            kind, own, share = SHOWN.get(counter.name, (TRAFFIC, POOR, 0.0))
            if counter.name in SHOWN or counter.name in LIVELY:
                weights[kind, at], spread[at], floor[at] = share, own, IDLE if share else 1.0
        self._live = np.flatnonzero(spread > 0)
        self._weights, self._floor = weights[:, self._live], floor[self._live]
        self._spread = spread[self._live]

    def sample(self, state: NodeState) -> Table:
        """[node, counter] now."""
        nodes = len(state.traffic)
        luck = self._rng.standard_normal((nodes, len(self._live)), dtype=np.float32)
        found = np.zeros((nodes, len(COUNTERS)), np.float32)
        found[:, self._live] = (self._floor + state.table() @ self._weights) * np.exp(luck * self._spread)
        return found

    def window(self, end_us: int, samples: list[Table], last: NodeState) -> Window:
        """Return the reduced samples of the last minutes, with what a canary would find on each node now (R3, R4)."""
        stacked = np.stack(samples)
        recent = stacked[-max(1, len(samples) // LAST_PART) :]
        parts = [stacked.min(axis=0), stacked.max(axis=0), stacked.mean(axis=0), recent.mean(axis=0)]
        if self._canary is not None:
            waits = self._waits(last, self._canary)
            parts = [np.hstack([part, waits]) for part in parts]
        return Window(end_us, self.columns, *parts)

    def _waits(self, state: NodeState, canary: CanaryConstants) -> Table:
        alone = np.array([canary.send_s, canary.receive_s, canary.reduce_s])
        luck = self._rng.standard_normal((len(state.congestion), len(alone)))
        slowed = (1.0 + state.congestion)[:, None] * alone
        return np.asarray(slowed * np.exp(canary.spread * luck), np.float32)
