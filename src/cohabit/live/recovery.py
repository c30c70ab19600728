"""After a restart: the core from checkpoint and journal, then the truth from whoever executes; and replay to verify.

Facts are replayed, orders are not repeated blindly: a start is never given again (the back end makes sure that one it
has not begun never begins), an order to stop or to renew is, because giving it twice does no harm and losing it would.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cohabit.backend.protocol import CANCELLED, ENDED, LOST, RUNNING, STOPPED, Run
from cohabit.core import checkpoint, columns
from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import PolicySet
from cohabit.live.journal import Checkpoint, Journal
from cohabit.live.recorder import Recorder
from cohabit.model import codec
from cohabit.model.cluster import Cluster
from cohabit.model.command import CancelJob, Command, RenewJob, StopJob
from cohabit.model.event import Event, JobFinished, JobStarted, StartRefused

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


def restore(journal: Journal, cluster: Cluster, policies: PolicySet) -> Restored:
    """The newest checkpoint and all facts since; records that a crash, or an older version, did not write."""
    kept, recorded, recorder = journal.newest_checkpoint(), journal.recorded, Recorder(journal.living_records())
    core = SchedulerCore(cluster, policies) if kept is None else checkpoint.load(kept.core, cluster, policies)
    orders = [] if kept is None else codec.decode_commands(kept.pending)
    last_us, count = (0, 0) if kept is None else (kept.now_us, 0)
    if kept is not None and recorded < kept.seq:
        journal.note(kept.seq, None, recorder.adopt(kept.now_us, core))
    for batch in journal.batches(after=0 if kept is None else kept.seq):
        events = codec.decode_events(batch.events)
        given = core.step(batch.now_us, events)
        if batch.seq > recorded:
            journal.note(batch.seq, None, recorder.observe(batch.seq, batch.now_us, events, given, core))
        orders += given
        last_us, count = batch.now_us, count + 1
    return Restored(core, last_us, kept is None and count == 0, to_repeat(orders), count, recorder)


def to_repeat(orders: Iterable[Command]) -> list[Command]:
    """Those that must not get lost; of several renewals only the last, for an old fuse would burn at once."""
    stops: dict[Key, Command] = {}
    renewals: dict[Key, Command] = {}
    for order in orders:
        if isinstance(order, RenewJob):
            renewals[order.job_id, order.attempt] = order
        elif isinstance(order, CancelJob | StopJob):
            stops[order.job_id, order.attempt] = order
    return [*stops.values(), *(order for key, order in renewals.items() if key not in stops)]


def active_runs(core: SchedulerCore) -> dict[Key, bool]:
    """The runs the core counts on: (job, attempt) -> whether its start was confirmed."""
    jobs, found = core.state.jobs, {}
    for name, row in core.state.rows.items():
        if jobs[columns.STATE, row] in (columns.STARTING, columns.RUNNING):
            found[name, int(jobs[columns.ATTEMPT, row])] = bool(jobs[columns.STATE, row] == columns.RUNNING)
    return found


class Reconciled(NamedTuple):
    """What follows from comparing the core with the world."""

    facts: list[Event]  # to be told to the core
    strays: list[Key]  # runs nobody counts on: to be stopped before anything else is started
    over: list[Key]  # runs whose record may go once the facts are in the journal
    orders: list[Command]  # to be repeated


def reconcile(active: dict[Key, bool], runs: Sequence[Run], orders: Sequence[Command]) -> Reconciled:
    """Compare what the core counts on with what the back end has."""
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
            facts.append(JobFinished(*key, run.status, run.exit_status, run.exit_signal))
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


class Verified(NamedTuple):
    """How a replay of a journal went."""

    batches: int
    commands: int
    difference: str  # empty: byte for byte the same orders


def verify(journal: Journal, cluster: Cluster, policies: PolicySet) -> Verified:
    """Tell a fresh core every fact that is kept and compare its orders with those written down."""
    kept: Checkpoint | None = journal.oldest_checkpoint()
    core = SchedulerCore(cluster, policies) if kept is None else checkpoint.load(kept.core, cluster, policies)
    batches = commands = 0
    for batch in journal.batches(after=0 if kept is None else kept.seq):
        given = core.step(batch.now_us, codec.decode_events(batch.events))
        batches, commands = batches + 1, commands + len(given)
        then = None if batch.commands is None else codec.decode_commands(batch.commands)
        if then is not None and _plain_bytes(given) != _plain_bytes(then):
            return Verified(batches, commands, f"batch {batch.seq}: {_difference(given, then)}")
    return Verified(batches, commands, "")


def _plain_bytes(commands: list[Command]) -> bytes:
    """The same for equal orders: whether a default is written depends on where a text came from, so all come from a
    decoder."""
    return codec.encode(codec.decode_commands(codec.encode(commands)))


def _difference(given: list[Command], then: list[Command]) -> str:
    for now, before in zip(given, then, strict=False):
        if now != before:
            return f"{now} now, {before} then"
    return f"{len(given)} orders now, {len(then)} then"
