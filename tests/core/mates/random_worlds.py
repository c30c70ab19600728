"""Random worlds for the campaign, from a fine day to a terrible one. Everything follows from the seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from cohabit.core.mates.state import MatesState, Record
from cohabit.model.errors import InputError
from cohabit.model.group import FAIL, START_ALONE, WAIT, WHOLE_RUN, Group, Member, Terms, Window, make_group
from cohabit.model.units import SECOND
from tests.core.mates.clocks import Clock
from tests.core.mates.site import Site
from tests.core.mates.world import FARTHEST_US, Weather, World

FASTEST_PPM = 83_333  # chrony slews a clock by up to this; ntpd and the kernel by 500


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
        blackout=rng.choice((0.0, 0.0, 0.1, 0.5)),
        worst_ppm=rng.choice((0, 0, 0, FASTEST_PPM)),
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
    drift = max(min(group.terms.drift_ppm for group in groups.values()), weather.worst_ppm)
    clocks = {name: Clock(rng.randrange(0, 10**12), rng.randrange(-drift, drift + 1)) for name in domains}
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
        spoil_clock(world, domain, drift)
        world.at(weather.calm_us + weather.slowest_us, "calm", domain)
    return world


def spoil_clock(world: World, domain: str, drift_ppm: int) -> None:
    """Let a clock jump or change its rate, and its machine stand still, a few times or never."""
    rng, calm_us = world.rng, world.weather.calm_us
    for _ in range(rng.choice((0, 0, 1, 4))):
        by_us = rng.choice((0, 1, -1)) * rng.choice((SECOND, FARTHEST_US))
        by_us = rng.randrange(min(by_us, 0), max(by_us, 0) + 1)
        world.at(rng.randrange(1, calm_us), "jump", domain, by_us, rng.randrange(-drift_ppm, drift_ppm + 1))
    for _ in range(rng.choice((0, 0, 0, 2))):
        for_us = rng.randrange(1, FARTHEST_US + 1)
        world.at(rng.randrange(1, calm_us), "sleep", domain, for_us, rng.random() < 0.5)


def settle_us(world: World) -> int:
    """Once the weather is calm everything must be over after this long: the last back-offs, then one group after the
    other where there is room for one only."""
    longest = max(
        group.terms.dead_after_us + 24 * group.terms.retry_us + 3 * group.terms.lease_us
        for group in world.groups.values()
    )
    return world.weather.calm_us + world.weather.slowest_us + world.weather.outage_us + 3600 * SECOND + 8 * longest
