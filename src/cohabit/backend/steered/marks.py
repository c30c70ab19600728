"""Marks on a job that only administrators can write, so that the manager alone can say after a crash what was done with
the job: in Slurm the administrators' comment, in Grid Engine the job's context.

    cohabit:held                                 waits for a decision (written at submission)
    cohabit:held:open                            the same, and its owner named no largest number of nodes: Slurm 24.11
                                                 says afterwards that it wants as few as its tasks fit on
    cohabit:run:ATTEMPT:LEAST-MOST:PER_NODE:CPUS  steered and released; behind it what its owner had asked for,
                                                 and :whole where we gave it whole nodes, :shared where no longer,
                                                 :cores where it may share cores with other jobs of ours
    cohabit:back                                 given back to the plain manager, not ours any more

Behind each of the first three, what is known of holds (holds.py):

    +stop   we stop its run, and leave it held
    +hold   held on purpose, through Cohabit or by an operator who requeued it held
    +noted  others hold it, as the manager's own records say; the core knows
    +free   an administrator has lifted such a hold, and it waits for us again (written by job_submit.lua)

Behind all that, @NAME for a job with mates: its owner wrote `cohabit:mates=NAME` into the job's comment, and the core
knows it by the name its group gives it. Any other comment is foreign and is never changed: such a job is left to the
manager.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cohabit.model.job import WORKLOAD_TYPES

HELD, RUN, BACK = "cohabit:held", "cohabit:run", "cohabit:back"
OPEN = f"{HELD}:open"
STOP, HOLD, NOTED, FREE = "stop", "hold", "noted", "free"
WHOLE, SHARED, CORES = "whole", "shared", "cores"
_TYPE = re.compile(r"cohabit:type=([^\s,;]*)")
_WISH = re.compile(r"cohabit:mates=([A-Za-z0-9._-]{1,60})(?![A-Za-z0-9._-])")


class Before(NamedTuple):
    """The request of a job before it was steered."""

    least: int = 1
    most: int = 0  # 0: not stated
    per_node: int = 1  # CPUs on each node, at least
    cpus: int = 1
    # WHOLE: it has whole nodes, which it did not ask for, through us; SHARED: we took that back; CORES: it may share
    # its cores with other jobs of ours
    made: str = ""

    def text(self) -> str:
        """Return the text for a mark."""
        return f"{self.least}-{self.most}:{self.per_node}:{self.cpus}" + (f":{self.made}" if self.made else "")


class Mark(NamedTuple):
    """A mark that is ours."""

    kind: str
    attempt: int = 0
    before: Before = Before()
    mates: str = ""  # its group
    open: bool = False  # no largest number of nodes was named
    flag: str = ""  # STOP, HOLD, NOTED or FREE


def held_mark(mates: str = "", any_nodes: bool = False) -> str:
    """Return the mark of a job that waits for a decision; any_nodes: its owner named no largest number of nodes."""
    held = OPEN if any_nodes else HELD
    return f"{held}@{mates}" if mates else held


def run_mark(attempt: int, before: Before, mates: str = "") -> str:
    """Return the mark that is written with the steering of one attempt."""
    return f"{RUN}:{attempt}:{before.text()}" + (f"@{mates}" if mates else "")


def back_mark(mates: str = "") -> str:
    """Return the mark of a job that is not ours any more; with mates, so that its former controller can identify it."""
    return f"{BACK}@{mates}" if mates else BACK


def wished_mates(comment: str) -> str:
    """Return the group that its owner names in the job's comment; empty: none."""
    found = _WISH.search(comment)
    return "" if found is None else found.group(1)


def stated_type(comment: str) -> str:
    """Return the type of work that its owner states in the comment (`cohabit:type=io`); empty: no known type."""
    found = _TYPE.search(comment)
    return found.group(1) if found is not None and found.group(1) in WORKLOAD_TYPES else ""


def unknown_type(comment: str) -> str:
    """Return what its owner states as type of work if that is none (`cohabit:type=foo`); empty: nothing, or known."""
    found = _TYPE.search(comment)
    return "" if found is None or found.group(1) in WORKLOAD_TYPES else found.group(0)


def read_mark(text: str) -> Mark | None:
    """Parse a mark; None if it is not ours."""
    text, _, mates = text.partition("@")
    text, _, flag = text.partition("+")
    if flag not in ("", STOP, HOLD, NOTED, FREE):
        return None
    if text in (HELD, OPEN, BACK):
        return Mark(BACK if text == BACK else HELD, mates=mates, open=text == OPEN, flag=flag)
    kind, _, rest = text.partition(f"{RUN}:")
    parts = rest.split(":")
    if kind or len(parts) not in (4, 5) or parts[4:] not in ([], [WHOLE], [SHARED], [CORES]):
        return None
    try:
        least, _, most = parts[1].partition("-")
        before = Before(int(least), int(most), int(parts[2]), int(parts[3]), *parts[4:])
        return Mark(RUN, int(parts[0]), before, mates, flag=flag)
    except ValueError:
        return None


def flagged(text: str, flag: str) -> str:
    """Return the mark with this flag in place of any other; empty: without one."""
    base, at, mates = text.partition("@")
    return base.partition("+")[0] + (f"+{flag}" if flag else "") + at + mates


def flag_of(text: str) -> str:
    """Return the flag of a mark; empty: none, or not our mark."""
    mark = read_mark(text)
    return "" if mark is None else mark.flag


def mates_in(text: str) -> str:
    """Return the group in a mark; empty: none, or not our mark."""
    mark = read_mark(text)
    return "" if mark is None else mark.mates


def is_back(text: str) -> bool:
    """Return whether this is the mark of a job that was given back to the plain manager."""
    mark = read_mark(text)
    return mark is not None and mark.kind == BACK


def is_run(text: str, attempt: int) -> bool:
    """Return whether this is the mark of a steered job in that attempt."""
    mark = read_mark(text)
    return mark is not None and mark.kind == RUN and mark.attempt == attempt
