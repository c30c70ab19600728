"""Programs for `cohabit place` and `partition` from stored profiles instead of a file of miss curves.

The curves of a profile (IPC and bandwidth against ways, as measured alone) are split as the scheduler does it
(policy/forecast.py); an IPC is then relative to the program alone. A bucket is a way of the machine of the profiles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from cohabit.app.measure.profiles import Described, best_of
from cohabit.model.errors import InputError, unknown
from cohabit.model.mix import Mix
from cohabit.model.profile import Tenant, stream_gbs
from cohabit.policy.forecast import FREQ_GHZ, NO_LIMIT_GBS, surface
from cohabit.store.profiles import default_path, empty_store, open_store

MISSES_PER_1000 = 1000.0
MEASURE = "`cohabit profile --curve resctrl` (or valgrind, an estimate) measures it"


def stored_profiles(store: str | None) -> tuple[list[Described], str]:
    """Return the profiles of the store, and where it is; one that does not exist yet is empty unless it was named."""
    from cohabit.app.measure.profiles import described

    absent = store is None and not default_path().exists()
    with empty_store(str(default_path())) if absent else open_store(store, create=False) as opened:
        return [described(one) for one in opened.profiles()], opened.where


def mix_of_profiles(names: Sequence[str], found: Sequence[Described], where: str, nodes: int) -> Mix:
    """Return these programs on so many nodes of the machine they were measured on; a name may come more than once."""
    if nodes < 1:
        raise InputError(f"--nodes {nodes} is not a positive number", "", "give 2 for two nodes")
    chosen = [_with_curves(name, found, where) for name in names]
    node, ways = chosen[0].node, chosen[0].node.ways
    for name, one in zip(names, chosen, strict=True):
        if one.profile.hardware != chosen[0].profile.hardware:
            what = f"{name} was measured on {one.profile.hardware}, {names[0]} on {chosen[0].profile.hardware}"
            raise InputError(what, where, "profile them on one kind of machine")
    most = max(one.profile.processes for one in chosen)
    room = max(node.cores // most, 1)
    if len(names) > nodes * room:
        what = f"{len(names)} programs of up to {most} processes do not fit on {nodes} x {node.cores} cores"
        raise InputError(what, "--programs", "give fewer programs, or --nodes")
    tenants = [
        Tenant(name, min(one.profile.processes, node.cores), 1, 0, 0.0, 1.0, one.profile)
        for name, one in zip(names, chosen, strict=True)
    ]
    traffic, cpi0, cost = zip(*(surface(one, node, ways) for one in tenants), strict=True)
    cap = min(stream_gbs(node, node.cores), NO_LIMIT_GBS)
    return Mix(
        nodes,
        room,
        ways,
        cap,
        FREQ_GHZ,
        _unique(names),
        np.array(traffic),
        np.array(cpi0),
        MISSES_PER_1000 * np.array(cost),
    )


def _with_curves(name: str, found: Sequence[Described], where: str) -> Described:
    one = best_of(found, name)
    if one is None:
        raise unknown("program", name, sorted({each.profile.program for each in found}), "cohabit profiles list")
    measured = one.profile.at_scale(1)
    curves = {} if measured is None else {"IPC": measured.ipc, "bandwidth": measured.bandwidth_gbs}
    missing = [curve for curve in ("IPC", "bandwidth") if curves.get(curve) is None]
    if missing:
        raise InputError(f"{name} has no curve of {' and '.join(missing)} by cache ways", where, MEASURE)
    if measured is not None and not measured.counted:
        what = f"the curves of {name} are level, as nothing was counted where it ran"
        raise InputError(what, where, MEASURE)
    if one.node.ways < 2:
        raise InputError(f"{name} was measured on a machine whose cache has no ways", where, MEASURE)
    return one


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    """Number the copies of a program: A, A#2, A#3."""
    seen, found = Counter[str](), []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return tuple(found)
