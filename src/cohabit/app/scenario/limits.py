"""[[limit]] of a scenario: what the site's resource manager lets run at once, whatever the policy."""

from __future__ import annotations

from collections.abc import Sequence

from cohabit.app.scenario.tables import LimitConfig
from cohabit.core.bounds import PER, Bound
from cohabit.core.kernels.bundles import CONSERVATIVE
from cohabit.core.protocols import GroupPlacer, PolicySet
from cohabit.model.errors import InputError, unknown


def bounds_of(limits: Sequence[LimitConfig], policies: PolicySet) -> tuple[Bound, ...]:
    """Return the bounds; refuse those that say nothing, and policies that do not keep them."""
    if isinstance(policies.placer, GroupPlacer):
        raise InputError("[[limit]] does not go with placement 'pair'", "limit", "use another placement")
    if policies.placer.exclusive and policies.backfill.depth == CONSERVATIVE:
        fix = "use easy or a depth, such as backfill = 100"
        raise InputError("[[limit]] does not go with conservative backfilling of whole nodes", "limit", fix)
    found = []
    for number, one in enumerate(limits, start=1):
        where = f"limit {one.name or number}"
        if one.per not in PER:
            raise unknown("per", one.per, PER, "docs/scenarios.md")
        if not (one.jobs or one.cores or one.nodes):
            raise InputError("it bounds nothing", where, "give jobs, cores or nodes")
        found.append(Bound(one.per, one.partition, one.qos, one.jobs, one.cores, one.nodes, one.name))
    return tuple(found)
