"""Orders the core gives, in the imperative. Every one carries (job, attempt), so giving it twice does no harm."""

from __future__ import annotations

import msgspec

from cohabit.model.peer import Message
from cohabit.model.units import FOREVER

# equal to FOREVER and another object: msgspec leaves out a default only where it is the same object, and journals have
# always had this field
NO_FUSE_US = FOREVER + 0


class _Command(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    pass


class StartJob(_Command, frozen=True):
    """Run the job on these nodes, given as (first, count) ranges; stop it at its limit."""

    job_id: str
    attempt: int
    nodes: tuple[tuple[int, int], ...]
    limit_us: int
    scale: int = 1  # scale factor k: k times the nodes it needs at least
    cores: int = 0  # on each node; 0: all of them
    exclusive: bool = True  # nobody else on its nodes
    ways: int = 0  # cache ways booked on each node; 0: none in particular
    bandwidth_mbs: int = 0  # memory bandwidth booked on each node; 0: none
    purpose: str = "run"  # "time" or "curve": an exclusive run that also measures the program
    fuse_us: int = NO_FUSE_US  # the executor stops it then and has it queued again, unless RenewJob came before


class SetShares(_Command, frozen=True):
    """On each of these nodes (ranges), these jobs have these cache ways: (job_id, first way, ways), contiguous.

    The same mask holds on every socket of a node. Jobs with equal masks share those ways; masks that differ are
    disjoint. Jobs not named keep nothing of the cache to themselves. A job named in `caps` (job_id, percent) may draw
    so much of the memory bandwidth its cores could draw; who is not named there draws as it likes.
    """

    nodes: tuple[tuple[int, int], ...]
    shares: tuple[tuple[str, int, int], ...]
    caps: tuple[tuple[str, int], ...] = ()
    reason: str = ""  # why it is another division than before, where that is not plain from who came and went


class MoveJob(_Command, frozen=True):
    """Re-bind a running job to these nodes, which are L3 domains of the server it is on. It cannot be refused: whoever
    cannot re-bind a process any more reports its end."""

    job_id: str
    attempt: int
    nodes: tuple[tuple[int, int], ...]


class HoldJob(_Command, frozen=True):
    """These nodes are kept for the job until then, idle: its mates elsewhere are not ready."""

    job_id: str
    nodes: tuple[tuple[int, int], ...]
    until_us: int


class ReleaseJob(_Command, frozen=True):
    """The nodes kept for the job are free again; it waits on."""

    job_id: str
    reason: str = ""


class RenewJob(_Command, frozen=True):
    """The mates of this run were heard: its fuse is this one now, if the old one has not burnt."""

    job_id: str
    attempt: int
    fuse_us: int


class StopJob(_Command, frozen=True):
    """Stop this run; the job waits in the queue again. Report the end with status "stopped"."""

    job_id: str
    attempt: int
    reason: str = ""


class CancelJob(_Command, frozen=True):
    """Stop a run, or tell its owner that it will never happen."""

    job_id: str
    attempt: int
    reason: str = ""


class TellPeer(_Command, frozen=True):
    """Say this to the controller of another domain; it may be lost, late or heard twice."""

    domain: str
    message: Message


class WakeAt(_Command, frozen=True):
    """Call again at this instant even if nothing happens."""

    at_us: int


Command = (
    StartJob | MoveJob | SetShares | HoldJob | ReleaseJob | RenewJob | StopJob | CancelJob | TellPeer | WakeAt
)  # fmt: skip
