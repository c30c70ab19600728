"""Meters of what runs have used, and the amounts between two readings.

The meter of the local back end asks its launcher, because counting other users' processes takes rights. What the host
does not offer is absent; `cohabit doctor` says what would change that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cohabit.agent.sensors.summary import Sample, columns_of, summarise
from cohabit.backend.protocol import BackendError
from cohabit.model.counters import COUNTERS
from cohabit.model.profile import Profile

if TYPE_CHECKING:
    from cohabit.backend.local.executor import LocalBackend

MOST_READINGS = 1000  # of a run that are kept
Amounts = Mapping[str, float]


class Meter(Protocol):
    """Read what runs of the back end have used."""

    def begin(self, job_id: str, attempt: int) -> None:
        """Attach the counters to a run that has begun; may fail with OSError."""
        ...

    def sample(self, job_id: str, attempt: int) -> Amounts:
        """Return amounts so far and levels, by the names of model/counters.py; empty if nothing can be read."""
        ...

    def lasted_s(self, job_id: str, attempt: int) -> float | None:
        """Return how long a finished run took, if that is recorded."""
        ...

    def end(self, job_id: str, attempt: int) -> None:
        """Release the counters of a run."""
        ...


class LocalMeter:
    """The meter of the runs of this back end. Called in threads."""

    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend

    def begin(self, job_id: str, attempt: int) -> None:
        """Attach to the present processes."""
        self._ask("meter_begin", job_id, attempt)

    def sample(self, job_id: str, attempt: int) -> Amounts:
        """Return the amounts so far."""
        found = self._ask("meter_sample", job_id, attempt)
        return found if isinstance(found, dict) else {}

    def lasted_s(self, job_id: str, attempt: int) -> float | None:
        """Return the time its runner recorded."""
        return self._backend.lasted.get((job_id, attempt))

    def end(self, job_id: str, attempt: int) -> None:
        """Do nothing: the launcher releases a run when it ends."""

    def _ask(self, op: str, job_id: str, attempt: int) -> object:
        try:
            return self._backend.link.ask_from_thread(op, job=job_id, attempt=attempt)
        except BackendError:
            return None


class ManagerMeter:
    """The meter of runs under a resource manager: their time by its own clock, and no counters."""

    def __init__(self, lasted: Mapping[tuple[str, int], float]) -> None:
        self._lasted = lasted

    def begin(self, job_id: str, attempt: int) -> None:
        """Do nothing: the manager keeps the time."""

    def sample(self, job_id: str, attempt: int) -> Amounts:
        """Return nothing: what a run uses is counted on its nodes."""
        return {}

    def lasted_s(self, job_id: str, attempt: int) -> float | None:
        """Return the time from the start to the end that the manager reported."""
        return self._lasted.get((job_id, attempt))

    def end(self, job_id: str, attempt: int) -> None:
        """Do nothing: the back end forgets a run that is settled."""


class Reading(NamedTuple):
    """The amounts a run had used at an instant."""

    at_s: float
    amounts: Amounts


class Counted(NamedTuple):
    """The amounts a run has used in some seconds."""

    seconds: float
    amounts: Amounts


class Readings:
    """All readings of a run; of a long one every second is dropped again and again."""

    def __init__(self) -> None:
        self._samples: list[Sample] = []

    def add(self, found: Reading) -> None:
        """Keep a reading; one without amounts says nothing."""
        if found.amounts:
            self._samples.append((found.at_s, found.amounts))
        if len(self._samples) > MOST_READINGS:
            del self._samples[1::2]

    def columns(self) -> dict[str, float]:
        """Return mean, lowest, highest and deviation of every counter, as profiles keep them."""
        return columns_of(summarise(self._samples, "", 0.0))


def counted_between(before: Reading | None, after: Reading | None) -> Counted:
    """Return what was counted between two readings; a counter that was reset is left out."""
    if before is None or after is None:
        return Counted(0.0, {})
    amounts = {
        name: amount - before.amounts[name]
        for name, amount in after.amounts.items()
        if name in before.amounts and amount >= before.amounts[name] and COUNTERS[name].kind == "amount"
    }
    return Counted(after.at_s - before.at_s, amounts)


def progress_of(counted: Counted, profile: Profile | None) -> float | None:
    """Return the speed relative to running alone: instructions per second, or else processor time per second.

    Processor time shows that a job shares cores, not that it waits for memory: then it is an upper bound. None: nothing
    was counted, or the program was never counted alone.
    """
    alone = None if profile is None else profile.at_scale(1)
    if alone is None or counted.seconds <= 0:
        return None
    for name in ("instructions", "task_clock"):
        base = alone.counters.get(f"{name}_mean", 0.0)
        if base > 0 and name in counted.amounts:
            return counted.amounts[name] / counted.seconds / base
    return None
