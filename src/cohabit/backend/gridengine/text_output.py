"""Parse the output of `qacct` and `qconf`. Pure: text in, data out."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

RESCHEDULED, MIGRATED = 25, 24  # `failed` in a record that is not the end of the job
REACHED_LIMIT = 37  # qmaster enforced a limit of time, processor time or memory
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_TIME = "%a %b %d %H:%M:%S %Y"


class Accounted(msgspec.Struct, frozen=True):
    """One record of the accounting."""

    name: str
    failed: int  # 0: it ran to its end
    exit_status: int
    start_s: float = 0.0  # 0: it never ran
    end_s: float = 0.0

    @property
    def over(self) -> bool:
        """Return whether the job ended and was not only queued again."""
        return self.failed not in (RESCHEDULED, MIGRATED)


def accounted(text: str) -> list[Accounted]:
    """Parse `qacct -j`: one record for every run, the newest last."""
    found = []
    for block in re.split(r"^=+$", text, flags=re.MULTILINE):
        values = dict(parts for line in block.splitlines() if len(parts := line.split(None, 1)) == 2)
        if "jobnumber" in values:
            found.append(
                Accounted(
                    values["jobnumber"].strip(),
                    _first(values.get("failed", "0")),
                    _first(values.get("exit_status", "0")),
                    _instant(values.get("start_time", "")),
                    _instant(values.get("end_time", "")),
                )
            )
    return found


def settings(text: str) -> dict[str, str]:
    """Parse `qconf -sp`, `-sq`, `-ssconf`: a name and a value on each line; a backslash continues a line."""
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return {parts[0]: parts[1].strip() for line in lines if len(parts := line.split(None, 1)) == 2}


class Complex(msgspec.Struct, frozen=True):
    """A resource that jobs can ask for."""

    name: str
    kind: str  # MEMORY, BOOL, ...
    exclusive: bool  # a job that asks for it gets exclusive hosts
    consumable: str  # NO; YES: a job takes it for each slot; JOB: once
    default: str  # for a job that does not ask


def complexes(text: str) -> dict[str, Complex]:
    """Parse `qconf -sc`: those that can be asked for."""
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {
        row[0]: Complex(row[0], row[2], row[3] == "EXCL" and row[5] != "NO", row[5], row[6])
        for row in rows
        if len(row) >= 7 and row[4] != "NO"
    }


def values(text: str) -> dict[str, str]:
    """Parse `name=value,name=value`; NONE is empty."""
    return dict(parts for one in text.split(",") if len(parts := one.strip().split("=", 1)) == 2)


def amount(text: str) -> int:
    """Parse memory as Grid Engine writes it: 1K is 1024, 1k 1000; 0 if it is not an amount."""
    unit = _UNITS.get(text[-1:], 1)
    try:
        return int(float(text[:-1] if unit > 1 else text) * unit)
    except (ValueError, OverflowError):
        return 0


def version(text: str) -> str:
    """Return the first words of any command's help."""
    lines = text.strip().splitlines()
    return lines[0].strip() if lines else "unknown"


def _first(text: str) -> int:
    found = re.match(r"\s*(-?\d+)", text)
    return int(found[1]) if found else 0


def _instant(text: str) -> float:
    """Parse local time, as in the accounting; `-/-`: never."""
    try:
        return datetime.strptime(text.strip(), _TIME).timestamp()
    except ValueError:
        return 0.0
