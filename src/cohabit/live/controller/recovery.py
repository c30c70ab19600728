"""Recovery: rebuild the core from checkpoint and journal, compare it with the back end; and replay to verify.

Events are replayed; not every command is repeated. A start is never given again (the back end makes sure that one it
has not begun never begins). A command to stop or to renew is given again, because repeating it does no harm and losing
it would. An event on which the core raises is left out, whether it was marked before or raises only now (telling.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from cohabit.backend.protocol import CANCELLED, ENDED, LOST, RUNNING, STOPPED, Run
from cohabit.core import checkpoint, columns
from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import PolicySet
from cohabit.core.succession import living_of, succeed
from cohabit.live.controller import records
from cohabit.live.controller.journal import Batch, Checkpoint, Journal, LeftOut
from cohabit.live.controller.recorder import Recorder
from cohabit.live.controller.records import Record
from cohabit.live.controller.telling import CoreFailed, Told, tell, tell_one_by_one
from cohabit.model import codec
from cohabit.model.cluster import Cluster
from cohabit.model.command import CancelJob, Command, RenewJob, StopJob
from cohabit.model.event import Event, JobFinished, JobStarted, StartRefused
from cohabit.model.units import FOREVER

GIVEN_UP = "the scheduler could not take it again after a restart; its log says why"
NOT_BEGUN = "the controller was restarted before the start was carried out"
Key = tuple[str, int]  # job, attempt


class Restored(NamedTuple):
    """The core as it was after the last batch."""

    core: SchedulerCore
    last_us: int  # the instant of that batch
    fresh: bool  # there was nothing to restore
    orders: list[Command]  # to stop or to renew, possibly not carried out
    batches: int  # replayed
    recorder: Recorder  # with the records of all jobs that are not over
    given: list[Command]  # the commands of the last batch
    left_out: dict[int, dict[int, LeftOut]]  # by batch: events that are marked only now


Notes = list[tuple[int, list[Command] | None, list[Record], list[LeftOut]]]  # for each batch, for the journal


def restore(journal: Journal, cluster: Cluster, policies: PolicySet, recorder: Recorder | None = None) -> Restored:
    """Load the newest checkpoint and replay all events since; add records that a crash, or an older version, did not
    write. A recorder that is given is used again, for its observers. Events left out from now on are owed to the
    journal."""
    recorder = Recorder() if recorder is None else recorder
    suspects: set[int] = set()  # batches on which the core raises
    while True:
        recorder.begin(journal.read(records.living))
        try:
            restored, notes = _replayed(journal, cluster, policies, recorder, suspects)
        except CoreFailed as failed:
            if failed.seq in suspects:
                raise
            suspects.add(failed.seq)
            continue
        for seq, commands, changed, left_out in notes:
            journal.note(seq, commands, changed, left_out)
        return restored


def _replayed(
    journal: Journal, cluster: Cluster, policies: PolicySet, recorder: Recorder, suspects: set[int]
) -> tuple[Restored, Notes]:
    kept, recorded, marked = journal.newest_checkpoint(), journal.recorded, journal.left_out()
    core = SchedulerCore(cluster, policies) if kept is None else checkpoint.load(kept.core, cluster, policies)
    orders = [] if kept is None else codec.decode_commands(kept.pending)
    last_us, count, late = (0, 0, False) if kept is None else (kept.now_us, 0, False)
    notes: Notes = []
    fresh: dict[int, dict[int, LeftOut]] = {}
    given: list[Command] = []
    if kept is not None and recorded < kept.seq:
        notes.append((kept.seq, None, recorder.adopt(kept.now_us, core), []))
    with closing(journal.batches(after=0 if kept is None else kept.seq)) as batches:
        for batch in batches:
            to_record = recorder if batch.seq > recorded else None
            told = _told(core, to_record, batch, marked, batch.seq in suspects)
            core, given = told.core, told.commands
            if new := {at: one for at, one in told.left_out.items() if at not in marked.get(batch.seq, {})}:
                fresh[batch.seq], late = new, late or to_record is None
            if to_record is not None or new:
                notes.append((batch.seq, given if new else None, told.changed, list(new.values())))
            orders += given
            last_us, count = batch.now_us, count + 1
    if late:  # the records contain jobs that the core does not have now
        notes.append((journal.next_seq - 1, None, recorder.give_up(last_us, core, GIVEN_UP), []))
    nothing = kept is None and count == 0
    return Restored(core, last_us, nothing, to_repeat(orders), count, recorder, given, fresh), notes


def _told(
    core: SchedulerCore,
    recorder: Recorder | None,
    batch: Batch,
    marked: Mapping[int, dict[int, LeftOut]],
    suspect: bool,
) -> Told:
    events = codec.decode_events(batch.events)
    if suspect or batch.seq in marked:
        return tell_one_by_one(core, recorder, batch.seq, batch.now_us, events, marked.get(batch.seq, {}))
    return tell(core, recorder, batch.seq, batch.now_us, events)


def to_repeat(orders: Iterable[Command]) -> list[Command]:
    """Return the commands that must not get lost; of several renewals only the last: an old fuse would fire at once."""
    stops: dict[Key, Command] = {}
    renewals: dict[Key, Command] = {}
    for order in orders:
        if isinstance(order, RenewJob):
            renewals[order.job_id, order.attempt] = order
        elif isinstance(order, CancelJob | StopJob):
            stops[order.job_id, order.attempt] = order
    return [*stops.values(), *(order for key, order in renewals.items() if key not in stops)]


def active_runs(core: SchedulerCore) -> dict[Key, bool]:
    """Return the runs the core counts on: (job, attempt) -> whether its start was confirmed."""
    jobs, found = core.state.jobs, {}
    for name, row in core.state.rows.items():
        if jobs[columns.STATE, row] in (columns.STARTING, columns.RUNNING):
            found[name, int(jobs[columns.ATTEMPT, row])] = bool(jobs[columns.STATE, row] == columns.RUNNING)
    return found


class Reconciled(NamedTuple):
    """The result of comparing the core with the back end."""

    facts: list[Event]  # to be told to the core
    strays: list[Key]  # runs the core does not count on: to be stopped before anything else is started
    over: list[Key]  # runs whose record may be removed once the events are in the journal
    orders: list[Command]  # to be repeated


def reconcile(active: dict[Key, bool], runs: Sequence[Run], orders: Sequence[Command]) -> Reconciled:
    """Compare the runs the core counts on with the runs of the back end."""
    found = {(run.job_id, run.attempt): run for run in runs}
    wanted = {
        (order.job_id, order.attempt): CANCELLED if isinstance(order, CancelJob) else STOPPED
        for order in orders
        if isinstance(order, CancelJob | StopJob)
    }
    facts: list[Event] = []
    for key, confirmed in active.items():
        run = found.get(key)
        if run is not None and run.stands == RUNNING:
            facts += [] if confirmed else [JobStarted(*key)]
        elif run is not None and run.stands == ENDED:
            facts.append(JobFinished(*key, run.status, run.exit_status, run.exit_signal, run.reason))
        elif key in wanted:
            facts.append(JobFinished(*key, wanted[key]))
        elif confirmed:
            facts.append(JobFinished(*key, LOST))
        else:
            facts.append(StartRefused(*key, NOT_BEGUN, back_off_us=1))
    strays = [key for key, run in found.items() if run.stands == RUNNING and key not in active]
    over = [key for key, run in found.items() if run.stands != RUNNING]
    running = {key for key, run in found.items() if run.stands == RUNNING and key in active}
    repeated = [order for order in orders if _key(order) in running]
    return Reconciled(facts, strays, over, repeated)


def _key(order: Command) -> Key:
    assert isinstance(order, CancelJob | StopJob | RenewJob)
    return order.job_id, order.attempt


def going_on(core: SchedulerCore, cluster: Cluster, policies: PolicySet, now_us: int) -> SchedulerCore:
    """Return the core that goes on under other settings, as it comes out of its checkpoint."""
    return checkpoint.load(checkpoint.save(succeed(core, cluster, policies, now_us)), cluster, policies)


def change_settings(
    journal: Journal, old: Restored, cluster: Cluster, policies: PolicySet, ended: str, settings: Mapping[str, str]
) -> tuple[int, int]:
    """Let a journal that no controller uses go on under other settings, with all jobs; return how many wait and how
    many have nodes. `old`: the core under the settings so far (`ended`); `settings`: those of now."""
    core = going_on(old.core, cluster, policies, old.last_us)
    here = Checkpoint(journal.next_seq - 1, old.last_us, checkpoint.save(core), codec.encode(old.orders))
    journal.go_on_under(here, ended, settings)
    return living_of(core)


class Verified(NamedTuple):
    """The result of a replay of a journal."""

    batches: int
    commands: int
    difference: str  # empty: byte for byte the same commands
    left_out: int = 0  # events that are marked as left out
    stretches: int = 1  # of batches under the same settings


class Stretch(NamedTuple):
    """The settings under which a core was told the batches up to one of them."""

    upto: int
    cluster: Cluster
    policies: PolicySet


def verify(journal: Journal, cluster: Cluster, policies: PolicySet, earlier: Sequence[Stretch] = ()) -> Verified:
    """Tell a fresh core every event that is kept and compare its commands with the recorded ones.

    `earlier`: the stretches under other settings; at the end of each, the core that goes on is made as it was then.
    """
    kept: Checkpoint | None = journal.oldest_checkpoint()
    begun = 0 if kept is None else kept.seq
    left = [one for one in earlier if one.upto > begun]
    stretches = len(left) + 1
    found = _verified(journal, kept, [*left, Stretch(FOREVER, cluster, policies)])
    return found._replace(stretches=stretches)


def _verified(journal: Journal, kept: Checkpoint | None, stretches: list[Stretch]) -> Verified:
    upto, cluster, policies = stretches[0]
    core = SchedulerCore(cluster, policies) if kept is None else checkpoint.load(kept.core, cluster, policies)
    batches = commands = skipped = 0
    last_us = 0 if kept is None else kept.now_us
    marked = journal.left_out()
    with closing(journal.batches(after=0 if kept is None else kept.seq)) as found:
        for batch in found:
            while batch.seq > upto:
                stretches = stretches[1:]
                upto, cluster, policies = stretches[0]
                core = going_on(core, cluster, policies, last_us)
            last_us = batch.now_us
            known = marked.get(batch.seq, {})
            try:
                told = _told(core, None, batch, marked, False)
            except CoreFailed as failed:
                return Verified(batches, commands, f"the core raises in {failed}", skipped)
            core, given = told.core, told.commands
            batches, commands, skipped = batches + 1, commands + len(given), skipped + sum(at >= 0 for at in known)
            if new := [one for at, one in told.left_out.items() if at not in known]:
                return Verified(batches, commands, f"batch {batch.seq}: the core raises: {new[0].why}", skipped)
            then = None if batch.commands is None else codec.decode_commands(batch.commands)
            if then is not None and _plain_bytes(given) != _plain_bytes(then):
                return Verified(batches, commands, f"batch {batch.seq}: {_difference(given, then)}", skipped)
    return Verified(batches, commands, "", skipped)


def _plain_bytes(commands: list[Command]) -> bytes:
    """Return the same bytes for equal commands: whether a default is written depends on the origin of a text, so all of
    them are decoded first."""
    return codec.encode(codec.decode_commands(codec.encode(commands)))


def _difference(given: list[Command], then: list[Command]) -> str:
    for now, before in zip(given, then, strict=False):
        if now != before:
            return f"{now} now, {before} then"
    return f"{len(given)} orders now, {len(then)} then"
