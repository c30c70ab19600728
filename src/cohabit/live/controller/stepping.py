"""One batch in the controller's worker thread: admission, then the journal, then the core and the records.

This module owns the core. Only events in the journal are told to the core, and only what the core was told is answered.
An entry that fails before its batch is in the journal is refused alone. Where the core raises on a batch that is in the
journal, the core is rebuilt from checkpoint and journal, without the events on which it raises (`mend`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from cohabit.backend.protocol import Launch
from cohabit.core import checkpoint
from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import PolicySet
from cohabit.core.succession import living_of
from cohabit.live.controller import recovery
from cohabit.live.controller.admission import Admission
from cohabit.live.controller.inbox import Entry
from cohabit.live.controller.journal import Checkpoint, Journal, JournalError, LeftOut
from cohabit.live.controller.recovery import Restored
from cohabit.live.controller.refusals import CannotTake
from cohabit.live.controller.telling import CoreFailed, reason_of, tell
from cohabit.model.cluster import Cluster
from cohabit.model.command import Command, StartJob
from cohabit.model.errors import InputError
from cohabit.model.event import Event, JobSubmitted

log = logging.getLogger(__name__)
Refused = list[tuple[Entry, InputError]]


class Turn(NamedTuple):
    """The result of a batch. `entries` are the entries the core was told of."""

    entries: list[Entry]
    refused: Refused
    commands: Sequence[Command] = ()
    launches: Mapping[str, Launch] = MappingProxyType({})  # of the jobs that start
    lost: Sequence[Event] = ()  # observed events that were left out


class OneByOne(Exception):
    """These entries cannot be handled together, and none of them was: each is to be tried alone."""


class Stepper:
    """Handles batches in one thread. `broken`: the core must not be used until `mend` has succeeded."""

    def __init__(self, journal: Journal, restored: Restored, now_us: Callable[[], int]) -> None:
        self._journal, self._now_us = journal, now_us
        self.core, self.recorder, self.last_us = restored.core, restored.recorder, restored.last_us
        self.since_checkpoint = restored.batches
        self.left_out = _count(journal.left_out())  # events, in all of this journal
        self._watchers: list[Callable[[SchedulerCore], None]] = []
        self._unfinished: tuple[int, list[Entry], Refused] | None = None

    @property
    def broken(self) -> bool:
        """True if the journal has a batch that the core has not handled."""
        return self._unfinished is not None

    def step(self, entries: Sequence[Entry]) -> Turn:
        """Handle these entries. JournalError: none of them was written; OneByOne: none was, try each alone; CoreFailed:
        they are written, and `mend` goes on."""
        try:
            whole, refused = self._admitted(entries)
            if not whole:
                return Turn([], refused)
            now_us = max(self._now_us(), self.last_us)
            events = [event for one in whole for event in one.events]
            seq = self._journal.append(now_us, events, _launches(whole))
        except JournalError:
            raise
        except Exception as error:
            if len(entries) > 1:
                raise OneByOne from error
            log.exception("a request cannot be taken: %s", type(entries[0].event).__name__)
            return Turn([], [(entries[0], CannotTake("", reason_of(error)))])
        self._unfinished, self.last_us = (seq, whole, refused), now_us
        told = tell(self.core, self.recorder, seq, now_us, events)
        self._journal.note(seq, told.commands, told.changed)
        try:
            return self._finish(told.commands, {})
        except JournalError as error:
            raise CoreFailed(seq, str(error)) from error

    def mend(self) -> Turn:
        """Rebuild the core and handle the batch on which it raised; JournalError: try again later."""
        assert self._unfinished is not None
        seq = self._unfinished[0]
        restored = recovery.restore(self._journal, self.core.state.cluster, self.core.policies, self.recorder)
        self._journal.note(seq, restored.given, [])
        try:
            self._journal.flush()  # before any caller is answered
        except JournalError as error:
            log.error("%s", error)  # it is written with the next batch, or comes out the same again
        marked = self._journal.left_out()
        turn = self._finish(restored.given, marked.get(seq, {}))
        self.core, self.since_checkpoint, self.left_out = restored.core, restored.batches, _count(marked)
        for put_on in self._watchers:
            put_on(self.core)
        log.warning("the core was rebuilt from the journal (%d batches)", restored.batches)
        return turn

    def watch(self, put_on: Callable[[SchedulerCore], None]) -> None:
        """Apply this function to the core, and to every core that replaces it."""
        self._watchers.append(put_on)
        put_on(self.core)

    def _admitted(self, entries: Sequence[Entry]) -> tuple[list[Entry], Refused]:
        whole: list[Entry] = []
        refused: Refused = []
        for one in entries:
            try:
                whole.append(one.sealed())
            except InputError as error:
                refused.append((one, error))
        admitted, unwanted = Admission(self.core.state, self._journal, self.recorder).admit(whole)
        return admitted, refused + unwanted

    def _finish(self, commands: list[Command], left_out: dict[int, LeftOut]) -> Turn:
        """Return what was told, what is refused and what starts, after the core has handled the batch."""
        assert self._unfinished is not None
        _, entries, refused = self._unfinished
        told, lost, place = list[Entry](), list[Event](), 0
        for one in entries:
            bad = [left_out[at] for at in range(place, place + len(one.events)) if at in left_out]
            place += len(one.events)
            if not bad:
                told.append(one)
            elif one.answer is None:
                lost.append(one.event)
            else:
                refused.append((one, CannotTake(bad[0].about, bad[0].why)))
        starting = {one.job_id: self._journal.launch_of(one.job_id) for one in commands if isinstance(one, StartJob)}
        self._unfinished = None
        self.since_checkpoint += 1
        found = {name: launch for name, launch in starting.items() if launch is not None}
        return Turn(told, refused, commands, found, lost)

    def go_on_under(
        self, cluster: Cluster, policies: PolicySet, ended: str, settings: Mapping[str, str], pending: bytes
    ) -> tuple[int, int]:
        """Go on under other settings, with all jobs; return how many wait and how many have nodes.

        The journal has all of it before the core is another one: a crash leaves the old settings or the new."""
        if self.broken:
            raise InputError("the core is being rebuilt", "", "try again")
        core = recovery.going_on(self.core, cluster, policies, self.last_us)
        seq = self._journal.next_seq - 1
        self._journal.go_on_under(Checkpoint(seq, self.last_us, checkpoint.save(core), pending), ended, settings)
        self.core, self.since_checkpoint = core, 0
        for put_on in self._watchers:
            put_on(core)
        return living_of(core)

    def checkpoint(self, pending: bytes) -> None:
        """Keep the core's state, so that the journal before it can be removed."""
        seq = self._journal.next_seq - 1
        if seq > 0 and self.since_checkpoint and not self.broken:
            self._journal.checkpoint(Checkpoint(seq, self.last_us, checkpoint.save(self.core), pending))
            self.since_checkpoint = 0


def _count(marked: dict[int, dict[int, LeftOut]]) -> int:
    return sum(at >= 0 for places in marked.values() for at in places)


def _launches(entries: Sequence[Entry]) -> dict[str, Launch]:
    return {
        one.event.job.job_id: one.launch
        for one in entries
        if isinstance(one.event, JobSubmitted) and one.launch is not None
    }
