"""Several simulated clusters in one simulation: each a world with a core of its own, joined only by messages.

Messages travel with a latency and may be lost or doubled. Within one instant they are delivered before anything else
happens, so that with no latency a question and its answer take no time. It must never carry anything between domains
but messages.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from cohabit.core.columns import HOLDING, NODES, RUNNING, STARTING, STATE
from cohabit.core.mates import deadlock
from cohabit.core.mates.deadlock import MateReport
from cohabit.model.command import TellPeer
from cohabit.model.event import PeerReported
from cohabit.model.group import Terms
from cohabit.model.peer import Message
from cohabit.model.units import DAY, FOREVER, HOUR, SECOND
from cohabit.sim.streams import stream
from cohabit.sim.world import World

QUIET_INSTANTS = 20_000  # wakes in a row without a start or anything else pending: no job will start any more


@dataclass(frozen=True)
class Link:
    """Delays and losses of messages."""

    latency_us: int = 0
    jitter_us: int = 0  # maximum extra latency
    loss: float = 0.0
    duplicate: float = 0.0

    @property
    def reliable(self) -> bool:
        """Return whether every message arrives, at once and in order."""
        return not (self.loss or self.duplicate or self.jitter_us)


def fitting_terms(link: Link, when_dead: str = "wait", common_clock: bool = True, steady: bool = True) -> Terms:
    """Return terms for groups on this link: as few questions as it allows, since each costs a simulated event.

    `steady`: no controller is ever dead and no start refused, so that only news from a mate is a reason to try again.
    """
    trip_us = 2 * (link.latency_us + link.jitter_us)
    if link.reliable and steady:
        times = {
            "lease_us": DAY,
            "lead_us": link.latency_us,
            "late_us": 0,
            "round_trip_us": trip_us,
            "ask_us": 6 * HOUR,
            "patience_us": 2 * trip_us + 1,
            "retry_us": HOUR,
            "dead_after_us": 10 * DAY,
        }
    else:
        times = {
            "lease_us": max(60 * SECOND, 20 * trip_us),
            "lead_us": 2 * trip_us,
            "late_us": max(SECOND // 20, trip_us),
            "round_trip_us": max(trip_us, SECOND // 20),
            "ask_us": max(10 * SECOND, 3 * trip_us),
            "patience_us": 3 * trip_us + SECOND,
            "dead_after_us": DAY,
        }
    times |= {"absent_after_us": 365 * DAY, "give_up_us": 365 * DAY}
    return Terms(**times, when_dead=when_dead, watch_us=0, common_clock=common_clock)


def _release_us(world: World) -> int:
    coupled = world.core.state.coupled
    return 0 if coupled is None else coupled.scheme.release_us


@dataclass
class CoupledWorlds:
    """Drives several worlds on one true clock."""

    worlds: dict[str, World]
    link: Link = field(default_factory=Link)
    seed: int = 0
    clock_offset_us: dict[str, int] = field(default_factory=dict)
    deadlock: list[str] = field(default_factory=list)  # groups that wait for each other in a circle, at the end
    messages: int = 0
    now_us: int = 0
    _mail: list[tuple[int, int, Message]] = field(default_factory=list)
    _counter: int = 0

    def __post_init__(self) -> None:
        self._random = stream(self.seed, "link")
        for name, world in self.worlds.items():
            world.mail = self._post
            world.clock_offset_us = self.clock_offset_us.get(name, 0)

    @property
    def events(self) -> int:
        """Return the number of events and messages passed to the cores."""
        return self.messages + sum(world.events for world in self.worlds.values())

    def run(self, progress: Callable[[int], None] | None = None, until_us: int = FOREVER) -> None:
        """Run until no event is left, or no job will start any more."""
        quiet, instants, since_us, patience_us = 0, 0, 0, self._longest_patience_us()
        while quiet < QUIET_INSTANTS and self.now_us <= since_us + patience_us:
            started = self._started()
            if not self.advance(until_us):
                break
            busy = any(world.busy for world in self.worlds.values())
            quiet, since_us = (0, self.now_us) if busy or self._started() != started else (quiet + 1, since_us)
            instants += 1
            if progress is not None and instants % 256 == 0:
                progress(self.events)
        self.deadlock = self.find_deadlock()

    def advance(self, until_us: int = FOREVER) -> bool:
        """Deliver arrived messages, or advance one world; return False if nothing is left before `until_us`."""
        world = min(self.worlds.values(), key=lambda one: (one.next_us, one.only_wakes))
        mail_us = self._mail[0][0] if self._mail else FOREVER
        now = min(mail_us, world.next_us)
        if now >= min(until_us, FOREVER):
            return False
        self.now_us = now
        if mail_us <= now:
            _, _, message = heapq.heappop(self._mail)
            receiver = self.worlds[message.receiver]
            receiver.now_us = now
            self.messages += 1
            receiver.hear(PeerReported(message))
            return True
        return world.advance()

    def find_deadlock(self) -> list[str]:
        """Return the groups that wait for each other's nodes in a circle, in its order; empty if there is none."""
        return deadlock.find_deadlock(*self.reports())

    def reports(self) -> tuple[list[MateReport], dict[str, int]]:
        """Return each domain's report of its waiting jobs with mates, and its number of idle nodes."""
        found, free = [], {}
        for name, world in self.worlds.items():
            state = world.core.state
            free[name] = state.idle_count
            for job_id, row in state.rows.items():
                group, where = state.spec(row).mates, state.jobs[STATE, row]
                if group is None or where in (STARTING, RUNNING):
                    continue
                how = deadlock.HOLDING if where == HOLDING else deadlock.QUEUED
                found.append(MateReport(name, job_id, group.name, how, int(state.jobs[NODES, row])))
        return found, free

    def _longest_patience_us(self) -> int:
        """Return the time after which every timer has expired, if there is no run, no submission and no start."""
        terms = [
            job.job.mates.terms for world in self.worlds.values() for job in world.jobs if job.job.mates is not None
        ]
        waits = [max(one.dead_after_us, one.retry_us << 5) + 3 * one.ask_us for one in terms]
        return max([*waits, *(4 * _release_us(world) for world in self.worlds.values())], default=0) + DAY

    def _started(self) -> int:
        return sum(world.starts for world in self.worlds.values())

    def _post(self, command: TellPeer) -> None:
        copies = 1
        if self.link.loss or self.link.duplicate:
            copies = int(self._random.random() >= self.link.loss)
            copies += int(copies and self._random.random() < self.link.duplicate)
        for _ in range(copies):
            delay_us = self.link.latency_us
            if self.link.jitter_us:
                delay_us += int(self._random.integers(0, self.link.jitter_us + 1))
            self._counter += 1
            heapq.heappush(self._mail, (self.now_us + delay_us, self._counter, command.message))
