"""One domain around the protocol, as plain data: its store, its scheduler, its executor. Everything can be lost but the
store and the executor's runs. Used by the random campaign and by the exhaustive explorer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from cohabit.core.mates.protocol import step
from cohabit.core.mates.state import (
    Ended,
    FailMate,
    Input,
    Joined,
    MatesState,
    Order,
    Outcome,
    Record,
    Recovered,
    Release,
    Renew,
    Reserve,
    Reserved,
    StartFailed,
    StartMate,
    Stored,
    reloaded,
)
from cohabit.model.group import Group
from cohabit.model.peer import Message

_record = msgspec.msgpack.Decoder(Record)


class Broken(AssertionError):
    """Something the protocol promises did not hold."""


class Run(msgspec.Struct):
    """A job the executor runs; `coordinator` names the attempt together with its number."""

    attempt: int
    coordinator: str
    fuse_us: int
    started_us: int  # true time


class Site(msgspec.Struct):
    """A domain with room for so many jobs."""

    domain: str
    room: int
    groups: dict[str, Group]
    state: MatesState | None
    epoch: int = 1
    records: dict[str, bytes] = {}
    reserved: dict[str, tuple[int, int]] = {}  # group -> (attempt, until); lives with the controller
    running: dict[str, Run] = {}
    begun: dict[str, int] = {}  # the latest attempt that was started
    ended: dict[str, tuple[int, str]] = {}  # the attempt in which a job ran to its end
    failed: list[str] = []
    willing: bool = True  # whether the scheduler finds nodes where there is room

    def record(self, group: str) -> Record:
        """What the store says."""
        return _record.decode(self.records[group]) if group in self.records else Record()


class Crash(Exception):
    """The controller dies here."""


class Hand:
    """Carries out what a site's protocol says, and may kill its controller between any two deeds."""

    def __init__(
        self,
        site: Site,
        clock_us: int,
        true_us: int,
        deeds_left: int = -1,
        forgets: Callable[[Record], bool] = lambda record: False,
        on_start: Callable[[Site, str, Run], None] = lambda site, group, run: None,
    ) -> None:
        self.site, self.clock_us, self.true_us, self.deeds_left = site, clock_us, true_us, deeds_left
        self.forgets, self.on_start = forgets, on_start
        self.sent: list[Message] = []
        self.wake_us = 0
        self.refused: list[str] = []

    def restart(self, same_clock: bool = True) -> None:
        """Bring the controller back from its store, and let the executor report what happened meanwhile."""
        site = self.site
        groups = {name: (site.groups[name], site.record(name)) for name in site.records}
        site.state = reloaded(Stored(site.domain, site.epoch, groups))
        missing = [Joined(group) for name, group in site.groups.items() if name not in site.records]
        self.tell(Recovered(same_clock), *self._reports(), *missing)

    def _reports(self) -> list[Input]:
        """Runs that were over before the restarted controller knew of it."""
        found: list[Input] = []
        for name in self.site.records:
            kept = self.site.record(name)
            if name in self.site.ended:
                found.append(Ended(name, self.site.ended[name][0]))
            elif kept.phase in ("running", "free") and name not in self.site.running:
                begun = self.site.begun.get(name, 0) == kept.attempt
                why = "the executor knows no such run"
                found.append(Ended(name, kept.attempt, True) if begun else StartFailed(name, kept.attempt, why))
        return found

    def tell(self, *told: Input) -> None:
        """Deal with inputs, and with what the scheduler and the executor say to the orders."""
        waiting = list(told)
        try:
            while waiting and self.site.state is not None:
                self._point()
                outcome = step(self.site.state, self.clock_us, waiting.pop(0))
                waiting += self._carry_out(outcome)
        except Crash:
            self.die()

    def die(self) -> None:
        """All that is not in the store or in the executor is gone."""
        self.site.state = None
        self.site.reserved = {}

    def _point(self) -> None:
        if self.deeds_left == 0:
            raise Crash
        self.deeds_left -= 1

    def _carry_out(self, outcome: Outcome) -> list[Input]:
        site = self.site
        assert site.state is not None
        self._save(outcome)
        answers: list[Input] = []
        for order in outcome.orders:
            self._point()
            answers += self._obey(order)
        for message in outcome.messages:
            self._point()
            self.sent.append(message)
        self.refused += outcome.refused
        self.wake_us = outcome.wake_us
        return answers

    def _save(self, outcome: Outcome) -> None:
        site = self.site
        assert site.state is not None
        if outcome.save_epoch:
            site.epoch = site.state.epoch
        for name in outcome.save:
            record = site.state.groups[name].record
            if not self.forgets(record):
                site.records[name] = msgspec.msgpack.encode(record)
        if outcome.save:
            self._point()

    def _obey(self, order: Order) -> list[Input]:
        site, group = self.site, order.group
        match order:
            case Reserve():
                return [self._reserve(order)]
            case Release():
                if site.reserved.get(group, (0, 0))[0] <= order.attempt:
                    site.reserved.pop(group, None)
            case StartMate():
                return self._start(order)
            case Renew():
                run = site.running.get(group)
                if run is not None and run.attempt == order.attempt and self.clock_us < run.fuse_us:
                    run.fuse_us = order.fuse_us
            case FailMate():
                site.reserved.pop(group, None)
                site.failed.append(group)
            case _:  # stop
                run = site.running.get(group)
                if run is not None and run.attempt <= order.attempt:
                    del site.running[group]
                site.reserved.pop(group, None)
        return []

    def _reserve(self, order: Reserve) -> Reserved:
        site, group = self.site, order.group
        if group in site.ended:  # the scheduler knows before the protocol is told
            return Reserved(group, order.attempt, False, "the job has had its run")
        taken = len(set(site.reserved) | set(site.running)) - (group in site.reserved)
        again = self.site.begun.get(group, 0) < order.attempt and site.record(group).phase in ("voted", "committed")
        if (site.willing or again) and taken < site.room and group not in site.running:
            site.reserved[group] = (order.attempt, order.until_us)
            return Reserved(group, order.attempt, True)
        return Reserved(group, order.attempt, False, "no nodes")

    def _start(self, order: StartMate) -> list[Input]:
        site, group = self.site, order.group
        if site.begun.get(group, 0) >= order.attempt:
            return []  # the same order again
        if group in site.running or group in site.ended:
            raise Broken(f"{site.domain} starts {group} twice")
        if site.reserved.get(group, (0, 0))[0] != order.attempt:
            raise Broken(f"{site.domain} starts {group} on nodes that are not reserved for it")
        del site.reserved[group]
        assert site.state is not None
        run = Run(order.attempt, site.state.groups[group].record.coordinator, order.fuse_us, self.true_us)
        site.running[group], site.begun[group] = run, order.attempt
        self.on_start(site, group, run)
        return []


def finish(hand: Hand, group: str, *, burnt: bool) -> None:
    """The executor's run is over: to its end, or stopped by its fuse. A dead controller hears of it when it is back."""
    site = hand.site
    run = site.running.pop(group)
    if not burnt:
        site.ended[group] = (run.attempt, run.coordinator)
    hand.tell(Ended(group, run.attempt, burnt))
