"""What a job of Slurm waited for besides nodes, from the command it was submitted with (sacct's SubmitLine).

Dependencies and bounds of arrays come from the options of sbatch; directives within a script (#SBATCH) are not in that
line. Where a job became eligible later than it was submitted and no dependency is known that explains it (`--begin`, a
hold, a directive), it begins in the replay when it became eligible in the log.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from cohabit.model.units import SECOND
from cohabit.trace.records import JobRecord

_KINDS = {"afterok": "", "afterany": "any:", "afternotok": "not:", "after": "start:", "aftercorr": ""}
_OPTION = {"-d": "dependency", "--dependency": "dependency", "-a": "array", "--array": "array"}
_TASK = re.compile(r"(\d+)_(\d+)")


@dataclass
class SubmitTerms:
    """The options of all jobs of a report, until all jobs are known."""

    _dependency: dict[int, str] = field(default_factory=dict)  # by place of the record
    _noted: int = 0

    def note(self, record: JobRecord, line: str) -> None:
        """Take the options of the next job."""
        options = _options(line)
        array, _, most = options.get("array", "").partition("%")
        task = _TASK.fullmatch(record.job_id)
        if array and task and most.isdigit():
            record.array, record.at_most = task[1], int(most)
        if options.get("dependency"):
            self._dependency[self._noted] = options["dependency"]
        self._noted += 1

    def settle(self, records: Sequence[JobRecord], defects: Counter[str]) -> None:
        """Put into every record the jobs it waited for, as far as they are in the report."""
        if not self._dependency:
            return
        members: dict[str, list[JobRecord]] = {}
        for one in records:
            members.setdefault(one.job_id, []).append(one)
            whole = re.split(r"[_+]", one.job_id)[0]
            if whole != one.job_id:
                members.setdefault(whole, []).append(one)
        for place, text in self._dependency.items():
            record = records[place]
            found = _jobs(record, text, records, members, defects)
            if found is not None:
                record.after = " ".join(found)
                record.begin_after_us = -SECOND


def _options(line: str) -> dict[str, str]:
    """Return dependency and array of a command line; an option may be given in three ways.

    The first of each counts: what follows the script are its own arguments.
    """
    try:
        words = shlex.split(line)
    except ValueError:  # a quote that is not closed
        words = line.split()
    found: dict[str, str] = {}
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in _OPTION and name.startswith("--") and equals:
            found.setdefault(_OPTION[name], value)
        elif word in _OPTION and place + 1 < len(words):
            found.setdefault(_OPTION[word], words[place + 1])
        elif word[:2] in _OPTION and len(word) > 2 and not word.startswith("--"):
            found.setdefault(_OPTION[word[:2]], word[2:])
    return found


def _jobs(
    record: JobRecord,
    text: str,
    records: Sequence[JobRecord],
    members: dict[str, list[JobRecord]],
    defects: Counter[str],
) -> list[str] | None:
    """Return the entries of `after` that say the same; None: it cannot be said, or names no job of the report."""
    if "?" in text:
        defects["dependencies with any of several jobs (?), replaced by when the job became eligible"] += 1
        return None
    found: list[str] = []
    for clause in text.split(","):
        kind, *names = clause.split(":")
        if kind == "singleton":
            found += [f"any:{one.job_id}" for one in records if _goes_before(one, record)]
            continue
        if kind not in _KINDS:
            defects[f"dependencies of the kind {kind}, replaced by when the job became eligible"] += 1
            return None
        for name in names:
            there = members.get(name.partition("+")[0], [])
            if kind == "aftercorr" and (task := _TASK.fullmatch(record.job_id)):
                there = [one for one in there if one.job_id == f"{name}_{task[2]}"] or there
            if not there:
                defects["dependencies on jobs that are not in the report, left out"] += 1
            found += [f"{_KINDS[kind]}{one.job_id}" for one in there if one.job_id != record.job_id]
    return list(dict.fromkeys(found)) or None


def _goes_before(one: JobRecord, record: JobRecord) -> bool:
    """Return whether a job of the same name and user was there when this one was submitted, and had not ended."""
    same = one.program == record.program and one.user == record.user and one is not record
    length_us = max(one.wait_us, 0) + max(one.run_us, 0)
    if one.cancel_after_us >= 0:
        length_us = one.cancel_after_us
    earlier = (one.submit_us, len(one.job_id), one.job_id) < (record.submit_us, len(record.job_id), record.job_id)
    return same and earlier and one.submit_us + length_us > record.submit_us
