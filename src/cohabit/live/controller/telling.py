"""Tells the core a batch of events, so that an event on which it raises harms no other.

A step of the core is not atomic: after an exception its state cannot be trusted. So a batch on which it raises is told
to a fresh core event by event (recovery.py makes the core); an event that raises is left out, and the core and the
records are restored to the state before it. This is a function of the core, the records and the batch: what a crash has
lost of it comes out the same again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from cohabit.core import checkpoint
from cohabit.core.core import SchedulerCore
from cohabit.live.controller.journal import ONE_BY_ONE, LeftOut
from cohabit.live.controller.recorder import Recorder
from cohabit.live.controller.records import Record
from cohabit.model import codec
from cohabit.model.command import Command
from cohabit.model.errors import InputError
from cohabit.model.event import Event, JobSubmitted
from cohabit.model.texts import one_line

log = logging.getLogger(__name__)


class CoreFailed(Exception):
    """The core, or the recorder, raised on a batch; this core must not be used any more."""

    def __init__(self, seq: int, why: str) -> None:
        super().__init__(f"batch {seq}: {why}")
        self.seq, self.why = seq, why


class Told(NamedTuple):
    """The result of a batch. `core` may be another object than before."""

    core: SchedulerCore
    commands: list[Command]
    changed: list[Record]
    left_out: dict[int, LeftOut]  # by place; empty: all of it was told at once


def tell(core: SchedulerCore, recorder: Recorder | None, seq: int, now_us: int, events: Sequence[Event]) -> Told:
    """Tell all events at once; no recorder: the records include this batch already."""
    try:
        commands = core.step(now_us, events)
        codec.encode(commands)  # they are written later, and must not fail there
        changed = [] if recorder is None else recorder.observe(seq, now_us, events, commands, core)
    except Exception as error:
        raise CoreFailed(seq, reason_of(error)) from error
    return Told(core, commands, changed, {})


def tell_one_by_one(
    core: SchedulerCore,
    recorder: Recorder | None,
    seq: int,
    now_us: int,
    events: Sequence[Event],
    known: Mapping[int, LeftOut],
) -> Told:
    """Tell each event in a separate step. `known`: events that are left out already; events that raise are added."""
    left_out = {ONE_BY_ONE.place: ONE_BY_ONE, **known}
    before = _Before(core, recorder)
    good: list[Event] = []
    commands: list[Command] = []
    changed: dict[str, Record] = {}
    for place, event in enumerate(events):
        if place in left_out:
            continue
        try:
            told = tell(core, recorder, seq, now_us, [event])
        except CoreFailed as failed:
            one = left_out[place] = _left_out(place, event, failed.why)
            said = "batch %d: %s is left out, because the core raised: %s"
            log.error(said, seq, one.about, one.why, exc_info=failed.__cause__)
            core, changed = before.again(seq, now_us, good)
            continue
        good.append(event)
        commands += told.commands
        changed.update((record.job_id, record) for record in told.changed)
    return Told(core, commands, list(changed.values()), left_out)


class _Before:
    """The core and the records as they were."""

    def __init__(self, core: SchedulerCore, recorder: Recorder | None) -> None:
        self._cluster, self._policies, self._core = core.state.cluster, core.policies, checkpoint.save(core)
        self._recorder = recorder
        self._records = b"" if recorder is None else msgspec.msgpack.encode(list(recorder.living.values()))

    def again(self, seq: int, now_us: int, good: Sequence[Event]) -> tuple[SchedulerCore, dict[str, Record]]:
        """Return that core with these events told, and the changed records; observers of the recorder know them."""
        core, changed = checkpoint.load(self._core, self._cluster, self._policies), dict[str, Record]()
        if self._recorder is not None:
            self._recorder.begin(msgspec.msgpack.decode(self._records, type=list[Record]))
        for event in good:
            given = core.step(now_us, [event])
            if self._recorder is not None:
                found = Recorder.observe(self._recorder, seq, now_us, [event], given, core)
                changed.update((one.job_id, one) for one in found)
        return core, changed


def reason_of(error: Exception) -> str:
    """Return an exception on one line; one of ours is a sentence already."""
    return one_line(str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}", 300)


def _left_out(place: int, event: Event, why: str) -> LeftOut:
    submitted = event.job.job_id if isinstance(event, JobSubmitted) else ""
    name = submitted or getattr(event, "job_id", "")
    about = type(event).__name__ + (f" of job {name}" if name else "")
    return LeftOut(place, one_line(about, 200), why, submitted)
