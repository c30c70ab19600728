"""What a job does whose mate is not ready: hold its nodes or yield its turn (Algorithm 1 of the coscheduling paper).

Pure rules with the defaults of the paper's own simulator (docs/coscheduling.md). A domain's scheme is its own affair:
nothing here knows the scheme of the other side. The start of two ready mates is the protocol's affair, not ours.
"""

from __future__ import annotations

import msgspec

from cohabit.model.errors import InputError
from cohabit.model.peer import ENDED, FREE, GONE
from cohabit.model.units import SECOND

HOLD, YIELD = "hold", "yield"
START, TRY_TOGETHER = "start", "try_together"


class Scheme(msgspec.Struct, frozen=True):
    """A domain's configuration of coscheduling."""

    enabled: bool = True
    scheme: str = HOLD
    least_hold_us: int = 600 * SECOND  # a younger hold is left alone by the release
    release_us: int = 1200 * SECOND  # all older holds are released so often; 0: never (then hold can deadlock)
    offset_us: int = SECOND  # times the domain's rank: no two domains release in the same instant
    most_held: float = 1.0  # of all nodes; a hold that would exceed it yields instead
    most_yields: int = 0  # after so many yields a job holds; 0: it always yields
    raise_per_yield: float = 0.0  # added to a job's standing for each yield, in shares of itself; 0: nothing

    def check(self) -> None:
        """Refuse what cannot be meant."""
        if self.scheme not in (HOLD, YIELD):
            raise InputError(f"does not know the scheme {self.scheme!r}", "coscheduling", f"use {HOLD} or {YIELD}")
        if not 0 <= self.most_held <= 1:
            raise InputError(f"cannot hold {self.most_held:g} of the nodes", "coscheduling", "give a share from 0 to 1")
        if min(self.least_hold_us, self.release_us, self.offset_us, self.most_yields) < 0 or self.raise_per_yield < 0:
            raise InputError("has a negative setting", "coscheduling")


def when_chosen(scheme: Scheme, mates: list[str]) -> str:
    """What to do with a job that its scheduler has chosen and found nodes for, by the phases of its mates.

    A mate that has run, will never run, or runs unbound cannot be waited for: the job starts as any other. Of mates
    that are dead or run without it the protocol decides, by the group's terms.
    """
    if not scheme.enabled or all(phase in (FREE, ENDED, GONE) for phase in mates):
        return START
    return TRY_TOGETHER


def when_not_together(scheme: Scheme, *, job_nodes: int, held_nodes: int, all_nodes: int, yields: int) -> str:
    """Hold or yield, after the mates could not be started together with it. `held_nodes`: by other jobs, now."""
    wants_hold = scheme.scheme == HOLD or (0 < scheme.most_yields <= yields)
    return HOLD if wants_hold and held_nodes + job_nodes <= scheme.most_held * all_nodes else YIELD


def next_release_us(scheme: Scheme, rank: int, first_us: int, now_us: int) -> int | None:
    """The first release after now; releases begin one period (and the domain's offset) after `first_us`."""
    if not scheme.enabled or not scheme.release_us:
        return None
    first = first_us + rank * scheme.offset_us
    return first + max((now_us - first) // scheme.release_us + 1, 1) * scheme.release_us


def released(scheme: Scheme, held_since_us: dict[str, int], now_us: int) -> list[str]:
    """The jobs a release takes the nodes from, oldest hold first. For that pass they stand behind all others."""
    due = [(since_us, job) for job, since_us in held_since_us.items() if now_us - since_us > scheme.least_hold_us]
    return [job for _, job in sorted(due)]


def standing(scheme: Scheme, score: float, yields: int, *, just_released: bool) -> tuple[bool, float]:
    """A sort key, smallest first, from an order's score (smallest first) and what happened to the job.

    Just released: behind everybody, for that pass only. Each yield moves a job up by a share of its own score.
    """
    return just_released, score - abs(score) * scheme.raise_per_yield * yields


def may_join_extra_pass(job: str, asked_for: str, has_mates: bool) -> bool:
    """In the pass that tries to start one job for its mates elsewhere, other jobs with mates sit out: no question
    leads to another question."""
    return job == asked_for or not has_mates
