"""Find mates, jobs of different domains that start together: by submit times, by a proportion, or by a column.

The first two are those of the paper's own simulator (K9, K10); they read times and order, never sizes or run times.
Nothing here knows about schedules, terms or messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.model.errors import InputError
from cohabit.model.workload import ACCEPTED, Ints, Workload

NO_MEMBER = -1
VICINITY, PROPORTION, COLUMN, NONE = "vicinity", "proportion", "column", "none"
PAIRINGS = (VICINITY, PROPORTION, COLUMN, NONE)


@dataclass(frozen=True)
class Tie:
    """Jobs that start together: a row in each domain (NO_MEMBER: none there), in the order of the domains."""

    name: str
    rows: tuple[int, ...]

    def domains(self) -> list[int]:
        """The places of the domains that have a member."""
        return [place for place, row in enumerate(self.rows) if row != NO_MEMBER]


def by_vicinity(jobs: Mapping[str, Workload], vicinity_us: int, proportion: float = 0.0) -> list[Tie]:
    """Pair each job of a later domain with the latest job of the first that was not submitted after it (K10).

    Only if they are less than the vicinity apart. Where several of a domain pick the same job, the highest id wins.
    With a proportion, so many of the pairs are kept, evenly, that they are this share of the first domain's jobs.
    """
    domains = list(jobs)
    first = jobs[domains[0]]
    rows = accepted_in_order(first)
    found: dict[int, list[int]] = {}  # row of the first domain -> one row of every domain
    for place, domain in enumerate(domains[1:], start=1):
        for row, mate in _nearest(first, rows, jobs[domain], vicinity_us).items():
            found.setdefault(row, [row] + [NO_MEMBER] * (len(domains) - 1))[place] = mate
    kept = [tuple(found[int(row)]) for row in rows if int(row) in found]
    if proportion > 0.0:
        kept = _evenly(kept, round(proportion * len(rows)))
    return [Tie(_name(jobs, members), members) for members in kept]


def _nearest(first: Workload, rows: Ints, other: Workload, vicinity_us: int) -> dict[int, int]:
    """Return the nearest rows: row of the first domain -> row of the other."""
    submit_us = first.submit_us[rows]
    theirs = accepted_in_order(other)
    place = np.searchsorted(submit_us, other.submit_us[theirs], side="right") - 1
    apart_us = other.submit_us[theirs] - submit_us[np.maximum(place, 0)]
    near = (place >= 0) & (apart_us < vicinity_us)
    found: dict[int, int] = {}
    for mate, at in zip(theirs[near].tolist(), place[near].tolist(), strict=True):
        row = int(rows[at])
        rival = found.get(row)
        if rival is None or _later(other.job_id, mate, rival):
            found[row] = mate
    return found


def _later(ids: NDArray[Any], row: int, rival: int) -> bool:
    """Return whether the row has the higher id; names are compared by their place in the file."""
    if ids.dtype.kind in "iu":
        return bool(ids[row] > ids[rival])
    return row > rival


def _evenly(members: list[tuple[int, ...]], wanted: int) -> list[tuple[int, ...]]:
    """Choose so many of them, spread evenly."""
    if wanted >= len(members):
        return members
    return [members[int(at)] for at in np.floor((np.arange(wanted) + 0.5) * len(members) / max(wanted, 1))]


def by_proportion(jobs: Mapping[str, Workload], proportion: float) -> list[Tie]:
    """Pair the i-th jobs of all domains for every int(1 / proportion)-th i (K9).

    Above one half: all but every int(1 / (1 - proportion))-th. The domains must have equally many jobs.
    """
    domains = list(jobs)
    orders = {domain: accepted_in_order(workload) for domain, workload in jobs.items()}
    counts = {domain: len(order) for domain, order in orders.items()}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{domain} has {count:,}" for domain, count in counts.items())
        raise InputError(
            f"pairing by proportion needs equally many jobs in every domain, but {said}",
            "coupling.pairing",
            'use "vicinity" with a proportion',
        )
    chosen = chosen_by_proportion(counts[domains[0]], proportion)
    rows = [orders[domain][chosen].tolist() for domain in domains]
    return [Tie(_name(jobs, members), members) for members in zip(*rows, strict=True)]


def chosen_by_proportion(count: int, proportion: float) -> Ints:
    """Return the places, from 0, of the jobs that get a mate."""
    if not 0 < proportion <= 1:
        raise InputError(
            f"a proportion of {proportion:g} of the jobs is impossible",
            "coupling.proportion",
            "give a number above 0 and at most 1",
        )
    number = np.arange(1, count + 1)
    if proportion > 0.5:
        step = int(1 / (1 - proportion)) if proportion < 1 else count + 1
        return np.flatnonzero(number % step != 0)
    return np.flatnonzero(number % int(1 / proportion) == 0)


Member = tuple[str, int]  # domain, row


def by_column(jobs: Mapping[str, Workload]) -> list[Tie]:
    """Pair jobs by the columns `mate` (DOMAIN:JOB) and `group` (a name) of the job tables; refuse contradictions."""
    domains, groups, mates = list(jobs), _named_groups(jobs), _named_mates(jobs)
    ties = [Tie(name, _rows(jobs, members)) for name, members in groups.items()]
    grouped = {member for members in groups.values() for member in members.items()}
    for member, mate in mates.items():
        for one in (member, mate):
            if one in grouped:
                where = _where(jobs, member, "mate")
                raise InputError(f"{_called(jobs, one)} has a mate and a group", where, "keep one of them")
        if domains.index(member[0]) < domains.index(mate[0]):
            rows = _rows(jobs, dict((member, mate)))
            ties.append(Tie(_name(jobs, rows), rows))
    return ties


def _rows(jobs: Mapping[str, Workload], members: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(members.get(domain, NO_MEMBER) for domain in jobs)


def _named_groups(jobs: Mapping[str, Workload]) -> dict[str, dict[str, int]]:
    groups: dict[str, dict[str, int]] = {}
    for domain, one in jobs.items():
        for row, name in enumerate(one.extra.get("group", ())):
            if not name:
                continue
            members = groups.setdefault(str(name), {})
            if domain in members:
                what = f"group {name} already has job {one.job_id[members[domain]]} in domain {domain}"
                raise InputError(what, _where(jobs, (domain, row), "group"), "a group has one job in each domain")
            members[domain] = row
    for name, members in groups.items():
        if len(members) < 2:
            (member,) = members.items()
            what = f"group {name} has no job in any other domain"
            raise InputError(what, _where(jobs, member, "group"), "name its mates, or leave the group out")
    return groups


def _named_mates(jobs: Mapping[str, Workload]) -> dict[Member, Member]:
    """Return the mate of every named job, in both directions."""
    ids = {domain: {str(name): row for row, name in enumerate(one.job_id)} for domain, one in jobs.items()}
    mates: dict[Member, Member] = {}
    said: dict[Member, Member] = {}  # the member that named the other first
    for domain, workload in jobs.items():
        for row, text in enumerate(workload.extra.get("mate", ())):
            if not text:
                continue
            member = domain, row
            mate = _mate(jobs, ids, member, str(text))
            for one, other in ((member, mate), (mate, member)):
                known = mates.get(one)
                if known is not None and known != other:
                    before = _where(jobs, said[one], "mate")
                    what = (
                        f"{_called(jobs, one)} would have two mates, {_called(jobs, known)} ({before}) and "
                        f"{_called(jobs, other)}"
                    )
                    raise InputError(what, _where(jobs, member, "mate"), "a job has one mate; groups have more")
                mates[one] = other
                said.setdefault(one, member)
    return mates


def _mate(jobs: Mapping[str, Workload], ids: Mapping[str, Mapping[str, int]], member: Member, text: str) -> Member:
    where = _where(jobs, member, "mate")
    domain, found, job = text.partition(":")
    if not found or not job:
        raise InputError(f"{text!r} is not DOMAIN:JOB", where, f"write {next(iter(jobs))}:17, for example")
    if domain not in jobs:
        raise InputError(f"{text!r} names the unknown domain {domain!r}", where, f"known are {', '.join(jobs)}")
    if domain == member[0]:
        itself = job == str(jobs[domain].job_id[member[1]])
        what = "names the job itself" if itself else "names a job of its own domain"
        raise InputError(f"{text!r} {what}", where, "a mate is in another domain")
    if job not in ids[domain]:
        raise InputError(f"{text!r} names a job that {domain} does not have", where, "check the id")
    return domain, ids[domain][job]


def accepted_in_order(workload: Workload) -> Ints:
    """Return the rows of the jobs that can run, in order of submission."""
    order = workload.order()
    accepted: Ints = order[workload.rejection[order] == ACCEPTED]
    return accepted


def _name(jobs: Mapping[str, Workload], rows: Sequence[int]) -> str:
    """Return a name for an unnamed group, made of its members."""
    named = zip(jobs.items(), rows, strict=True)
    return "+".join(f"{domain}:{one.job_id[row]}" for (domain, one), row in named if row != NO_MEMBER)


def _called(jobs: Mapping[str, Workload], member: Member) -> str:
    domain, row = member
    return f"{domain}:{jobs[domain].job_id[row]}"


def _where(jobs: Mapping[str, Workload], member: Member, column: str) -> str:
    domain, row = member
    return f"{jobs[domain].source or domain}, job {jobs[domain].job_id[row]}, {column}"
