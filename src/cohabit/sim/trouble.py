"""What goes wrong in a simulated domain besides its nodes: owners cancel, starts are refused, its controller is dead.

While a controller is dead its runs go on (their fuses burn), messages to it are lost, and whatever else happens is told
when it is back: first that it was restarted, as a live controller does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cohabit.model.event import Event, JobCancelled, Recovered, StartRefused

REFUSED = "the nodes could not start it"


@dataclass
class Trouble:
    """The trouble of one domain, in true time."""

    cancelled: tuple[tuple[int, str], ...] = ()  # (when, job)
    refused: dict[str, int] = field(default_factory=dict)  # job -> its first start from then on is refused
    dead: tuple[tuple[int, int], ...] = ()  # (from, until): its controller
    _untold: list[Event] = field(default_factory=list, init=False)

    def anew(self) -> Trouble:
        """Return the same trouble, of which nothing has happened yet."""
        return Trouble(self.cancelled, dict(self.refused), self.dead)

    def facts(self) -> Iterator[tuple[int, Event]]:
        """Yield what is known beforehand."""
        yield from ((at_us, JobCancelled(job)) for at_us, job in self.cancelled)
        yield from ((until_us, Recovered()) for _, until_us in self.dead)

    def is_dead(self, now_us: int) -> bool:
        """Return whether the controller is dead at this instant."""
        return any(begin_us <= now_us < until_us for begin_us, until_us in self.dead)

    def told(self, now_us: int, events: list[Event]) -> list[Event]:
        """Return what the core is told now of what happens now, and happened while its controller was dead."""
        if self.is_dead(now_us):
            self._untold += events
            return []
        told, self._untold = [*self._untold, *events], []
        return sorted(told, key=lambda one: not isinstance(one, Recovered))

    def refuse(self, now_us: int, job_id: str, attempt: int) -> StartRefused | None:
        """Return the refusal of this start, if it is to be refused; the next one is not."""
        if self.refused.get(job_id, now_us + 1) > now_us:
            return None
        del self.refused[job_id]
        return StartRefused(job_id, attempt, REFUSED)
