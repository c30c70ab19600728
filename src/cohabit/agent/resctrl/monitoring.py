"""Read counters of a job's group, by L3 domain, and compute the traffic between two readings. Only reads.

A domain may answer Unavailable, Error or Unassigned, and a counter may restart (a group made again, AMD's reassigned
counters): then that domain has no value for this time, which is not the same as no traffic.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cohabit.agent.resctrl.files import Files

Traffic = Mapping[str, Mapping[int, int]]  # by job and domain
_DOMAIN = "mon_L3_"


def read_traffic(files: Files, group: Path) -> dict[int, int]:
    """Return the bytes moved to and from memory so far, by domain; empty if the processor does not count them."""
    found = {}
    try:
        folders = [name for name in files.names(group / "mon_data") if name.startswith(_DOMAIN)]
    except OSError:
        return {}
    for folder in folders:
        try:
            word = files.read(group / "mon_data" / folder / "mbm_total_bytes").strip()
        except OSError:
            continue
        if word.isdigit():
            found[int(folder.removeprefix(_DOMAIN))] = int(word)
    return found


def rates_gbs(before: Traffic, after: Traffic, seconds: float) -> dict[int, dict[str, float]]:
    """Return GB/s by domain and job, for those that have both values."""
    found: dict[int, dict[str, float]] = {}
    for job, values in after.items():
        for domain, value in values.items():
            moved = value - before.get(job, {}).get(domain, value + 1)
            if moved >= 0:
                found.setdefault(domain, {})[job] = moved / seconds / 1e9
    return found
