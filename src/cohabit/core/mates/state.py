"""The protocol's state, its inputs and its orders, all of it plain data.

A `Record` must survive a crash; everything else may be lost with the process. An `Outcome` is carried out in its own
order: first save the records, then give the orders, then send the messages.
"""

from __future__ import annotations

import msgspec

from cohabit.model.group import Group
from cohabit.model.peer import IDLE, NEVER, UNSUBMITTED, Message, Standing, Status
from cohabit.model.units import FOREVER


class Record(msgspec.Struct):
    """One side's part in a group, as it is in the store. Instants are on this side's clock."""

    phase: str = IDLE
    attempt: int = 0  # the latest attempt this side has promised to; never decreases
    coordinator: str = ""
    members: tuple[str, ...] = ()  # domains in that attempt
    lease_end_us: int = NEVER  # nodes are reserved until then
    start_at_us: int = NEVER
    fuse_us: int = NEVER  # the run is stopped then, unless answers from the mates extend it
    starts_us: dict[str, int] = {}  # the coordinator's decision, for each domain on its own clock


class MateView(msgspec.Struct):
    """What this side last heard from a mate."""

    phase: str = UNSUBMITTED
    attempt: int = 0
    coordinator: str = ""
    heard_us: int = NEVER
    bound_us: int = NEVER  # at some moment after this it was bound to, or running in, the present attempt
    ran_us: int = NEVER  # at some moment after this it was running in it
    wants_estimate: bool = False  # it asks when this side could start
    expects_us: int = NEVER  # when it could start, as it reported, on this side's clock
    over: bool = False  # its run in the present attempt has ended
    answered: bool = False  # it has answered since this side began to ask


class Ballot(msgspec.Struct):
    """A yes vote, with a clock comparison: `here_us` on this clock was `there_us` on the voter's clock."""

    here_us: int
    there_us: int
    round_trip_us: int
    lease_end_us: int  # on the voter's clock


class Draft(msgspec.Struct):
    """An attempt this side coordinates and has not decided yet. It is lost in a crash and then counts as aborted."""

    ballots: dict[str, Ballot] = {}
    send_us: int = NEVER  # when to repeat the question to members that have not answered


class GroupState(msgspec.Struct):
    """A group as one side sees it."""

    group: Group
    record: Record
    views: dict[str, MateView]
    ready: bool = False
    ready_since_us: int = NEVER  # when this side first waited for its mates
    asking_since_us: int = NEVER  # this side could start and waits for an answer from its mates
    wants_estimate: bool = False
    told_ready: bool = False  # the mates were told that this side could start
    answered: bool = False  # an attempt has failed since this side began to ask
    answer: Status | None = None  # a question to be answered at the end of this step
    due_us: int = FOREVER  # when it needs a Tick
    heard_prepare_us: int = NEVER
    answers_us: int = NEVER  # the coordinator's clock in its latest prepare
    answers_epoch: int = 0
    nodes_unsure: bool = False  # after a crash, until the scheduler confirms that it still has the nodes
    draft: Draft | None = None
    failures: int = 0
    try_us: int = NEVER  # no attempt of our own before this
    news: bool = False  # a mate has become ready, or is over, since the present attempt began
    ask_us: int = NEVER  # the mates are asked again then


class Seen(msgspec.Struct):
    """The messages received from a peer: its epoch, the highest number, and a bit for each number just below."""

    epoch: int = 0
    highest: int = 0
    below: bytes = b""  # a bit set, the least significant for the highest number


class MatesState(msgspec.Struct):
    """One domain's protocol."""

    domain: str
    epoch: int = 1  # durable; increased at every start of the controller
    seq: int = 0
    groups: dict[str, GroupState] = {}
    seen: dict[str, Seen] = {}
    due_us: int = FOREVER  # when the first group needs a Tick
    standing: Standing | None = None  # what the mates are told of this domain's nodes
    standings: dict[str, Standing] = {}  # what they last told of theirs
    peers: tuple[str, ...] = ()  # the domains that may speak; none: the carrier of the messages sees to it


# ---- inputs ---------------------------------------------------------------------------------------------------------


class Joined(msgspec.Struct, frozen=True):
    """The local job of this group has been submitted."""

    group: Group


class Ready(msgspec.Struct, frozen=True):
    """The local scheduler would start the job now (or no longer would)."""

    group: str
    ready: bool
    wants_estimate: bool = False  # a mate that cannot start is asked when it could


class Reserved(msgspec.Struct, frozen=True):
    """The answer to a Reserve order."""

    group: str
    attempt: int
    done: bool
    reason: str = ""
    estimate_us: int = NEVER  # not done: how long until it could be, as far as known


class Expects(msgspec.Struct, frozen=True):
    """This side's estimate how long until it could start the job; the mates are told."""

    group: str
    estimate_us: int


class Inform(msgspec.Struct, frozen=True):
    """Tell the mates where this side stands."""

    group: str


class StartFailed(msgspec.Struct, frozen=True):
    """The job of this attempt did not start: it was too late, or the back end refused it."""

    group: str
    attempt: int
    reason: str = ""


class Ended(msgspec.Struct, frozen=True):
    """The job's run is over and will not be repeated; `burnt`: its fuse stopped it and it waits in the queue again."""

    group: str
    attempt: int
    burnt: bool = False


class Withdrawn(msgspec.Struct, frozen=True):
    """The job was cancelled and will never run."""

    group: str


class Heard(msgspec.Struct, frozen=True):
    """A message arrived; the transport has checked its sender."""

    message: Message


class Tick(msgspec.Struct, frozen=True):
    """The requested instant has come."""


class Recovered(msgspec.Struct, frozen=True):
    """The controller has restarted from its store. `same_clock`: its clock went on meanwhile.

    The executor then reports what has ended since. For each record in phase running or free whose run it does not
    have, it reports Ended (burnt) or StartFailed, whichever applies.
    """

    same_clock: bool = True


Input = Joined | Ready | Reserved | Expects | Inform | StartFailed | Ended | Withdrawn | Heard | Tick | Recovered


# ---- orders. Each names (group, attempt), so giving it twice does no harm. ------------------------------------------


class _Order(msgspec.Struct, frozen=True):
    group: str
    job: str
    attempt: int


class Reserve(_Order, frozen=True):
    """Find nodes for the job and keep them until then; answer with Reserved."""

    until_us: int = NEVER
    estimate: bool = False  # if there are none: a mate asks when there could be


class NotNow(_Order, frozen=True):
    """The mates cannot start together with the job now: hold its nodes or yield them, as the domain's scheme says."""


class MatesExpect(_Order, frozen=True):
    """The mates have reported when they could start; the last of them at `at_us` of this clock."""

    at_us: int = NEVER


class Release(_Order, frozen=True):
    """Give the reserved nodes back; the job waits on."""


class StartMate(_Order, frozen=True):
    """Start the job now, on the nodes kept for it. The executor stops and requeues it when its clock reaches `fuse_us`,
    whether or not the controller is alive then."""

    fuse_us: int = FOREVER


class Renew(_Order, frozen=True):
    """Set the fuse of the running job to this instant, if it has not burnt yet."""

    fuse_us: int = FOREVER


class StopMate(_Order, frozen=True):
    """Make sure that the job is not running in this attempt or an earlier one, and that it waits in the queue."""

    reason: str = ""


class FailMate(_Order, frozen=True):
    """The job will never run: tell its owner why."""

    reason: str = ""


Order = Reserve | NotNow | MatesExpect | Release | StartMate | Renew | StopMate | FailMate


class Outcome(msgspec.Struct):
    """The result of one input, to be carried out in this order."""

    save: list[str] = []  # groups whose record must be durable first
    save_epoch: bool = False
    orders: list[Order] = []
    messages: list[Message] = []
    refused: list[str] = []  # why a message was refused
    wake_us: int = FOREVER  # a Tick is needed then


class Stored(msgspec.Struct):
    """The stored data of one domain: all the protocol needs to go on after a crash."""

    domain: str
    epoch: int
    groups: dict[str, tuple[Group, Record]]


def stored(state: MatesState) -> Stored:
    """Return all that must be durable. A store may also keep it group by group (`Outcome.save`)."""
    return Stored(state.domain, state.epoch, {name: (one.group, one.record) for name, one in state.groups.items()})


def reloaded(kept: Stored) -> MatesState:
    """Return the state after a crash; the first input must be Recovered."""
    state = MatesState(kept.domain, kept.epoch)
    for name, (group, record) in kept.groups.items():
        state.groups[name] = GroupState(group, record, fresh_views(group, kept.domain))
    return state


def fresh_views(group: Group, domain: str) -> dict[str, MateView]:
    """Return views of all mates before the first message."""
    return {other: MateView() for other in group.domains() if other != domain}
