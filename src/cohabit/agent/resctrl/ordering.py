"""Order the writes of schemata so that no group takes a way that another group still has. Pure.

Bandwidth needs no order: the kernel keeps no sum. Overlapping ways are legal in the kernel and cost speed, not
correctness. So where a circle of groups can be broken in no other way (two groups swap all they have), they overlap for
the time of one write.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cohabit.agent.resctrl.offer import ResctrlOffer
from cohabit.agent.resctrl.schemata import Schemata, is_bandwidth
from cohabit.agent.resctrl.writes import Make, SetSchemata, Write


@dataclass(frozen=True)
class Change:
    """One class: what it holds where its jobs run (None: it is new), what it is to hold, and what differs."""

    name: str
    old: Schemata | None
    new: Schemata
    differences: Schemata
    jobs: tuple[str, ...]


def in_safe_order(changes: list[Change], offer: ResctrlOffer) -> list[Write]:
    """Return the writes, every difference once."""
    left = {one.name: one for one in changes}
    writes: list[Write] = []
    while any(one.differences for one in left.values()):
        ready = [one for one in left.values() if one.differences and not _waits_for(one, left)]
        if not ready:
            shrunk = _shrink_one(left, offer)
            if shrunk is not None:
                writes.append(SetSchemata(shrunk[0].name, shrunk[1], shrunk[0].jobs))
                left[shrunk[0].name] = _after(shrunk[0], shrunk[1])
                continue
            ready = [min((one for one in left.values() if one.differences), key=lambda one: one.name)]
        for one in ready:
            if one.old is None:
                writes.append(Make(one.name, one.jobs))
            writes.append(SetSchemata(one.name, one.differences, one.jobs))
            left[one.name] = replace(one, old=one.new, differences={})
    return writes


def _waits_for(change: Change, left: dict[str, Change]) -> list[str]:
    """Return the groups that still hold a way this one takes, and that will give it up."""
    found = []
    for other in left.values():
        if other.name != change.name and other.old is not None and other.differences:
            for resource, values in change.differences.items():
                if is_bandwidth(resource):
                    continue
                held, kept = other.old.get(resource, {}), other.new.get(resource, {})
                if any(value & held.get(domain, 0) & ~kept.get(domain, 0) for domain, value in values.items()):
                    found.append(other.name)
                    break
    return found


def _shrink_one(left: dict[str, Change], offer: ResctrlOffer) -> tuple[Change, Schemata] | None:
    """Return a group of the circle and the smaller masks it can have at once; None if no group can give ways early."""
    assert offer.cache is not None
    for one in sorted(left.values(), key=lambda change: change.name):
        if one.old is None or not one.differences:
            continue
        smaller: dict[str, dict[int, int]] = {}
        for resource, values in one.differences.items():
            if is_bandwidth(resource):
                continue
            for domain, value in values.items():
                had = one.old.get(resource, {}).get(domain, 0)
                kept = had & value
                if kept != had and not offer.cache.refuses(kept):
                    smaller.setdefault(resource, {})[domain] = kept
        after = {**left, one.name: _after(one, smaller)}
        if any(len(_waits_for(other, after)) < len(_waits_for(other, left)) for other in left.values()):
            return one, smaller
    return None


def _after(change: Change, written: Schemata) -> Change:
    """Return the same change once these values are in place."""
    assert change.old is not None
    old = {name: dict(values) for name, values in change.old.items()}
    for name, values in written.items():
        old.setdefault(name, {}).update(values)
    differences = {
        name: {domain: value for domain, value in values.items() if old.get(name, {}).get(domain) != value}
        for name, values in change.differences.items()
    }
    return replace(change, old=old, differences={name: values for name, values in differences.items() if values})
