"""The rules for a job whose mate is not ready: hold its nodes or yield (Algorithm 1 of the coscheduling paper).

These are pure rules with the defaults of the paper's own simulator (docs/coscheduling.md). Each domain has its own
scheme; nothing here knows the scheme of the other side. The protocol starts two ready mates, not this module.
"""

from __future__ import annotations

from cohabit.model.peer import NEVER
from cohabit.model.scheme import HOLD, YIELD, Scheme
from cohabit.model.units import FOREVER


def when_not_together(
    scheme: Scheme, *, job_nodes: int, held_nodes: int, all_nodes: int, yields: int, mates_in_us: int = NEVER
) -> str:
    """Return hold or yield, after the mates could not be started together with the job. `held_nodes`: by other jobs,
    now; `mates_in_us`: how long until the mates could start, as they report."""
    wants_hold = scheme.scheme == HOLD or (0 < scheme.most_yields <= yields)
    if wants_hold and scheme.bounded_hold_us:
        wants_hold = mates_in_us != NEVER and mates_in_us <= scheme.bounded_hold_us
    return HOLD if wants_hold and held_nodes + job_nodes <= scheme.most_held * all_nodes else YIELD


def next_release_us(scheme: Scheme, rank: int, now_us: int) -> int:
    """Return the first release after now. Releases are a period apart, moved by the domain's offset; the first comes
    one period after 0."""
    if not scheme.enabled or not scheme.release_us:
        return FOREVER
    first = rank * scheme.offset_us
    return first + max((now_us - first) // scheme.release_us + 1, 1) * scheme.release_us


def released(scheme: Scheme, held_since_us: dict[str, int], now_us: int) -> list[str]:
    """Return the jobs that lose their nodes in a release, oldest hold first. In that pass they go last."""
    due = [(since_us, job) for job, since_us in held_since_us.items() if now_us - since_us > scheme.least_hold_us]
    return [job for _, job in sorted(due)]
