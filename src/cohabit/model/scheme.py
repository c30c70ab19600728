"""The treatment of a job while its mates in other domains are not ready: a choice of each domain.

The defaults are those of the coscheduling paper and of its simulator (docs/coscheduling.md).
"""

from __future__ import annotations

import msgspec

from cohabit.model.errors import InputError
from cohabit.model.units import SECOND

HOLD, YIELD, AGREE = "hold", "yield", "agree"
SCHEMES = (HOLD, YIELD, AGREE)
RELEASE, REPORT, IGNORE = "release", "report", "ignore"
ON_DEADLOCK = (RELEASE, REPORT, IGNORE)


class Scheme(msgspec.Struct, frozen=True):
    """A domain's configuration of coscheduling."""

    enabled: bool = True
    scheme: str = HOLD
    least_hold_us: int = 600 * SECOND  # the release skips younger holds
    release_us: int = 1200 * SECOND  # interval at which all older holds are released; 0: never (then hold can deadlock)
    offset_us: int = SECOND  # times the domain's rank: no two domains release in the same instant
    most_held: float = 1.0  # of all nodes; a hold that would exceed it yields instead
    most_yields: int = 0  # after so many yields a job holds; 0: it always yields
    raise_per_yield: float = 0.0  # added to a job's standing for each yield, in shares of itself; 0: nothing
    on_deadlock: str = RELEASE  # groups that wait for each other's nodes: release one hold, only report, or not look
    bounded_hold_us: int = 0  # hold only if the mates expect to be ready within this time, else yield; 0: always hold

    @property
    def wants_estimates(self) -> bool:
        """Whether it goes by when the mates could start."""
        return self.scheme == AGREE or self.bounded_hold_us > 0

    def check(self) -> None:
        """Refuse invalid settings."""
        if self.scheme not in SCHEMES:
            raise InputError(
                f"does not know the scheme {self.scheme!r}", "coscheduling", f"use {', '.join(SCHEMES[:-1])} or {AGREE}"
            )
        if self.on_deadlock not in ON_DEADLOCK:
            raise InputError(f"on_deadlock = {self.on_deadlock!r}", "coscheduling", f"use {', '.join(ON_DEADLOCK)}")
        if not 0 <= self.most_held <= 1:
            raise InputError(f"cannot hold {self.most_held:g} of the nodes", "coscheduling", "give a share from 0 to 1")
        durations = (self.least_hold_us, self.release_us, self.offset_us, self.bounded_hold_us)
        if min(*durations, self.most_yields) < 0 or self.raise_per_yield < 0:
            raise InputError("has a negative setting", "coscheduling", "give 0 or more")
