"""Choose the group of each job, and the writes that turn the current state into the wanted one. Pure.

Classes of service are few, so jobs share a class where they cannot disturb each other: on different L3 domains, or,
when no class is left, with the same share. A job stays in its class while it can, because changing the masks of a class
is one write and moving a job is many. Only differences are written. A group that gives up ways is written before the
group that takes them. Where groups wait for each other in a circle, one of them first shrinks to what it keeps.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import count

from cohabit.agent.resctrl.groups import CLASS, Current, Group, job_name
from cohabit.agent.resctrl.offer import ResctrlOffer
from cohabit.agent.resctrl.ordering import Change, in_safe_order
from cohabit.agent.resctrl.wanted import Need, Share
from cohabit.agent.resctrl.writes import Enter, Make, Move, Remove, Write

ROOT = ""  # the home of a job without a class of its own


@dataclass
class Plan:
    """The writes in order, the group of every job (ROOT: only monitored), and why other jobs could not be served."""

    writes: list[Write] = field(default_factory=list)
    homes: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def plan(current: Current, wanted: Mapping[str, Need], offer: ResctrlOffer, running: Collection[str] = ()) -> Plan:
    """Return all writes; `running` are jobs that have processes already, which must be put into a group that is new to
    them.

    Jobs that are not wanted have ended: their groups are removed. Groups that are not ours do not occur in any write.
    """
    homes, refused = assign(current, wanted, offer)
    result = Plan(homes={job: homes.get(job, ROOT) for job in wanted}, refused=refused)
    members = _members(result.homes)
    was = {job: name for name, group in current.groups.items() for job in group.jobs}
    was |= dict.fromkeys(current.root_jobs, ROOT)
    # A class named after its only job has no monitoring group to move: its job is handled like a new one.
    movable = {job for job, home in was.items() if home == ROOT or current.groups[home].shareable}
    result.writes += _leave(current, members, movable & wanted.keys(), wanted)
    result.writes += _set(current, members, wanted, offer)
    for job, home in result.homes.items():
        if job not in movable and was.get(job) != home:
            result.writes += _arrive(job, home, offer, job in running or job in was)
        elif home not in (was.get(job), ROOT):
            result.writes.append(Move(_place(was[job], job), _place(home, job), (job,)))
    return result


def assign(current: Current, wanted: Mapping[str, Need], offer: ResctrlOffer) -> tuple[dict[str, str], dict[str, str]]:
    """Return the class of every job that needs one, and why others cannot have one."""
    homes: dict[str, str] = {}
    refused: dict[str, str] = {}
    members: dict[str, list[str]] = {name: [] for name in current.groups}
    for name, group in sorted(current.groups.items()):
        for job in group.jobs:
            if wanted.get(job) and _rank(job, members[name], wanted, offer) is not None:
                members[name].append(job)
                homes[job] = name
    waiting = sorted(
        (job for job in wanted if wanted[job] and job not in homes), key=lambda one: (-len(wanted[one]), one)
    )
    for job in waiting:
        home = _choose(job, members, current, wanted, offer)
        if home is None:
            refused[job] = (
                f"all {offer.classes} classes of service are in use ({current.foreign} by others): "
                "the job runs without ways of its own"
            )
        else:
            members.setdefault(home, []).append(job)
            homes[job] = home
    return homes, refused


def _choose(
    job: str, members: Mapping[str, list[str]], current: Current, wanted: Mapping[str, Need], offer: ResctrlOffer
) -> str | None:
    """Return the class that disturbs no other job and costs least; None if there is none."""
    # An empty class may be removed, so it counts as free and is taken before a new one is made.
    living = [name for name in members if members[name] or (name in current.groups and current.groups[name].shareable)]
    if not offer.monitored:
        own = job_name(job)
        occupied = [name for name in living if name != own]
        return own if len(occupied) < offer.classes - current.foreign else None
    ranked = []
    for name in living:
        if name not in current.groups or current.groups[name].shareable:
            rank = _rank(job, members[name], wanted, offer)
            if rank is not None:
                target = _target([wanted[job]], offer)
                changes = name not in current.groups or bool(_differences(current.groups[name], target))
                ranked.append((rank, changes, name))
    best = min(ranked, default=None)
    if best is not None and best[0] < _SHARED:
        return best[2]
    if len(living) < offer.classes - current.foreign:
        return next(name for name in (f"{CLASS}{number}" for number in count()) if name not in members)
    return best[2] if best is not None else None


_APART, _EMPTY, _SHARED = range(3)


def _rank(job: str, others: list[str], wanted: Mapping[str, Need], offer: ResctrlOffer) -> int | None:
    """Return how well a job fits into a class: on other domains, alone, with the same share; None: not at all."""
    if not others:
        return _EMPTY
    need, rank = wanted[job], _APART
    for other in others:
        for domain in need.keys() & wanted[other].keys():
            if need[domain] != wanted[other][domain]:
                return None
            if need[domain].bandwidth is not None and not (offer.bandwidth is not None and offer.bandwidth.per_core):
                return None  # a limit for the whole group: two jobs would have to share it
            rank = _SHARED
    return rank


def _members(homes: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for job, home in homes.items():
        if home != ROOT:
            found.setdefault(home, []).append(job)
    return found


def _place(home: str, job: str) -> str:
    """Return the monitoring group of a job, as a path below the root of the file system."""
    return f"{home}/mon_groups/{job_name(job)}" if home else f"mon_groups/{job_name(job)}"


def _leave(
    current: Current, members: Mapping[str, list[str]], movable: Collection[str], wanted: Mapping[str, Need]
) -> list[Write]:
    """Return the removals: groups of ended jobs, of jobs that need no class any more, and empty classes."""
    writes: list[Write] = [Remove(_place(ROOT, job)) for job in sorted(current.root_jobs - wanted.keys())]
    emptied: list[Write] = []
    housed = {job for found in members.values() for job in found}
    for name, group in sorted(current.groups.items()):
        homeward = [job for job in group.jobs if job in movable and job not in housed]
        writes += [Move(_place(name, job), _place(ROOT, job), (job,)) for job in homeward]
        if name not in members and not any(job in housed for job in group.jobs if job in movable):
            emptied.append(Remove(name))  # including the monitoring groups that are still in it
        else:
            writes += [Remove(_place(name, job)) for job in group.jobs if job not in wanted]
    return writes + emptied


def _set(
    current: Current, members: Mapping[str, list[str]], wanted: Mapping[str, Need], offer: ResctrlOffer
) -> list[Write]:
    """Return the classes to make and the schemata to write; groups that give ways come before groups that take them."""
    changes = []
    for name, jobs in sorted(members.items()):
        target = _target([wanted[job] for job in jobs], offer)
        if name in current.groups:
            differences = _differences(current.groups[name], target)
            # Ways count as held only where a job of ours runs: old values on other domains have no effect.
            used = {domain for job in current.groups[name].jobs for domain in wanted.get(job, {})}
            old = {
                resource: {domain: value for domain, value in values.items() if domain in used}
                for resource, values in current.groups[name].schemata.items()
            }
            if differences:
                changes.append(Change(name, old, target, differences, tuple(jobs)))
        else:
            changes.append(Change(name, None, target, target, tuple(jobs)))
    return in_safe_order(changes, offer)


def _target(needs: list[Need], offer: ResctrlOffer) -> dict[str, dict[int, int]]:
    """Return the schemata that serve all these needs; on common domains they are equal."""
    found: dict[str, dict[int, int]] = {}
    for need in needs:
        for domain, share in need.items():
            for resource, value in _values(share, domain, offer):
                found.setdefault(resource, {})[domain] = value
    return found


def _values(share: Share, domain: int, offer: ResctrlOffer) -> list[tuple[str, int]]:
    """Return every resource of one domain; an unlimited resource is written as all of it."""
    found = []
    if offer.cache is not None and domain in offer.cache.domains:
        mask = offer.cache.mask if share.mask is None else share.mask
        found += [(resource, mask) for resource in offer.cache.resources]
    if offer.bandwidth is not None and domain in offer.bandwidth.domains:
        found.append(("MB", offer.bandwidth.most if share.bandwidth is None else share.bandwidth))
    return found


def _differences(group: Group, target: Mapping[str, Mapping[int, int]]) -> dict[str, dict[int, int]]:
    """Return only the values that differ from the current ones."""
    found = {}
    for resource, values in target.items():
        now = group.schemata.get(resource, {})
        changed = {domain: value for domain, value in values.items() if now.get(domain) != value}
        if changed:
            found[resource] = changed
    return found


def _arrive(job: str, home: str, offer: ResctrlOffer, running: bool) -> list[Write]:
    """Make a monitoring group, and move the job's processes into it if it has any."""
    groups = [home]  # also of the root: processes may be in the class of the process that started them
    writes: list[Write] = []
    if offer.monitored:
        groups.append(_place(home, job))
        writes.append(Make(groups[-1], (job,)))
    if running and (home != ROOT or offer.monitored):
        writes.append(Enter((job,), tuple(groups)))
    return writes
