"""What we write into a job's administrators' comment, so that Slurm alone can say after a crash what was done with it.

    cohabit:held                                 waits for a decision (job_submit.lua writes this one)
    cohabit:run:ATTEMPT:LEAST-MOST:PER_NODE:CPUS  steered and released; behind it what its owner had asked for
    cohabit:back                                 given back to plain Slurm, not ours any more

A comment that is not one of these belongs to somebody else and is never changed: such a job is left to Slurm.
"""

from __future__ import annotations

from typing import NamedTuple

HELD, RUN, BACK = "cohabit:held", "cohabit:run", "cohabit:back"


class Before(NamedTuple):
    """What a job asked for before it was steered."""

    least: int = 1
    most: int = 0  # 0: not stated
    per_node: int = 1  # CPUs on each node at least
    cpus: int = 1

    def text(self) -> str:
        """As in a mark."""
        return f"{self.least}-{self.most}:{self.per_node}:{self.cpus}"


class Mark(NamedTuple):
    """A mark that is ours."""

    kind: str
    attempt: int = 0
    before: Before = Before()


def run_mark(attempt: int, before: Before) -> str:
    """Written with the steering of one attempt."""
    return f"{RUN}:{attempt}:{before.text()}"


def read_mark(text: str) -> Mark | None:
    """None: it is not ours."""
    if text in (HELD, BACK):
        return Mark(text)
    kind, _, rest = text.partition(f"{RUN}:")
    parts = rest.split(":")
    if kind or len(parts) != 4:
        return None
    try:
        least, _, most = parts[1].partition("-")
        return Mark(RUN, int(parts[0]), Before(int(least), int(most), int(parts[2]), int(parts[3])))
    except ValueError:
        return None
