"""Every counter of telemetry, by source: its name there, its kind, its unit and its meaning. Data only.

The three sources of the paper come first, with as many counters as it names (RUSH R2: 22, 34 and 34, so 66, 102 and 102
features); the paper lists no names. Those of `sysclassib` are the files below /sys/class/infiniband/*/ports/*/counters
and one of hw_counters; those of `opa_info` are files of the hfi1 driver; those of `lustre2_client` are lines of llite's
`stats`. Every Linux machine has the others. An amount only grows and is reported per second; a level is as it is.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["amount", "level"]


class Counter(NamedTuple):
    """One counter of one source."""

    source: str
    name: str
    kind: Kind
    unit: str
    meaning: str
    bits: int = 64  # where it wraps round, or stays
    stays: bool = False  # at its highest value it stays until it is cleared, instead of wrapping

    @property
    def full_name(self) -> str:
        """The name in windows and features."""
        return f"{self.source}.{self.name}"


def _amounts(source: str, rows: tuple[tuple[str, str, str], ...]) -> tuple[Counter, ...]:
    return tuple(Counter(source, name, "amount", unit, meaning) for name, unit, meaning in rows)


def _port_counters(rows: tuple[tuple[str, int, str, str], ...]) -> tuple[Counter, ...]:
    """Widths as the kernel declares them (drivers/infiniband/core/sysfs.c)."""
    return tuple(Counter("sysclassib", name, "amount", unit, meaning, bits, True) for name, bits, unit, meaning in rows)


INFINIBAND = _port_counters((
    ("port_xmit_data", 64, "words", "data sent, in words of four bytes"),
    ("port_rcv_data", 64, "words", "data received, in words of four bytes"),
    ("port_xmit_packets", 64, "packets", "packets sent"),
    ("port_rcv_packets", 64, "packets", "packets received"),
    ("unicast_xmit_packets", 64, "packets", "packets sent to one receiver"),
    ("unicast_rcv_packets", 64, "packets", "packets received that had one receiver"),
    ("multicast_xmit_packets", 64, "packets", "packets sent to many receivers"),
    ("multicast_rcv_packets", 64, "packets", "packets received that had many receivers"),
    ("port_xmit_wait", 32, "ticks", "time with data to send and no credit to send it: congestion"),
    ("port_xmit_discards", 16, "packets", "packets to send that were thrown away"),
    ("port_xmit_constraint_errors", 8, "packets", "packets not sent for lack of permission"),
    ("port_rcv_errors", 16, "packets", "packets received with an error"),
    ("port_rcv_constraint_errors", 8, "packets", "packets received without permission"),
    ("port_rcv_remote_physical_errors", 16, "packets", "packets received that were marked bad on their way"),
    ("port_rcv_switch_relay_errors", 16, "packets", "packets a switch could not pass on"),
    ("symbol_error", 16, "errors", "small errors of the link"),
    ("link_error_recovery", 8, "events", "times the link recovered from an error"),
    ("link_downed", 8, "events", "times the link failed to recover"),
    ("local_link_integrity_errors", 4, "errors", "more local errors than the limit"),
    ("excessive_buffer_overrun_errors", 4, "errors", "times buffers overran repeatedly"),
    ("VL15_dropped", 16, "packets", "management packets dropped for lack of room"),
    ("out_of_buffer", 64, "packets", "packets dropped as no receive buffer was posted (hw_counters)"),
))  # fmt: skip

_OMNI_PATH = _amounts("opa_info", (
    ("DcXmitFlits", "flits", "data sent, in flits of eight bytes"),
    ("DcRcvFlits", "flits", "data received, in flits of eight bytes"),
    ("DcXmitPkts", "packets", "packets sent"),
    ("DcRcvPkts", "packets", "packets received"),
    ("DcMcXmitPkts", "packets", "packets sent to many receivers"),
    ("DcMcRcvPkts", "packets", "packets received that had many receivers"),
    ("DcRcvFcn", "packets", "packets received with a forward congestion mark"),
    ("DcRcvBcn", "packets", "packets received with a backward congestion mark"),
    ("DcMarkFcn", "packets", "packets marked as congested here"),
    ("DcRcvBbl", "flits", "idle gaps inside packets received"),
    ("TxWait", "flits", "time with data to send and no credit to send it: congestion"),
    ("TxFlowStall", "events", "times sending stalled for lack of credit"),
    ("vTxWait", "events", "times a sender waited for a transmit slot"),
    ("PioWait", "events", "times a sender waited for a send buffer"),
    ("KmemWait", "events", "times a sender waited for memory of the kernel"),
    ("CcePciCrSt", "cycles", "stalls for lack of PCIe credit"),
    ("CcePciTrSt", "cycles", "stalls of the PCIe target"),
    ("CcePioWrSt", "cycles", "stalls of programmed writes"),
    ("RxCtxEgrS", "events", "stalls as a context's eager buffers were full"),
    ("RcvOverflow", "packets", "packets dropped as the receive buffer was full"),
    ("DcDroppedPkt", "packets", "packets dropped on arrival"),
    ("DcRecvErr", "packets", "packets received with an error"),
    ("DcRmtPhyErr", "packets", "packets received that were marked bad on their way"),
    ("DcUnctblErr", "errors", "errors that could not be corrected"),
    ("DcFmCfgErr", "errors", "errors in the fabric's configuration"),
    ("DcXmitCorr", "errors", "corrected errors in sending"),
    ("DcRcvCorrCnt", "errors", "corrected errors in receiving"),
    ("DcRxFCntl", "flits", "flow control received"),
    ("DcXmitFCntl", "flits", "flow control sent"),
    ("DcTotCrc", "errors", "checksum errors of the link"),
    ("DcTxReplay", "events", "times the link sent again"),
    ("DcRxReplay", "events", "times the link asked to send again"),
    ("DcLinkSeqCrc", "errors", "checksum errors one after the other"),
    ("DcReinitPeer", "events", "times the other side restarted the link"),
))  # fmt: skip

_NARROW = ("TxFlowStall", "RxCtxEgrS")  # the driver widens the others itself (drivers/infiniband/hw/hfi1/chip.c)
OMNI_PATH = tuple(one._replace(bits=32) if one.name in _NARROW else one for one in _OMNI_PATH)

LUSTRE = _amounts("lustre2_client", (
    ("dirty_pages_hits", "pages", "writes to a page that was dirty already"),
    ("dirty_pages_misses", "pages", "writes that made a page dirty"),
    ("writeback_from_writepage", "pages", "pages written back one by one"),
    ("writeback_from_pressure", "pages", "pages written back for lack of memory"),
    ("writeback_ok_pages", "pages", "pages written back"),
    ("writeback_failed_pages", "pages", "pages that could not be written back"),
    ("read_bytes", "bytes", "data read by programs"),
    ("write_bytes", "bytes", "data written by programs"),
    ("brw_read", "pages", "pages read in bulk"),
    ("brw_write", "pages", "pages written in bulk"),
    ("osc_read", "bytes", "data read from object servers"),
    ("osc_write", "bytes", "data written to object servers"),
    ("ioctl", "calls", "control calls"),
    ("open", "calls", "files opened"),
    ("close", "calls", "files closed"),
    ("mmap", "calls", "files mapped into memory"),
    ("seek", "calls", "positions changed"),
    ("fsync", "calls", "files forced to storage"),
    ("setattr", "calls", "attributes changed"),
    ("truncate", "calls", "files cut"),
    ("lockless_truncate", "calls", "files truncated without a lock"),
    ("flock", "calls", "file locks"),
    ("getattr", "calls", "attributes read"),
    ("statfs", "calls", "file systems asked for their state"),
    ("alloc_inode", "calls", "inodes made"),
    ("setxattr", "calls", "extended attributes changed"),
    ("getxattr", "calls", "extended attributes read"),
    ("listxattr", "calls", "extended attributes listed"),
    ("removexattr", "calls", "extended attributes removed"),
    ("inode_permission", "calls", "permissions checked"),
    ("direct_read", "pages", "pages read past the cache"),
    ("direct_write", "pages", "pages written past the cache"),
    ("lockless_read_bytes", "bytes", "data read without a lock"),
    ("lockless_write_bytes", "bytes", "data written without a lock"),
))  # fmt: skip

NETWORK = _amounts("network", (
    ("rx_bytes", "bytes", "received by network devices, loopback not counted"),
    ("rx_packets", "packets", "received"),
    ("rx_errors", "packets", "received with an error"),
    ("rx_dropped", "packets", "dropped on arrival"),
    ("tx_bytes", "bytes", "sent by network devices, loopback not counted"),
    ("tx_packets", "packets", "sent"),
    ("tx_errors", "packets", "not sent for an error"),
    ("tx_dropped", "packets", "dropped instead of being sent"),
    ("loopback_bytes", "bytes", "sent by the machine to itself"),
    ("loopback_packets", "packets", "sent by the machine to itself"),
))  # fmt: skip

DISK = (
    *_amounts("disk", (
        ("read_bytes", "bytes", "read from disks"),
        ("write_bytes", "bytes", "written to disks"),
        ("reads", "requests", "reads finished"),
        ("writes", "requests", "writes finished"),
    )),
    Counter("disk", "read_ms", "amount", "ms", "time of all reads, added up", 32),
    Counter("disk", "write_ms", "amount", "ms", "time of all writes, added up", 32),
    Counter("disk", "busy_ms", "amount", "ms", "time with at least one request in progress", 32),
    Counter("disk", "queue_ms", "amount", "ms", "time of all requests in progress, added up", 32),
    Counter("disk", "in_flight", "level", "requests", "requests in progress now"),
)  # fmt: skip

PRESSURE = _amounts("pressure", (
    ("cpu_some_us", "us", "time in which some thread waited for a core"),
    ("memory_some_us", "us", "time in which some thread waited for memory"),
    ("memory_full_us", "us", "time in which all threads waited for memory"),
    ("io_some_us", "us", "time in which some thread waited for storage"),
    ("io_full_us", "us", "time in which all threads waited for storage"),
))  # fmt: skip

LOAD = (
    Counter("load", "load_1m", "level", "threads", "running or waiting, over the last minute"),
    Counter("load", "load_5m", "level", "threads", "running or waiting, over the last five minutes"),
    Counter("load", "load_15m", "level", "threads", "running or waiting, over the last fifteen minutes"),
    Counter("load", "running", "level", "threads", "that could run at this moment"),
)

SOURCES: dict[str, tuple[Counter, ...]] = {
    counters[0].source: counters for counters in (INFINIBAND, OMNI_PATH, LUSTRE, NETWORK, DISK, PRESSURE, LOAD)
}
PAPER_SOURCES = ("sysclassib", "opa_info", "lustre2_client")
BY_NAME: dict[str, Counter] = {one.full_name: one for counters in SOURCES.values() for one in counters}
