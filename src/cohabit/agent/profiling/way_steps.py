"""Run a program once while its cache ways change: a class of service of its own, and other ways every few seconds.

The group has a name of its own, so the agent that divides the cache among jobs counts it as foreign and leaves it
alone. It is removed after the run; a group that a killed profiler left is removed by the next. If resctrl refuses, an
InputError is raised before the program starts.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

from cohabit.agent.launch.process import Ended, Request, launch
from cohabit.agent.profiling.episodes import Episode, Tour
from cohabit.agent.resctrl.files import Files, remove_stale, total_traffic
from cohabit.agent.resctrl.offer import ResctrlOffer
from cohabit.agent.resctrl.schemata import Run, mask_of, parse, text_of
from cohabit.agent.sensors.source import Source
from cohabit.model.errors import InputError

PREFIX = "cohabit.profile."
_numbers = count()
Amounts = Mapping[str, float]


class WayGroup:
    """A class of service for one run."""

    def __init__(self, files: Files, offer: ResctrlOffer) -> None:
        assert offer.cache is not None, "the cache cannot be divided here"
        self.files, self.cache = files, offer.cache
        remove_stale(files, offer.root, PREFIX)
        self.place = offer.root / f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        try:
            files.make(self.place)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(
                f"no group of its own can be made in resctrl: {reason}",
                str(offer.root),
                "give back a class of service, or run as root",
            ) from error
        self.ways = self.cache.private.ways

    def enter(self, pid: int) -> None:
        """Put the program and all it forks into the group."""
        self.files.write(self.place / "tasks", f"{pid}\n")

    def give(self, ways: int) -> None:
        """Give this many ways in every domain, from the lowest private one; OSError if the kernel refuses."""
        mask = mask_of(Run(self.cache.private.first, ways))
        wanted = {name: dict.fromkeys(self.cache.domains, mask) for name in self.cache.resources}
        self.files.write(self.place / "schemata", text_of(wanted))
        shown = parse(self.files.read(self.place / "schemata"))
        if any(shown.get(name, {}).get(domain) != mask for name in wanted for domain in self.cache.domains):
            raise OSError(5, f"the group does not show the mask {mask:x} it was given")

    def close(self) -> None:
        """Remove the group; processes still in it fall back to the root group."""
        with contextlib.suppress(OSError):
            self.files.remove(self.place)


def curve_run(
    request: Request, tour: Tour, group: WayGroup, counters: Source | None, folder: Path, limit_s: float
) -> tuple[Ended, list[Episode]]:
    """Run the program in the group; return the complete episodes, going through the tour again and again."""
    with launch(request) as running:
        group.enter(running.pid)
        watch = None if counters is None else counters.watch(running.pid, folder)
        began_s = time.monotonic()

        def sample() -> Amounts:
            return {**({} if watch is None else watch.sample()), **total_traffic(group.files, group.place)}

        def over(seconds: float) -> bool:
            left_s = began_s + limit_s - time.monotonic()
            return running.wait(min(seconds, max(left_s, 0.0))) is not None or left_s <= seconds

        try:
            running.release()
            episodes = step_through(tour, group.give, sample, over, time.monotonic)
            return running.ended or running.stop(), episodes
        except OSError as error:
            raise InputError(
                f"the cache cannot be stepped: {error.strerror or error}", str(group.place), "see `cohabit doctor`"
            ) from error
        finally:
            if watch is not None:
                watch.stop()


def step_through(
    tour: Tour,
    give: Callable[[int], None],
    sample: Callable[[], Amounts],
    over: Callable[[float], bool],
    clock: Callable[[], float],
) -> list[Episode]:
    """Step until `over` (which waits this many seconds) says that the program has ended; drop an incomplete episode."""
    found: list[Episode] = []
    while True:
        for ways in tour.ways:
            give(ways)
            if over(tour.settle_s):
                return found
            since_s, before = clock(), sample()
            if over(tour.episode_s - tour.settle_s):
                return found
            after = sample()
            amounts = {
                name: after[name] - before[name] for name in after if after[name] >= before.get(name, after[name])
            }
            found.append(Episode(ways, clock() - since_s, amounts))
