"""Network devices: /proc/net/dev. Loopback is counted apart: it is no network traffic, but a neighbour's noise."""

from __future__ import annotations

from pathlib import Path

from cohabit.agent.samplers.sampler import Readings, text_of

COLUMNS = {
    "rx_bytes": 0, "rx_packets": 1, "rx_errors": 2, "rx_dropped": 3, "tx_bytes": 8, "tx_packets": 9, "tx_errors": 10,
    "tx_dropped": 11,
}  # fmt: skip
LOOPBACK = {"loopback_bytes": 8, "loopback_packets": 9}
FIELDS = 16


def read(root: Path) -> Readings:
    """Return totals since each device came up: of devices backed by hardware; in a container without any, of all but
    loopback."""
    lines = {}
    for line in (text_of(root / "proc" / "net" / "dev") or "").splitlines():
        device, colon, rest = line.partition(":")
        fields = rest.split()
        if colon and len(fields) >= FIELDS and all(field.isdigit() for field in fields):
            lines[device.strip()] = fields
    real = {device for device in lines if (root / "sys" / "class" / "net" / device / "device").exists()}
    chosen = real or {device for device in lines if device != "lo"}
    found = {(name, device): float(int(lines[device][at])) for device in chosen for name, at in COLUMNS.items()}
    if "lo" in lines:
        found |= {(name, "lo"): float(int(lines["lo"][column])) for name, column in LOOPBACK.items()}
    return found
