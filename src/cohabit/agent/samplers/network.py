"""Network devices: /proc/net/dev. Loopback is counted apart: it is no network traffic, but a neighbour's noise."""

from __future__ import annotations

from pathlib import Path

from cohabit.agent.samplers.sampler import HOST, Readings, text_of
from cohabit.agent.sensors.source import Offer
from cohabit.model.telemetry_counters import NETWORK

COLUMNS = {
    "rx_bytes": 0, "rx_packets": 1, "rx_errors": 2, "rx_dropped": 3, "tx_bytes": 8, "tx_packets": 9, "tx_errors": 10,
    "tx_dropped": 11,
}  # fmt: skip
LOOPBACK = {"loopback_bytes": 8, "loopback_packets": 9}
FIELDS = 16


class Network:
    """Devices backed by hardware; in a container without any, all but loopback."""

    name = "network"

    def __init__(self, root: Path = HOST) -> None:
        self.table = root / "proc" / "net" / "dev"
        self.devices = root / "sys" / "class" / "net"

    def offer(self) -> Offer:
        """Check for /proc and one device."""
        found = {name for name, _ in self.read()}
        if not found:
            return Offer(self.name, False, "/proc/net/dev lists no device", "mount proc")
        return Offer(self.name, True, "", "", tuple(one.name for one in NETWORK if one.name in found))

    def read(self) -> Readings:
        """Return totals since each device came up."""
        lines = self._lines()
        real = {device for device in lines if (self.devices / device / "device").exists()}
        chosen = real or {device for device in lines if device != "lo"}
        found = {
            (name, device): float(int(lines[device][column])) for device in chosen for name, column in COLUMNS.items()
        }
        if "lo" in lines:
            found |= {(name, "lo"): float(int(lines["lo"][column])) for name, column in LOOPBACK.items()}
        return found

    def _lines(self) -> dict[str, list[str]]:
        found = {}
        for line in (text_of(self.table) or "").splitlines():
            device, colon, rest = line.partition(":")
            fields = rest.split()
            if colon and len(fields) >= FIELDS and all(field.isdigit() for field in fields):
                found[device.strip()] = fields
        return found
