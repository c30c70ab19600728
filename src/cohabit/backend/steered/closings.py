"""Reservations and maintenance of the manager, as windows for the core: what was told, and what has changed.

Our jobs name no reservation, so the manager starts none of them where it would run into one. A reservation of part of a
node closes the whole node to our jobs. It runs no command.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cohabit.backend.steered.shapes import ManagerWindow
from cohabit.model.cluster import Window
from cohabit.model.event import WindowCleared, WindowSet
from cohabit.model.texts import one_line
from cohabit.model.units import SECOND, microseconds

EARLIER_S = 5.0  # before the manager's begin: a job that we order now begins a little later
SLACK_US = 60 * SECOND  # a reservation that keeps its distance from now is told anew once a minute
LONGEST = 60  # characters of a name


class Closings:
    """The windows that the core was told. `number`: the steered nodes by their names."""

    def __init__(self, title: str, number: Mapping[str, int]) -> None:
        self._prefix, self._number = f"{title.lower().replace(' ', '-')}:", number
        self.told: dict[str, WindowSet] = {}

    def recall(self, windows: Mapping[str, Sequence[Window]]) -> None:
        """Take over the manager's windows among those that a restored core has."""
        for name, parts in windows.items():
            if name.startswith(self._prefix):
                nodes = tuple((one.first, one.count) for one in parts)
                self.told[name] = WindowSet(name, parts[0].begin_us, parts[0].end_us, nodes)

    def look(self, found: Iterable[ManagerWindow]) -> list[WindowSet | WindowCleared]:
        """Return what has changed since the last look."""
        now = {one.name: one for one in (self._window(window) for window in found) if one.nodes}
        facts: list[WindowSet | WindowCleared] = [WindowCleared(name) for name in self.told if name not in now]
        facts += [one for name, one in now.items() if not _same(self.told.get(name), one)]
        self.told = {name: self.told[name] if _same(self.told.get(name), one) else one for name, one in now.items()}
        return facts

    def _window(self, window: ManagerWindow) -> WindowSet:
        numbers = sorted({self._number[name] for name in window.nodes if name in self._number})
        begin_us = microseconds(window.begin_s - EARLIER_S)
        name = self._prefix + one_line(window.name, LONGEST)
        return WindowSet(name, begin_us, max(microseconds(window.end_s), begin_us + 1), _ranges(numbers))


def _same(told: WindowSet | None, now: WindowSet) -> bool:
    """Whether nothing has changed, or begin and end have moved on a little together."""
    if told is None or told.nodes != now.nodes:
        return False
    moved_us = now.begin_us - told.begin_us
    return 0 <= moved_us < SLACK_US and moved_us == now.end_us - told.end_us


def _ranges(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and sum(found[-1]) == number:
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((number, 1))
    return tuple(found)
