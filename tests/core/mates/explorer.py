"""Every interleaving of a small case: two domains, one group, a few ticks of time.

`python -m tests.core.mates.explorer` prints what it found. The last few messages sent in each direction may arrive at
any later time, in any order, any number of times, or never: that is loss, delay, repetition and reordering at once. The
filter against replays is switched off, so every repetition reaches the protocol. A controller may die before and after
every deed it does (save, order, send), and come back at any later time. Time advances by whole ticks. A clock may jump
ahead by one tick or two, stand still for one (a clock that is set back does), and be lost with a dead controller's
machine, so many times in all.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from hashlib import blake2b

import msgspec

from cohabit.core.mates.state import Heard, Joined, MatesState, Ready, Record, Tick
from cohabit.model.group import WAIT, WHOLE_RUN, Member, Terms, make_group
from cohabit.model.peer import Abort, Commit, Message, Status, Vote, decode, encode
from cohabit.model.units import FOREVER
from tests.core.mates.site import Broken, Hand, Run, Site, finish

NAMES = ("a", "b")
OFFSETS_US = {"a": 0, "b": 1000}  # what the clocks show when true time is 0
GROUP = "g"
TERMS = Terms(
    lease_us=2, lead_us=1, late_us=0, round_trip_us=0, ask_us=1, retry_us=1, dead_after_us=FOREVER // 4,
    absent_after_us=FOREVER // 4, when_dead=WAIT, watch_us=WHOLE_RUN, drift_ppm=0,
)  # fmt: skip

Forgets = Callable[[Record], bool]


class Case(msgspec.Struct):
    """All there is: the two domains, the messages on their way, what the watch remembers."""

    true_us: int
    sites: dict[str, Site]
    net: dict[str, list[bytes]]  # by receiver, in the order they were sent
    link: int  # so many can be on their way in one direction; one more pushes out the oldest
    wakes_us: dict[str, int]
    crashes_left: int
    jumps_left: int
    ahead_us: dict[str, int]  # how far a clock is ahead of where it would be without its jumps
    moved_us: int  # by how much clocks were set in all, forward and back
    stood_us: dict[str, int]  # for how long a clock stood still
    died_us: dict[str, int]  # what the clock of a dead controller last showed it
    lost: list[str]  # sides with a new clock whose leases are still on the old one
    kept: dict[str, tuple[int, int]]  # side -> the last attempt it had nodes for, and since when, in true time
    votes: dict[str, tuple[int, int]]  # voter -> attempt and end of its lease, while bound by a yes
    with_us: dict[str, int]  # side -> the last instant its mate took part in its run
    begun: dict[str, int]  # "attempt side" -> true start


class Found(msgspec.Struct):
    """What an exploration has seen."""

    states: int = 0
    steps: int = 0
    deepest: int = 0
    together: int = 0  # states in which both run
    alone: int = 0  # states in which one runs and the other does not
    dead: int = 0  # states with a dead controller
    longest_alone_us: int = 0
    whole: bool = True  # nothing was left out within the bounds
    broken: str = ""
    path: list[str] = []


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_case = msgspec.msgpack.Decoder(Case)
read = lru_cache(maxsize=None)(decode)


def first_case(terms: Terms, crashes: int, link: int, jumps: int) -> Case:
    """Both jobs submitted and ready, and each side knows that the other is there."""
    group = make_group(GROUP, [Member("a", "job-a"), Member("b", "job-b")], terms)
    sites = {name: Site(name, 1, {GROUP: group}, MatesState(name)) for name in NAMES}
    clocks = (jumps, dict.fromkeys(NAMES, 0), 0, dict.fromkeys(NAMES, 0), {}, [], {})
    case = Case(0, sites, {name: [] for name in NAMES}, link, dict.fromkeys(NAMES, 0), crashes, *clocks, {}, {}, {})
    for name in NAMES:
        _act(case, name, lambda hand: hand.tell(Joined(group)), _keeps, -1)
    for name in NAMES:
        heard = [Heard(read(data)) for data in case.net[name]]
        _act(case, name, lambda hand, heard=heard: hand.tell(*heard), _keeps, -1)
        case.net[name] = []
    for name in NAMES:
        _act(case, name, lambda hand: hand.tell(Ready(GROUP, True)), _keeps, -1)
    return case


def _keeps(record: Record) -> bool:
    return False


def _clock_us(case: Case, name: str) -> int:
    return OFFSETS_US[name] + case.true_us + case.ahead_us[name]


def _act(case: Case, name: str, deed: Callable[[Hand], None], forgets: Forgets, deeds: int) -> bool:
    """One side does something; whether the crash asked for came to pass."""
    site = case.sites[name]
    clock_us = _clock_us(case, name)
    hand = Hand(site, clock_us, case.true_us, deeds, forgets, lambda site, _, run: _note_start(case, site, run))
    deed(hand)
    for message in hand.sent:
        _post(case, message)
    case.wakes_us[name] = min(hand.wake_us, FOREVER) if site.state is not None else FOREVER
    if site.state is None:
        case.died_us.setdefault(name, clock_us)
    else:  # what only filters replays or counts would make equal states look different
        site.state.seq, site.state.seen = 0, {}
        for one in site.state.groups.values():
            one.failures = 0
            for view in one.views.values():
                view.heard_us = 0
    return site.state is None


def _post(case: Case, message: Message) -> None:
    if isinstance(message, Vote) and message.yes:
        case.votes[message.sender] = (message.attempt, message.lease_end_us)
    data = encode(msgspec.structs.replace(message, seq=1))
    link = case.net[message.receiver]
    if data in link:
        link.remove(data)  # it is the latest again
    link.append(data)
    del link[: -case.link]


def _note_start(case: Case, site: Site, run: Run) -> None:
    case.begun[f"{run.attempt} {site.domain}"] = case.true_us
    other = case.begun.get(f"{run.attempt} {'b' if site.domain == 'a' else 'a'}")
    if other is not None and abs(case.true_us - other) > site.groups[GROUP].terms.apart_us() + case.moved_us:
        raise Broken(f"the starts of attempt {run.attempt} are {abs(case.true_us - other)} ticks apart")


# ---- moves -----------------------------------------------------------------------------------------------------------


def moves(case: Case, horizon_us: int) -> Iterator[str]:
    """What can happen next, without the crashes."""
    for name in NAMES:
        if case.sites[name].state is None:
            yield f"restart {name}"
            for by in (-1, 0, 1) if case.jumps_left else ():
                yield f"reboot {name} {by}"
        else:
            for number in range(len(case.net[name])):
                yield f"deliver {name} {number}"
    if case.true_us < horizon_us:
        yield "advance"
    for name in NAMES if case.jumps_left else ():
        yield from (f"jump {name} {by}" for by in (1, 2))
        if case.true_us < horizon_us:
            yield f"stand {name}"


def apply(case: Case, move: str, forgets: Forgets, crash: tuple[str, int]) -> bool:
    """Make a move; the named side dies after so many deeds. False: it did fewer, so there is no such case."""
    what, *about = move.split()
    doomed, deeds = crash
    died = False
    if what in ("restart", "reboot"):
        died = _bring_back(case, what, about, forgets, deeds)
    elif what == "deliver":
        message = read(case.net[about[0]][int(about[1])])
        _note_freed(case, message)
        died = _act(case, message.receiver, lambda hand: hand.tell(Heard(message)), forgets, deeds)
    elif what == "jump":
        _set_clock(case, about[0], int(about[1]))
        died = _pass_time(case, about[0], forgets, deeds)
    else:
        case.true_us += 1
        if what == "stand":
            _set_clock(case, about[0], -1)
        for name in NAMES:
            died = _pass_time(case, name, forgets, deeds if name == doomed else -1) or died
    if died:
        case.crashes_left -= 1
    return died or not doomed


def _set_clock(case: Case, name: str, by_us: int) -> None:
    case.jumps_left -= 1
    case.ahead_us[name] += by_us
    case.moved_us += abs(by_us)
    case.stood_us[name] -= min(by_us, 0)


def _bring_back(case: Case, what: str, about: list[str], forgets: Forgets, deeds: int) -> bool:
    """Start a controller again; after a reboot with another clock, all fuses burnt and no vote to keep."""
    name, site = about[0], case.sites[about[0]]
    if what == "reboot":
        case.jumps_left -= 1
        new_us = max(_clock_us(case, name) + int(about[1]), case.died_us[name] + 1)
        case.ahead_us[name] += new_us - _clock_us(case, name)
        case.lost.append(name)
        case.votes.pop(name, None)
        site.running.pop(GROUP, None)
    epoch = site.epoch
    died = _act(case, name, lambda hand: hand.restart(name not in case.lost), forgets, deeds)
    if site.epoch > epoch and name in case.lost:
        case.lost.remove(name)
    if not died:
        del case.died_us[name]
    return died


def _pass_time(case: Case, name: str, forgets: Forgets, deeds: int) -> bool:
    site, clock_us = case.sites[name], _clock_us(case, name)
    run = site.running.get(GROUP)
    if run is not None and run.fuse_us <= clock_us:
        return _act(case, name, lambda hand: finish(hand, GROUP, burnt=True), forgets, deeds) and deeds >= 0
    if site.state is not None and case.wakes_us[name] <= clock_us:
        return _act(case, name, lambda hand: hand.tell(Tick()), forgets, deeds)
    return False


def _note_freed(case: Case, message: Message) -> None:
    """An abort, the decision, or a sign that the coordinator has gone on, sets a voter free."""
    bound, attempt = case.votes.get(message.receiver, (0, 0))[0], getattr(message, "attempt", 0)
    left = isinstance(message, Status) and message.phase in ("idle", "ready")
    if attempt > bound or (attempt == bound and (isinstance(message, Abort | Commit) or left)):
        case.votes.pop(message.receiver, None)


# ---- what must never happen ------------------------------------------------------------------------------------------


def check(case: Case, found: Found) -> None:
    """Raise Broken if a promise does not hold here."""
    running = {name: site.running[GROUP] for name, site in case.sites.items() if GROUP in site.running}
    found.together += len(running) == 2
    found.alone += len(running) == 1
    found.dead += any(site.state is None for site in case.sites.values())
    for name, run in running.items():
        site, mate = case.sites[name], case.sites["b" if name == "a" else "a"]
        if _takes_part(case, mate, run):
            case.with_us[name] = case.true_us
        alone = case.true_us - max(case.with_us.get(name, 0), run.started_us)
        found.longest_alone_us = max(found.longest_alone_us, alone)
        if alone > site.groups[GROUP].terms.lease_us + case.stood_us[name]:
            raise Broken(f"{name} has run for {alone} ticks without its mate")
    for name in NAMES:
        if name not in running:
            case.with_us.pop(name, None)
    _check_reservations(case)


def _takes_part(case: Case, mate: Site, run: Run) -> bool:
    other, record = mate.running.get(GROUP), mate.record(GROUP)
    if other is not None and other.attempt == run.attempt:
        return True
    still = _clock_us(case, mate.domain) <= record.start_at_us
    return record.phase == "committed" and record.attempt == run.attempt and still


def _check_reservations(case: Case) -> None:
    for name, site in case.sites.items():
        clock_us = _clock_us(case, name)
        if site.state is not None and site.reserved.get(GROUP, (0, FOREVER))[1] < clock_us:
            raise Broken(f"{name} keeps nodes past its lease")
        if GROUP in site.reserved:
            _check_kept(case, site, site.reserved[GROUP][0])
        attempt, until_us = case.votes.get(name, (0, 0))
        if clock_us >= until_us:
            case.votes.pop(name, None)
        elif site.state is not None and site.reserved.get(GROUP, (0, 0))[0] != attempt:
            raise Broken(f"{name} voted yes and has given its nodes away")


def _check_kept(case: Case, site: Site, attempt: int) -> None:
    """In true time, across restarts."""
    known, since_us = case.kept.get(site.domain, (0, 0))
    if known != attempt:
        since_us = case.true_us
        case.kept[site.domain] = (attempt, since_us)
    if case.true_us - since_us > site.groups[GROUP].terms.lease_us + case.stood_us[site.domain]:
        raise Broken(f"{site.domain} keeps nodes for {case.true_us - since_us} ticks")


# ---- breadth first ---------------------------------------------------------------------------------------------------


def explore(
    horizon_us: int = 6, crashes: int = 1, link: int = 3, forgets: Forgets = _keeps,
    most: int = 10**9, terms: Terms = TERMS, jumps: int = 0,
) -> Found:  # fmt: skip
    """All states reachable within the horizon, the shortest way to a broken promise if there is one."""
    found, start = Found(), first_case(terms, crashes, link, jumps)
    seen: dict[bytes, tuple[bytes, str]] = {}
    queue: deque[tuple[bytes, bytes, int]] = deque()
    _enter(start, b"", "", 0, seen, queue)
    while queue:
        data, key, depth = queue.popleft()
        found.states, found.deepest = found.states + 1, max(found.deepest, depth)
        if len(seen) > most:
            found.whole = False
            return found
        for move in moves(_case.decode(data), horizon_us):
            for crash in _crashes(_case.decode(data), move):
                for deeds in range(64):
                    case = _case.decode(data)
                    label = move if not crash else f"{move}, {crash} dies after {deeds} deeds"
                    try:
                        if not apply(case, move, forgets, (crash, deeds if crash else -1)):
                            break  # it did not do so much
                        found.steps += 1
                        check(case, found)
                    except Broken as error:
                        found.broken, found.path = str(error), [*_path(seen, key), label]
                        return found
                    _enter(case, key, label, depth + 1, seen, queue)
                    if not crash:
                        break
    return found


def _crashes(case: Case, move: str) -> list[str]:
    """Nobody, or one of those who may act in this move, if there are crashes left."""
    if not case.crashes_left:
        return [""]
    what, *about = move.split()
    if about and what != "stand":
        return ["", about[0]]
    return ["", *(n for n in NAMES if case.sites[n].state is not None)]


def _enter(
    case: Case, origin: bytes, label: str, depth: int, seen: dict[bytes, tuple[bytes, str]],
    queue: deque[tuple[bytes, bytes, int]],
) -> None:  # fmt: skip
    data = _encode(case)
    key = blake2b(data, digest_size=12).digest()
    if key not in seen:
        seen[key] = (origin, label)
        queue.append((data, key, depth))


def _path(seen: dict[bytes, tuple[bytes, str]], key: bytes) -> list[str]:
    found: list[str] = []
    while key:
        key, label = seen[key]
        found.append(label)
    return found[-2::-1]


def main() -> int:
    """Explore, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=6, help="how far time goes")
    parser.add_argument("--crashes", type=int, default=1, help="how many times a controller may die")
    parser.add_argument("--jumps", type=int, default=0, help="how many times a clock may jump, stand still or be lost")
    parser.add_argument("--link", type=int, default=3, help="how many messages may be on their way in one direction")
    parser.add_argument("--most", type=int, default=10**9, help="stop at so many states")
    options = parser.parse_args()
    begun = time.perf_counter()
    found = explore(options.ticks, options.crashes, options.link, most=options.most, jumps=options.jumps)
    bounds = {"ticks": options.ticks, "crashes": options.crashes, "jumps": options.jumps, "link": options.link}
    about = bounds | {"seconds": round(time.perf_counter() - begun, 1)}
    sys.stdout.write(json.dumps(about | msgspec.to_builtins(found)) + "\n")
    return 1 if found.broken else 0


if __name__ == "__main__":
    sys.exit(main())
