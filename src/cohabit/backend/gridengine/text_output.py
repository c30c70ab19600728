"""What `qacct` and `qconf` print, to plain data. Pure: text in, data out."""

from __future__ import annotations

import re

import msgspec

RESCHEDULED, MIGRATED = 25, 24  # `failed` of a record that is not the end of the job
REACHED_LIMIT = 37  # qmaster enforced a limit


class Accounted(msgspec.Struct, frozen=True):
    """One record of the accounting."""

    name: str
    failed: int  # 0: it ran to its end
    exit_status: int
    slots: int = 1
    hosts: str = ""

    @property
    def over(self) -> bool:
        """The job ended, and was not only queued again."""
        return self.failed not in (RESCHEDULED, MIGRATED)


def accounted(text: str) -> list[Accounted]:
    """`qacct -j`: one record for every run, the newest last."""
    found = []
    for block in re.split(r"^=+$", text, flags=re.MULTILINE):
        values = dict(parts for line in block.splitlines() if len(parts := line.split(None, 1)) == 2)
        if "jobnumber" in values:
            found.append(
                Accounted(values["jobnumber"].strip(), _first(values.get("failed", "0")),
                          _first(values.get("exit_status", "0")), _first(values.get("slots", "1")),
                          values.get("hostname", "").strip())
            )  # fmt: skip
    return found


def settings(text: str) -> dict[str, str]:
    """`qconf -sp`, `-sq`, `-ssconf`: a name and a value on each line; a backslash goes on."""
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return {parts[0]: parts[1].strip() for line in lines if len(parts := line.split(None, 1)) == 2}


def names(text: str) -> list[str]:
    """One on each line."""
    return text.split()


def exclusive_complexes(text: str) -> list[str]:
    """`qconf -sc`: those by which a job gets hosts to itself."""
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [row[0] for row in rows if len(row) >= 6 and row[3] == "EXCL" and row[4] != "NO" and row[5] != "NO"]


def version(text: str) -> str:
    """The first words of any command's help."""
    lines = text.strip().splitlines()
    return lines[0].strip() if lines else "unknown"


def _first(text: str) -> int:
    found = re.match(r"\s*(-?\d+)", text)
    return int(found[1]) if found else 0
