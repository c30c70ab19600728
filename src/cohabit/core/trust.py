"""Whose jobs may be on one node at once: the site shares nodes with anybody, within an account, or within a user.

Jobs that trust each other form a *circle*: those of one account, or of one user. A job without an account is in the
circle of its user's jobs without one, and a job without a user trusts no other job. Two jobs of different circles are
*strangers* and are never on one node. The numbers of circles have no meaning except equality; they follow from the jobs
and are not in a checkpoint.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from cohabit.core.protocols import ANYBODY, SAME_ACCOUNT
from cohabit.model.job import Job

TRUSTS_NONE = -1


class Trust:
    """The circles of all rows of the job table."""

    def __init__(self, share_with: str, capacity: int) -> None:
        self.share_with = share_with
        self._circles: dict[Hashable, int] = {}
        self._of_row = np.full(capacity, TRUSTS_NONE, np.int64)

    def circle_of(self, job: Job) -> Hashable:
        """Return what jobs of one circle have in common; the same for all jobs where nodes are shared with anybody."""
        if self.share_with == ANYBODY:
            return None
        return job.account if self.share_with == SAME_ACCOUNT and job.account else job.user

    def note(self, row: int, job: Job) -> None:
        """Note the job of a row."""
        if self.share_with != ANYBODY:
            circle = self.circle_of(job)
            self._of_row[row] = TRUSTS_NONE if circle == -1 else self._circles.setdefault(circle, len(self._circles))

    def grow(self, capacity: int) -> None:
        """Make room for this many rows."""
        more = np.full(capacity - len(self._of_row), TRUSTS_NONE, np.int64)
        self._of_row = np.concatenate([self._of_row, more])

    def restore(self, specs: Sequence[Job | None]) -> None:
        """Compute the circles of all rows anew, from the jobs of a checkpoint."""
        self._circles, self._of_row = {}, np.full(len(specs), TRUSTS_NONE, np.int64)
        for row, job in enumerate(specs):
            if job is not None:
                self.note(row, job)

    def circle(self, row: int) -> int:
        """Return the number of the job's circle: equal for jobs that may share nodes."""
        if self.share_with == ANYBODY:
            return 0
        return int(self._of_row[row]) if self._of_row[row] != TRUSTS_NONE else -1 - row

    def strangers(self, row: int) -> NDArray[np.bool_] | None:
        """Return the rows beside which the job may not run; None: it may run beside any job."""
        if self.share_with == ANYBODY:
            return None
        own = self._of_row[row]
        return np.asarray((self._of_row != own) | (own == TRUSTS_NONE))
