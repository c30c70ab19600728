"""A group of mates and its terms: its members, when each of them starts, and the meaning of a silent mate.

The terms are checked here, once, when a group is made; the protocol relies on it. Start offsets are difference
constraints ("b from 0 to 60 s after a"); contradictory ones are refused with the cycle that shows it.
"""

from __future__ import annotations

from itertools import pairwise
from zlib import crc32

import msgspec

from cohabit.model.errors import InputError
from cohabit.model.peer import MOST_MEMBERS
from cohabit.model.units import FOREVER, SECOND

START_ALONE, WAIT, FAIL = "start_alone", "wait", "fail"
WHEN_DEAD = (START_ALONE, WAIT, FAIL)
WHOLE_RUN = -1
_PPM = 1_000_000


class Member(msgspec.Struct, frozen=True):
    """One job of the group, in one domain."""

    domain: str
    job: str
    limit_us: int = FOREVER  # how long it may run, as far as known


class Window(msgspec.Struct, frozen=True):
    """Domain `second` starts at least `least_us` and at most `most_us` after domain `first`; negative: before it."""

    first: str
    second: str
    least_us: int = 0
    most_us: int = 0


class Terms(msgspec.Struct, frozen=True):
    """The terms agreed on beforehand by all domains of a group. Durations are on the clock of the domain they bind."""

    lease_us: int = 60 * SECOND  # how long a reservation lasts, and a job runs at most without word from its mates
    lead_us: int = 2 * SECOND  # from the decision to the start: time for the decision to arrive
    late_us: int = SECOND // 20  # a job is not started later than this after the agreed instant
    round_trip_us: int = SECOND // 20  # slower exchanges are not used to compare clocks
    ask_us: int = 10 * SECOND  # interval at which a mate is asked for its status
    patience_us: int = 2 * SECOND  # how long a job that could start waits for its mates before it holds or yields
    retry_us: int = 30 * SECOND  # wait after the first failed attempt; it doubles, four times at most
    dead_after_us: int = 180 * SECOND  # a mate not heard for this long while this domain waits for it counts as dead
    absent_after_us: int = 86_400 * SECOND  # so does a mate whose domain answers but has had no such job for this long
    when_dead: str = START_ALONE
    give_up_us: int = 86_400 * SECOND  # with "wait": a job whose mate has been dead for this long fails
    watch_us: int = WHOLE_RUN  # how long after the start the mates must be heard; the wanted overlap at least
    drift_ppm: int = 500  # no clock gains or loses more than this against true time
    common_clock: bool = False  # the domains share one clock (a simulator): do not compare clocks

    def apart_us(self, offset_us: int = 0) -> int:
        """Return how far apart, in true time, the starts of one attempt can be (each against its offset)."""
        drift = 4 * self.drift_ppm * (self.lease_us + offset_us) // _PPM
        on_a_clock = self.late_us + (0 if self.common_clock else self.round_trip_us + drift + 2)
        return on_a_clock * _PPM // (_PPM - 4 * self.drift_ppm) + 1

    def alone_us(self) -> int:
        """Return how long, in true time, a watched job can run while a mate does not."""
        return self.lease_us * _PPM // (_PPM - self.drift_ppm) + 1


class Group(msgspec.Struct, frozen=True):
    """The members, the first of which leads attempts; their terms, and how much later than the first each starts.

    All domains must have the members in the same order.
    """

    name: str
    members: tuple[Member, ...]
    terms: Terms
    offsets_us: tuple[int, ...]

    @property
    def digest(self) -> int:
        """The checksum of the group: domains with the same number have the same group on the same terms."""
        return crc32(msgspec.msgpack.encode(self, order="deterministic"))

    def domains(self) -> tuple[str, ...]:
        """Return the domains of the members."""
        return tuple(member.domain for member in self.members)

    def job(self, domain: str) -> str:
        """Return the job of the group in this domain."""
        return self.members[self.domains().index(domain)].job

    def offset_us(self, domain: str) -> int:
        """Return how much later than the group's first job the job of this domain starts."""
        return self.offsets_us[self.domains().index(domain)]


def make_group(
    name: str, members: list[Member], terms: Terms, windows: tuple[Window, ...] = (), known: tuple[str, ...] = ()
) -> Group:
    """Return the group, or refuse it with the reason. `known`: all domains, if the caller knows them."""
    where = f"group {name}"
    domains = [member.domain for member in members]
    for first, second in pairwise(sorted(domains)):
        if first == second:
            raise InputError(f"has two jobs in domain {first}", where, "a group has one job in each domain")
    if not 2 <= len(domains) <= MOST_MEMBERS:
        raise InputError(f"has {len(domains)} members", where, f"name 2 to {MOST_MEMBERS} jobs in different domains")
    for domain in domains:
        if known and domain not in known:
            raise InputError(f"names the unknown domain {domain}", where, f"known are {', '.join(known)}")
    _check_terms(terms, where)
    offsets = start_offsets(domains, windows, where)
    _check_overlap(members, offsets, terms, where)
    return Group(name, tuple(members), terms, offsets)


def start_offsets(domains: list[str], windows: tuple[Window, ...], where: str = "group") -> tuple[int, ...]:
    """Return the earliest starts that keep every window, the first of them 0; refuse with the cycle if none exist."""
    edges: list[tuple[str, str, int]] = []  # (a, b, w): b starts at least w after a
    for window in windows:
        for domain in (window.first, window.second):
            if domain not in domains:
                raise InputError(f"has a window for {domain}, which is not a member", where)
        if window.first == window.second:
            raise InputError(f"has a window from {window.first} to itself", where)
        edges.append((window.first, window.second, window.least_us))
        edges.append((window.second, window.first, -window.most_us))
    earliest, cause = dict.fromkeys(domains, 0), dict.fromkeys(domains, "")
    for _ in range(len(domains) + 1):
        moved = ""
        for first, second, least in edges:
            if earliest[first] + least > earliest[second]:
                earliest[second], cause[second], moved = earliest[first] + least, first, second
        if not moved:
            base = min(earliest.values())
            return tuple(earliest[domain] - base for domain in domains)
    cycle = " -> ".join(_cycle(cause, moved))
    raise InputError(f"has start windows that cannot hold together: {cycle}", where, "widen one of them")


def _cycle(cause: dict[str, str], inside: str) -> list[str]:
    """Return the domains that delay each other without end, first and last the same."""
    for _ in cause:  # after this many steps back, `inside` is on the cycle itself
        inside = cause[inside]
    found = [inside]
    while cause[found[-1]] != inside:
        found.append(cause[found[-1]])
    return [inside, *reversed(found)]


def _check_terms(terms: Terms, where: str) -> None:
    positive = ("lease_us", "ask_us", "patience_us", "retry_us", "dead_after_us", "absent_after_us", "give_up_us")
    if wrong := [name for name in positive if getattr(terms, name) <= 0]:
        raise InputError(f"{wrong[0]} must be more than 0", where)
    if min(terms.lead_us, terms.late_us, terms.round_trip_us) < 0 or terms.watch_us < WHOLE_RUN:
        raise InputError("a duration is negative", where)
    if not 0 <= terms.drift_ppm < _PPM // 10:
        raise InputError(f"a clock drift of {terms.drift_ppm} ppm is too large", where, "give less than 100000")
    if terms.when_dead not in WHEN_DEAD:
        raise InputError(f"when_dead = {terms.when_dead!r}", where, f"use {', '.join(WHEN_DEAD)}")
    if terms.lead_us + terms.late_us + terms.round_trip_us >= terms.lease_us:
        raise InputError(
            "lead, lateness and round trip together are as long as the lease", where, "give a longer lease_us"
        )
    if terms.ask_us * 2 > terms.lease_us:
        raise InputError("mates are asked too rarely for the lease", where, "ask at least twice within lease_us")


def _check_overlap(members: list[Member], offsets: tuple[int, ...], terms: Terms, where: str) -> None:
    """Refuse an overlap if the limit of a member ends before the last member has run for that long."""
    for member, offset in zip(members, offsets, strict=True):
        if terms.watch_us > 0 and offset + member.limit_us < max(offsets) + terms.watch_us:
            what = f"wants {terms.watch_us / SECOND:g} s together, but {member.domain}:{member.job} ends before that"
            raise InputError(what, where, "raise its limit or ask for less")
