"""A few domains with clocks of their own, joined by bad links, their controllers dying at any moment; and a watch over
what must never happen. Everything follows from the seed."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from cohabit.core.mates.state import Heard, Joined, MatesState, Ready, Record, Tick, Withdrawn
from cohabit.model.errors import InputError
from cohabit.model.group import FAIL, START_ALONE, WAIT, WHOLE_RUN, Group, Member, Terms, Window, make_group
from cohabit.model.peer import IDLE, READY, Abort, Commit, Message, Status, Vote, decode, encode
from cohabit.model.units import FOREVER, SECOND
from tests.mates.site import Broken, Hand, Run, Site, finish

PPM = 1_000_000


@dataclass(frozen=True)
class Clock:
    """Reads offset + true time, gaining `ppm` microseconds in every second."""

    offset_us: int
    ppm: int

    def reads(self, true_us: int) -> int:
        """What it shows."""
        return self.offset_us + true_us + true_us * self.ppm // PPM

    def when(self, shown_us: int) -> int:
        """The first true instant at which it shows this or more."""
        guess = (shown_us - self.offset_us) * PPM // (PPM + self.ppm) - 2
        while self.reads(guess) < shown_us:
            guess += 1
        return guess


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
    wakes: dict[str, int] = field(default_factory=dict)
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
            self.tally.events += 1
            self._nobody_runs_alone()
            getattr(self, f"_do_{what}")(*about)
            self._nobody_runs_alone()
            self._promises_are_kept()

    def _hand(self, domain: str) -> Hand:
        calm = self.true_us >= self.weather.calm_us
        dies = not calm and self.rng.random() < self.weather.crash
        clock_us = self.clocks[domain].reads(self.true_us)
        deeds = self.rng.randrange(12) if dies else -1
        return Hand(self.sites[domain], clock_us, self.true_us, deeds, self.forgets, self._started)

    def _after(self, hand: Hand) -> None:
        site, domain = hand.site, hand.site.domain
        self.tally.refused += len(hand.refused)
        for message in hand.sent:
            self._note_promise(message)
            self._post(message)
        for group, run in site.running.items():
            if run.fuse_us < FOREVER:
                self.at(max(self.clocks[domain].when(run.fuse_us), self.true_us), "fuse", domain, group)
        if site.state is None:
            self.tally.crashes += 1
            back = self.true_us + self.rng.randrange(1, self.weather.outage_us)
            self.at(back, "restart", domain)
        elif hand.wake_us < FOREVER:
            wake = max(self.clocks[domain].when(hand.wake_us), self.true_us + (hand.wake_us <= hand.clock_us))
            if self.wakes.get(domain) != wake:
                self.wakes[domain] = wake
                self.at(wake, "tick", domain)

    def _do_tick(self, domain: str) -> None:
        if self.wakes.get(domain) == self.true_us:
            self.wakes.pop(domain)
            if self.sites[domain].state is not None:
                hand = self._hand(domain)
                hand.tell(Tick())
                self._after(hand)

    def _do_restart(self, domain: str) -> None:
        if self.sites[domain].state is None:
            hand = self._hand(domain)
            same_clock = self.rng.random() < self.weather.same_clock
            if not same_clock:  # who has lost its clock cannot know how long a promise holds
                self.promises = {key: kept for key, kept in self.promises.items() if key[0] != domain}
            hand.restart(same_clock)
            self._after(hand)
            if self.true_us >= self.weather.calm_us and hand.site.state is not None:
                self._do_calm(domain)

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
            if not calm and rng.random() < weather.slow:
                delay = rng.randrange(1, weather.slowest_us)
            self.at(self.true_us + delay, "message", self.posted[-1])

    def _started(self, site: Site, group: str, run: Run) -> None:
        self.tally.starts += 1
        self.at(self.true_us + self.run_us[site.domain, group], "end", site.domain, group, run.attempt)
        key = (group, run.attempt, run.coordinator)
        starts = self.begun.setdefault(key, {})
        if site.domain in starts:
            raise Broken(f"{site.domain} starts {group} twice in attempt {run.attempt}")
        offsets = self.groups[group]
        starts[site.domain] = self.true_us - offsets.offset_us(site.domain)
        apart = max(starts.values()) - min(starts.values())
        bound = offsets.terms.apart_us(max(offsets.offsets_us))
        self.tally.widest_us = max(self.tally.widest_us, apart)
        if apart > bound:
            raise Broken(f"the starts of {group} are {apart} us apart, more than {bound}")

    # ---- what must never happen ------------------------------------------------------------------------------------

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
        alone = self.true_us - max(self.with_us.get(key, 0), run.started_us)
        self.tally.longest_alone_us = max(self.tally.longest_alone_us, alone)
        if alone > self.groups[group].terms.alone_us():
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
            for group, (_, until_us) in site.reserved.items():
                if site.state is not None and until_us < clock_us:
                    raise Broken(f"{domain} keeps nodes for {group} {clock_us - until_us} us past the lease")
            if len(set(site.reserved) | set(site.running)) > site.room:
                raise Broken(f"{domain} has given out more nodes than it has")

    def _note_promise(self, message: Message) -> None:
        if isinstance(message, Vote) and message.yes:
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


# ---- random worlds ---------------------------------------------------------------------------------------------------


def random_terms(rng: Random) -> Terms:
    """Leases of 10 to 60 s, everything else in proportion."""
    lease = rng.randrange(10, 60) * SECOND
    return Terms(
        lease_us=lease,
        lead_us=rng.choice((SECOND // 10, SECOND, 3 * SECOND)),
        late_us=rng.choice((SECOND // 100, SECOND // 5)),
        round_trip_us=rng.choice((SECOND // 10, SECOND)),
        ask_us=lease // rng.randrange(3, 8),
        retry_us=rng.randrange(2, 10) * SECOND,
        dead_after_us=rng.randrange(60, 400) * SECOND,
        when_dead=rng.choice((START_ALONE, WAIT, WAIT, FAIL)),
        watch_us=rng.choice((WHOLE_RUN, WHOLE_RUN, 0, 20 * SECOND)),
        drift_ppm=rng.choice((100, 500, 2000)),
    )


def random_windows(rng: Random, domains: list[str]) -> tuple[Window, ...]:
    """Sometimes one start after another."""
    if rng.random() < 0.7:
        return ()
    first, second = rng.sample(domains, 2)
    least = rng.randrange(0, 30) * SECOND
    return (Window(first, second, least, least + rng.randrange(0, 60) * SECOND),)


def random_weather(rng: Random, domains: list[str], calm_us: int) -> Weather:
    """From a fine day to a terrible one."""
    cuts = []
    for _ in range(rng.randrange(0, 5)):
        begin = rng.randrange(0, calm_us)
        sender, receiver = rng.sample(domains, 2)
        end = begin + rng.randrange(1, 120 * SECOND)
        cuts.append((begin, end, sender, receiver))
        if rng.random() < 0.5:
            cuts.append((begin, end, receiver, sender))
    return Weather(
        loss=rng.choice((0.0, 0.05, 0.3, 0.6)),
        twice=rng.choice((0.0, 0.1, 0.5)),
        slow=rng.choice((0.0, 0.1, 0.4)),
        usual_us=rng.choice((SECOND // 100, SECOND // 30)),
        slowest_us=rng.choice((SECOND, 30 * SECOND, 90 * SECOND)),
        crash=rng.choice((0.0, 0.01, 0.05, 0.15)),
        outage_us=rng.choice((SECOND, 20 * SECOND, 120 * SECOND)),
        cuts=cuts,
        calm_us=calm_us,
        replay=rng.choice((0.0, 0.0, 0.1)),
        withdraw=rng.choice((0.0, 0.0, 0.2)),
        same_clock=rng.choice((1.0, 1.0, 0.5)),
    )


def random_world(seed: int, forgets: Callable[[Record], bool] = lambda record: False) -> World:
    """Two to four domains with one to three groups between them."""
    rng = Random(seed)
    domains = ["alpha", "beta", "gamma", "delta"][: rng.choice((2, 2, 3, 4))]
    weather = random_weather(rng, domains, rng.randrange(60, 600) * SECOND)
    sites = {name: Site(name, rng.randrange(1, 3), {}, MatesState(name)) for name in domains}
    groups: dict[str, Group] = {}
    while len(groups) < rng.choice((1, 1, 2, 3)):
        name = f"group-{len(groups)}"
        chosen = rng.sample(domains, rng.randrange(2, len(domains) + 1))
        try:
            members = [Member(domain, f"{name}-{domain}") for domain in chosen]
            groups[name] = make_group(name, members, random_terms(rng), random_windows(rng, chosen))
        except InputError:  # windows and terms that do not fit each other
            continue
    least_drift = min(group.terms.drift_ppm for group in groups.values())
    clocks = {
        name: Clock(rng.randrange(0, 10**12), rng.randrange(-least_drift, least_drift + 1)) for name in domains
    }  # fmt: skip
    run_us = {(d, g): rng.choice((5, 60, 300)) * SECOND + rng.randrange(SECOND) for d in domains for g in groups}
    world = World(rng, weather, clocks, sites, groups, run_us, forgets)
    for group in groups.values():
        for domain in group.domains():
            joins = rng.randrange(0, 30 * SECOND)
            world.at(joins, "join", domain, group)
            for _ in range(rng.randrange(1, 12)):
                world.at(joins + rng.randrange(1, weather.calm_us), "ready", domain, group.name)
            if rng.random() < weather.withdraw:
                world.at(joins + rng.randrange(1, weather.calm_us), "withdraw", domain, group.name)
    for domain in domains:
        world.at(weather.calm_us + weather.slowest_us, "calm", domain)
    return world


def settle_us(world: World) -> int:
    """Once the weather is calm everything must be over after this long: the last back-offs, then one group after the
    other where there is room for one only."""
    longest = max(
        group.terms.dead_after_us + 24 * group.terms.retry_us + 3 * group.terms.lease_us
        for group in world.groups.values()
    )
    return world.weather.calm_us + world.weather.slowest_us + world.weather.outage_us + 3600 * SECOND + 8 * longest
