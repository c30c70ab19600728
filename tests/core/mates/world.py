"""A few domains with bad clocks, joined by bad links, their controllers dying at any moment; and a watch over what must
never happen. Everything follows from the seed."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import msgspec

from cohabit.core.mates.state import Heard, Joined, Ready, Record, Tick, Withdrawn
from cohabit.model.group import START_ALONE, WHOLE_RUN, Group, Terms
from cohabit.model.peer import IDLE, NEVER, READY, Abort, Commit, Message, Status, Vote, decode, encode
from cohabit.model.units import FOREVER, SECOND
from tests.core.mates.clocks import PPM, Clock
from tests.core.mates.site import Broken, Hand, Run, Site, finish

FARTHEST_US = 30 * SECOND  # a clock jumps, and a machine stands still, by at most this


@dataclass
class Weather:
    """How bad the links and the machines are until `calm_us`."""

    loss: float
    twice: float
    slow: float  # share of messages that take up to `slowest_us`
    usual_us: int
    slowest_us: int
    crash: float  # chance that a controller dies while dealing with an input
    outage_us: int  # how long it stays dead, at most
    cuts: list[tuple[int, int, str, str]]  # from, to, sender, receiver: nothing passes
    calm_us: int
    replay: float  # chance that, with a message, an old one comes again
    withdraw: float  # chance that an owner cancels a job
    same_clock: float = 1.0  # chance that a dead controller's clock went on
    blackout: float = 0.0  # chance that, soon after a vote or a start, the machine loses its power and its link
    worst_ppm: int = 0  # no clock drifts more than this, or than the terms of the groups allow


@dataclass
class Promise:
    """A vote that has left: the nodes must stay until then."""

    attempt: int
    coordinator: str
    until_us: int


@dataclass
class Tally:
    """What happened, so that a campaign can show that it was not idle."""

    events: int = 0
    messages: int = 0
    lost: int = 0
    crashes: int = 0
    jumps: int = 0  # of clocks, forward and back
    sleeps: int = 0  # machines that stood still
    reboots: int = 0  # clocks that were lost
    starts: int = 0
    stopped: int = 0  # runs given up because a mate was missing
    widest_us: int = 0  # the largest difference between the starts of one attempt
    longest_alone_us: int = 0
    refused: int = 0


@dataclass
class World:
    """The domains and what is on its way."""

    rng: Random
    weather: Weather
    clocks: dict[str, Clock]
    sites: dict[str, Site]
    groups: dict[str, Group]
    run_us: dict[tuple[str, str], int]
    forgets: Callable[[Record], bool] = lambda record: False
    true_us: int = 0
    tally: Tally = field(default_factory=Tally)
    heap: list[tuple[int, int, str, tuple[object, ...]]] = field(default_factory=list)
    number: int = 0
    wakes: dict[str, int] = field(default_factory=dict)  # true instant of the next tick
    wakes_us: dict[str, int] = field(default_factory=dict)  # the same on the domain's clock
    shown_us: dict[str, int] = field(default_factory=dict)  # the last reading its controller has worked with
    asleep: dict[str, int] = field(default_factory=dict)  # the machine stands still until this true instant
    jams: dict[str, tuple[int, int]] = field(default_factory=dict)  # what a domain sends meanwhile arrives after it
    rebooting: set[str] = field(default_factory=set)  # its machine is off
    real_terms: dict[str, Terms] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)  # domains with a new clock whose leases are still on the old one
    kept: dict[tuple[str, str, int], int] = field(default_factory=dict)  # since when an attempt has nodes
    promises: dict[tuple[str, str], Promise] = field(default_factory=dict)
    with_us: dict[tuple[str, str, str], int] = field(default_factory=dict)  # (group, side, mate) -> last true instant
    posted: list[bytes] = field(default_factory=list)
    begun: dict[tuple[str, int, str], dict[str, int]] = field(default_factory=dict)  # attempt -> side -> true start

    # ---- events ----------------------------------------------------------------------------------------------------

    def at(self, true_us: int, what: str, *about: object) -> None:
        """Something will happen."""
        self.number += 1
        heapq.heappush(self.heap, (true_us, self.number, what, about))

    def run(self, until_us: int) -> None:
        """Let time pass, watching."""
        while self.heap and self.heap[0][0] <= until_us:
            true_us, _, what, about = heapq.heappop(self.heap)
            if true_us > self.true_us:
                self._no_reservation_is_stale()
            self.true_us = true_us
            if self._put_off(what, about):
                continue
            self.tally.events += 1
            self._nobody_runs_alone()
            getattr(self, f"_do_{what}")(*about)
            self._nobody_runs_alone()
            self._promises_are_kept()

    def _put_off(self, what: str, about: tuple[object, ...]) -> bool:
        """On a machine that stands still nothing happens until it goes on; the runs of its jobs end elsewhere."""
        if what in ("jump", "end") or self.true_us >= max(self.asleep.values(), default=0):
            return False
        domain = decode(about[0]).receiver if what == "message" else about[0]  # type: ignore[arg-type]
        until_us = self.asleep.get(str(domain), 0)
        if self.true_us >= until_us:
            return False
        if what != "tick":  # the first thing after the sleep is a tick
            self.at(until_us, what, *about)
        return True

    def _do_jump(self, domain: str, by_us: int, ppm: int) -> None:
        self.tally.jumps += 1
        self.clocks[domain].jump(self.true_us, by_us, ppm)
        self._set_alarms(domain, self.true_us)

    def _do_sleep(self, domain: str, for_us: int, clock_stands: bool) -> None:
        """The machine stands still, and so does the clock of a virtual one."""
        self.tally.sleeps += 1
        self.asleep[domain] = self.wakes[domain] = self.true_us + for_us
        self.at(self.asleep[domain], "tick", domain)
        if clock_stands:
            self.clocks[domain].jump(self.true_us, -for_us, self.clocks[domain].ppm)
            self._set_alarms(domain, self.true_us)
        else:
            self.clocks[domain].stops.append((self.asleep[domain], for_us))

    def _do_blackout(self, domain: str, for_us: int) -> None:
        """The machine loses its power and reboots, and nothing that it sends passes for a while. What it sent shortly
        before was jammed, and arrives later."""
        if self.true_us >= self.weather.calm_us:
            return
        for other in self.sites:
            self.weather.cuts.append((self.true_us, self.true_us + for_us, domain, other))
        if self.sites[domain].state is not None:
            hand = self._hand(domain)
            hand.die()
            self.rebooting.add(domain)
            self._after(hand)

    def _may_black_out(self, domain: str, within_us: int, chance: float) -> None:
        if self.true_us < self.weather.calm_us and self.rng.random() < chance:
            at_us = self.true_us + self.rng.randrange(1, within_us)
            self.jams[domain] = (at_us - self.rng.randrange(20 * SECOND), at_us)
            self.at(at_us, "blackout", domain, self.rng.randrange(1, 180 * SECOND))

    def _hand(self, domain: str) -> Hand:
        calm = self.true_us >= self.weather.calm_us
        dies = not calm and self.rng.random() < self.weather.crash
        clock_us = self.shown_us[domain] = self.clocks[domain].reads(self.true_us)
        deeds = self.rng.randrange(12) if dies else -1
        return Hand(self.sites[domain], clock_us, self.true_us, deeds, self.forgets, self._started)

    def _after(self, hand: Hand, ticked: bool = False) -> None:
        site, domain = hand.site, hand.site.domain
        self.tally.refused += len(hand.refused)
        for message in hand.sent:
            self._note_promise(message)
            self._post(message)
        if site.state is None:
            self.tally.crashes += 1
            back = self.true_us + self.rng.randrange(1, self.weather.outage_us)
            self.at(back, "restart", domain)
        else:
            self.wakes_us[domain] = hand.wake_us
        self._set_alarms(domain, self.true_us + ticked)  # what is overdue comes at once, but not twice

    def _set_alarms(self, domain: str, soonest: int) -> None:
        """Turn the instants that a domain waits for into true ones, by its clock as it is now."""
        site, clock = self.sites[domain], self.clocks[domain]
        for group, run in site.running.items():
            if run.fuse_us < FOREVER:
                self.at(max(clock.when(run.fuse_us), self.true_us), "fuse", domain, group)
        wake_us = self.wakes_us.get(domain, FOREVER)
        if site.state is not None and wake_us < FOREVER and self.true_us >= self.asleep.get(domain, 0):
            wake = max(clock.when(wake_us), soonest)
            if self.wakes.get(domain) != wake:
                self.wakes[domain] = wake
                self.at(wake, "tick", domain)

    def _do_tick(self, domain: str) -> None:
        if self.wakes.get(domain) == self.true_us:
            self.wakes.pop(domain)
            if self.sites[domain].state is not None:
                hand = self._hand(domain)
                hand.tell(Tick())
                self._after(hand, ticked=True)

    def _do_restart(self, domain: str) -> None:
        site = self.sites[domain]
        if site.state is None:
            if domain in self.rebooting or self.rng.random() >= self.weather.same_clock:
                self._reboot(domain)
            epoch, hand = site.epoch, self._hand(domain)
            hand.restart(domain not in self.lost)
            if site.epoch > epoch:  # the leases of the old clock are given up, and that is durable
                self.lost.discard(domain)
            self._after(hand)
            if self.true_us >= self.weather.calm_us and hand.site.state is not None:
                self._do_calm(domain)

    def _reboot(self, domain: str) -> None:
        """The machine was off: its clock begins anew, all its fuses have burnt, and no promise can be kept."""
        self.tally.reboots += 1
        by_us = self.rng.randrange(-FARTHEST_US, FARTHEST_US + 1)
        self.clocks[domain].renew(self.true_us, by_us, self.shown_us[domain] + 1)
        self.rebooting.discard(domain)
        self.lost.add(domain)
        self.promises = {key: kept for key, kept in self.promises.items() if key[0] != domain}
        for run in self.sites[domain].running.values():
            run.fuse_us = NEVER if run.fuse_us < FOREVER else FOREVER

    def _do_calm(self, domain: str) -> None:
        """From now on the scheduler finds nodes, and every job that waits is ready."""
        site = self.sites[domain]
        site.willing = True
        for group in site.groups:
            if site.state is not None and group not in site.ended and group not in site.failed:
                hand = self._hand(domain)
                hand.tell(Ready(group, True))
                self._after(hand)

    def _do_ready(self, domain: str, group: str) -> None:
        site = self.sites[domain]
        if self.true_us >= self.weather.calm_us:
            return
        site.willing = self.rng.random() < 0.7
        if site.state is not None and group in site.state.groups:
            hand = self._hand(domain)
            hand.tell(Ready(group, self.rng.random() < 0.8))
            self._after(hand)
        self.at(self.true_us + self.rng.randrange(1, 20 * SECOND), "willing", domain)

    def _do_willing(self, domain: str) -> None:
        self.sites[domain].willing = True

    def _do_join(self, domain: str, group: Group) -> None:
        site = self.sites[domain]
        site.groups[group.name] = group
        if site.state is not None:
            hand = self._hand(domain)
            hand.tell(Joined(group))
            self._after(hand)

    def _do_withdraw(self, domain: str, group: str) -> None:
        site = self.sites[domain]
        if site.state is not None and group in site.state.groups and group not in site.ended:
            site.failed.append(group)
            hand = self._hand(domain)
            self.promises.pop((domain, group), None)
            hand.tell(Withdrawn(group))
            self._after(hand)
            if site.state is None and site.record(group).phase != "gone":
                self.at(self.true_us + weather_gap(self.weather), "withdraw", domain, group)  # its owner tries again

    def _do_message(self, data: bytes) -> None:
        message = decode(data)
        site = self.sites[message.receiver]
        if site.state is not None:
            self._void_promise(message)
            hand = self._hand(message.receiver)
            hand.tell(Heard(message))
            self._after(hand)

    def _do_fuse(self, domain: str, group: str) -> None:
        site = self.sites[domain]
        clock_us = self.clocks[domain].reads(self.true_us)
        if group in site.running and site.running[group].fuse_us <= clock_us:
            self.tally.stopped += 1
            hand = self._hand(domain)
            finish(hand, group, burnt=True)
            self._after(hand)

    def _do_end(self, domain: str, group: str, attempt: int) -> None:
        site = self.sites[domain]
        if group in site.running and site.running[group].attempt == attempt:
            hand = self._hand(domain)
            finish(hand, group, burnt=False)
            self._after(hand)

    def _post(self, message: Message) -> None:
        weather, rng = self.weather, self.rng
        self.tally.messages += 1
        calm = self.true_us >= weather.calm_us
        self.posted.append(encode(message))
        if not calm and rng.random() < weather.replay:
            self.at(self.true_us + rng.randrange(1, weather.slowest_us), "message", rng.choice(self.posted))
        cut = any(
            begin <= self.true_us < end and (message.sender, message.receiver) == (sender, receiver)
            for begin, end, sender, receiver in weather.cuts
        )
        if not calm and (cut or rng.random() < weather.loss):
            self.tally.lost += 1
            return
        for _ in range(1 if calm or rng.random() >= weather.twice else 2):
            delay = rng.randrange(1, weather.usual_us)
            jammed, freed = self.jams.get(message.sender, (0, 0))
            if not calm and jammed <= self.true_us < freed:
                delay = freed - self.true_us + rng.randrange(1, 20 * SECOND)
            elif not calm and rng.random() < weather.slow:
                delay = rng.randrange(1, weather.slowest_us)
            self.at(self.true_us + delay, "message", self.posted[-1])

    def _started(self, site: Site, group: str, run: Run) -> None:
        self.tally.starts += 1
        self._may_black_out(site.domain, 60 * SECOND, self.weather.blackout)
        self.at(self.true_us + self.run_us[site.domain, group], "end", site.domain, group, run.attempt)
        key = (group, run.attempt, run.coordinator)
        starts = self.begun.setdefault(key, {})
        if site.domain in starts:
            raise Broken(f"{site.domain} starts {group} twice in attempt {run.attempt}")
        offsets = self.groups[group]
        starts[site.domain] = self.true_us - offsets.offset_us(site.domain)
        apart = max(starts.values()) - min(starts.values())
        terms, longest = self._terms(group), max(offsets.offsets_us)
        asked = min(starts.values()) - (terms.lease_us + longest) * PPM // (PPM - terms.drift_ppm)
        bound = terms.apart_us(longest) + sum(self.clocks[domain].moved_us(asked) for domain in offsets.domains())
        self.tally.widest_us = max(self.tally.widest_us, apart)
        if apart > bound:
            raise Broken(f"the starts of {group} are {apart} us apart, more than {bound}")

    # ---- what must never happen ------------------------------------------------------------------------------------

    def _terms(self, group: str) -> Terms:
        """The terms of a group, with the drift that its clocks really have."""
        if group not in self.real_terms:
            terms = self.groups[group].terms
            drift_ppm = max(terms.drift_ppm, self.weather.worst_ppm)
            self.real_terms[group] = msgspec.structs.replace(terms, drift_ppm=drift_ppm)
        return self.real_terms[group]

    def _nobody_runs_alone(self) -> None:
        for domain, site in self.sites.items():
            for group, run in site.running.items():
                terms = self.groups[group].terms
                freed = run.fuse_us == FOREVER and terms.watch_us != WHOLE_RUN
                if freed or terms.when_dead == START_ALONE:
                    continue
                for mate in self.groups[group].domains():
                    if mate != domain:
                        self._check_mate(group, domain, mate, run)

    def _check_mate(self, group: str, domain: str, mate: str, run: Run) -> None:
        key = (group, domain, mate)
        if self._takes_part(group, mate, run):
            self.with_us[key] = self.true_us
        since = max(self.with_us.get(key, 0), run.started_us)
        alone, bound = self.true_us - since, self._terms(group).alone_us()
        self.tally.longest_alone_us = max(self.tally.longest_alone_us, alone)
        if alone > bound and alone > bound + self.clocks[domain].stood_us(since - bound):
            raise Broken(f"{domain} has run {group} for {alone} us without {mate}")

    def _takes_part(self, group: str, mate: str, run: Run) -> bool:
        """Whether the mate runs or is bound to start in the same attempt, or is done with the group: it ended, or its
        watch is over and it runs freely."""
        site, attempt = self.sites[mate], (run.attempt, run.coordinator)
        other = site.running.get(group)
        if other is not None and other.fuse_us == FOREVER and self.groups[group].terms.watch_us != WHOLE_RUN:
            return True
        if group in site.ended or (other is not None and (other.attempt, other.coordinator) == attempt):
            return True
        if group not in site.records:
            return False
        record = site.record(group)
        still = self.clocks[mate].reads(self.true_us) <= record.start_at_us + self.groups[group].terms.late_us
        bound = record.phase == "committed" and (record.attempt, record.coordinator) == attempt
        return (bound and still) or record.phase == "gone"

    def _no_reservation_is_stale(self) -> None:
        for domain, site in self.sites.items():
            clock_us = self.clocks[domain].reads(self.true_us)
            for group, (attempt, until_us) in site.reserved.items():
                if self.true_us >= self.asleep.get(domain, 0) and until_us < clock_us:
                    raise Broken(f"{domain} keeps nodes for {group} {clock_us - until_us} us past the lease")
                self._nodes_are_not_kept(domain, group, attempt)
            if len(set(site.reserved) | set(site.running)) > site.room:
                raise Broken(f"{domain} has given out more nodes than it has")

    def _nodes_are_not_kept(self, domain: str, group: str, attempt: int) -> None:
        """In true time, across restarts: no longer than the lease, and what the clock or the machine stood still."""
        since = self.kept.setdefault((domain, group, attempt), self.true_us)
        terms, longest = self._terms(group), max(self.groups[group].offsets_us)
        kept, bound = self.true_us - since, (terms.lease_us + longest) * PPM // (PPM - terms.drift_ppm) + 2
        if kept > bound and kept > bound + self.clocks[domain].stood_us(since):
            raise Broken(f"{domain} keeps nodes for {group} for {kept} us, more than {bound}")

    def _note_promise(self, message: Message) -> None:
        if isinstance(message, Vote) and message.yes:
            self._may_black_out(message.sender, SECOND, self.weather.blackout / 2)
            self.promises[message.sender, message.group] = Promise(
                message.attempt, message.coordinator, message.lease_end_us
            )

    def _void_promise(self, message: Message) -> None:
        """What sets a voter free: an abort, a decision, a later attempt of the same coordinator."""
        key = (message.receiver, message.group)
        promise = self.promises.get(key)
        if promise is None:
            return
        attempt, led = getattr(message, "attempt", 0), message.sender == promise.coordinator
        left = isinstance(message, Status) and led and message.phase in (IDLE, READY)
        over = isinstance(message, Abort | Commit) or left
        if (attempt == promise.attempt and over) or (attempt > promise.attempt and led):
            self.promises.pop(key)

    def _promises_are_kept(self) -> None:
        for (domain, group), promise in self.promises.items():
            site = self.sites[domain]
            if site.state is None or self.clocks[domain].reads(self.true_us) >= promise.until_us:
                continue
            if site.reserved.get(group, (0, 0))[0] != promise.attempt:
                raise Broken(f"{domain} voted yes for {group} and has given its nodes away")

    def finished(self) -> list[str]:
        """Jobs that neither ran to their end nor were failed with a reason."""
        return [
            f"{domain}:{group}"
            for domain, site in self.sites.items()
            for group in site.groups
            if group not in site.ended and group not in site.failed
        ]


def weather_gap(weather: Weather) -> int:
    """Later than the longest outage."""
    return weather.outage_us + SECOND
