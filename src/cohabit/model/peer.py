"""Messages between the controllers of coupled domains: a few kinds, all of them safe to lose or to repeat.

Every message names its group, its sender and its receiver, the sender's epoch (how often its controller has started,
from its store) and a number that grows within the epoch. Instants are always on the clock of the domain that has the
nodes in question; no message assumes that two clocks agree. The transport signs and checks messages: it signs
`signed_bytes`.
"""

from __future__ import annotations

import msgspec

from cohabit.model.errors import InputError
from cohabit.model.texts import wrong_in_name

VERSION = 2  # of the protocol; 1 had no standing
NAME_LENGTH = 256
MOST_STANDING = 256  # groups in a standing
MOST_MEMBERS = 64
_MOST = 2**48  # no correct controller counts this far
NEVER = -1  # in place of an instant: there is none

# The phases of a domain's own job.
UNSUBMITTED = "unsubmitted"  # it knows no such job (yet)
IDLE = "idle"  # waiting in its queue
READY = "ready"  # its scheduler would start it now
RESERVING = "reserving"  # looking for nodes for an attempt
VOTED = "voted"  # nodes are reserved, the decision is open
COMMITTED = "committed"  # bound to start at an agreed instant
RUNNING = "running"  # started in an attempt
FREE = "free"  # running, and no longer bound to its mates
ENDED = "ended"  # its run is over, however it ended
GONE = "gone"  # cancelled or failed: it will never run
PHASES = (UNSUBMITTED, IDLE, READY, RESERVING, VOTED, COMMITTED, RUNNING, FREE, ENDED, GONE)


class GroupNodes(msgspec.Struct, frozen=True, array_like=True):
    """The nodes that the sender's job of a group holds, or waits for."""

    group: str
    holds: bool
    nodes: int


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """The sender's nodes that matter for a deadlock: idle ones, and those that jobs with mates hold or wait for."""

    free: int
    groups: tuple[GroupNodes, ...]


class _Message(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    group: str
    sender: str
    receiver: str
    epoch: int
    seq: int
    version: int = 1


class Announce(_Message, frozen=True, kw_only=True):
    """The sender's job of this group has been submitted there, or (withdrawn) will never run."""

    job: str
    withdrawn: bool = False
    standing: Standing | None = None  # of the whole domain; None: no job with mates holds nodes there


class Status(_Message, frozen=True, kw_only=True):
    """The sender's phase; a question if `asked_us` is set, an answer if `answers_us` is set.

    An answer returns the asker's own clock: the asker then knows that the sender was in this phase at some moment after
    that reading, whatever the two clocks are and however long the answer took.
    """

    phase: str
    attempt: int = 0  # the latest it has promised to
    coordinator: str = ""
    asked_us: int = NEVER  # on the sender's clock
    answers_us: int = NEVER  # on the receiver's clock, as it was asked
    answers_epoch: int = 0
    estimate_us: int = NEVER  # how long until it could start, as far as it knows; a hint
    wants_estimate: bool = False  # it asks the receiver for the same
    standing: Standing | None = None  # as in Announce


class Prepare(_Message, frozen=True, kw_only=True):
    """Ask the receiver to reserve nodes for its job, for `lease_us` on its own clock, and to vote."""

    attempt: int
    members: tuple[str, ...]  # domains that take part in this attempt
    lease_us: int
    terms: int  # digest of the group's terms: both sides must mean the same group
    asked_us: int
    wants_estimate: bool = False  # a vote of no shall say how long until it could, if known


class Vote(_Message, frozen=True, kw_only=True):
    """The answer to prepare. Yes: the nodes stay reserved until `lease_end_us` unless the attempt is aborted."""

    attempt: int
    coordinator: str
    yes: bool
    reason: str = ""
    answers_us: int = NEVER  # from the prepare
    answers_epoch: int = 0
    heard_us: int = NEVER  # when the prepare came, on the sender's clock
    sent_us: int = NEVER  # when this answer left, on the sender's clock
    lease_end_us: int = NEVER
    promised: int = 0  # the latest attempt the sender has promised to
    estimate_us: int = NEVER  # with a no: how long until it could, as far as it knows


class Commit(_Message, frozen=True, kw_only=True):
    """Decided: start at this instant of the receiver's clock."""

    attempt: int
    start_at_us: int


class Abort(_Message, frozen=True, kw_only=True):
    """The sender is not, or no longer, part of this attempt: no domain may continue it."""

    attempt: int
    coordinator: str
    reason: str = ""
    estimate_us: int = NEVER  # how long until the sender could, as far as it knows


class Started(_Message, frozen=True, kw_only=True):
    """The sender's job has started in this attempt. Ask for its status to count on it."""

    attempt: int
    coordinator: str


Message = Announce | Status | Prepare | Vote | Commit | Abort | Started

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_CONTEXT = b"cohabit peer message 1\0"


def encode(message: Message) -> bytes:
    """Encode for the wire; the same bytes for the same message on every machine."""
    return _encoder.encode(message)


def signed_bytes(message: Message) -> bytes:
    """Return the bytes to sign: the canonical encoding, marked so that it cannot pass for anything else."""
    return _CONTEXT + _encoder.encode(message)


def decode(data: bytes) -> Message:
    """Decode a message from the wire; raise InputError if it is not valid."""
    try:
        message = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is not a peer message: {error}", "peer") from error
    if problem := what_is_wrong(message):
        raise InputError(problem, "peer")
    return message


def what_is_wrong(message: Message) -> str:
    """Return what is invalid in a message; empty: nothing."""
    if not 0 < message.version <= VERSION:
        return f"it is in version {message.version} of the protocol, known are 1 to {VERSION}: use the same release"
    names = [message.group, message.sender, message.receiver, getattr(message, "coordinator", "-") or "-"]
    names += getattr(message, "members", ())
    names += [message.job] if isinstance(message, Announce) else []
    standing: Standing | None = getattr(message, "standing", None)
    if standing is not None:
        names += [one.group for one in standing.groups]
        counts = (standing.free, *(one.nodes for one in standing.groups))
        if len(standing.groups) > MOST_STANDING or not all(0 <= count < _MOST for count in counts):
            return "a standing is too long or has a number out of range"
    if not all(0 < len(name) <= NAME_LENGTH for name in names):
        return "a name is empty or too long"
    if wrong := next((wrong for name in names if (wrong := wrong_in_name(name))), ""):
        return f"a name cannot be used: {wrong}"
    if message.sender == message.receiver:
        return f"domain {message.sender} writes to itself"
    attempts = (getattr(message, "attempt", 0), getattr(message, "promised", 0))
    if not (0 < message.epoch < _MOST and 0 < message.seq < _MOST and all(0 <= one < _MOST for one in attempts)):
        return "an epoch, a number or an attempt is out of range"
    if isinstance(message, Status) and message.phase not in PHASES:
        return f"{message.phase!r} is not a phase"
    if isinstance(message, Prepare):
        if message.lease_us <= 0:
            return "a lease must last"
        if not 2 <= len(message.members) <= MOST_MEMBERS or len(set(message.members)) != len(message.members):
            return f"an attempt has 2 to {MOST_MEMBERS} different members"
    return ""
