"""Commands of the core, named in the imperative. Every one carries (job, attempt), so repeating it does no harm."""

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
    exclusive: bool = True  # no other job on its nodes
    ways: int = 0  # cache ways booked on each node; 0: none in particular
    bandwidth_mbs: int = 0  # memory bandwidth booked on each node; 0: none
    purpose: str = "run"  # "time" or "curve": an exclusive run that also measures the program
    fuse_us: int = NO_FUSE_US  # the executor stops and requeues it then, unless RenewJob came before


class SetShares(_Command, frozen=True):
    """Set the cache ways of these jobs on each of these nodes (ranges): (job_id, first way, ways), contiguous.

    The same mask holds on every socket of a node. Jobs with equal masks share those ways; masks that differ are
    disjoint. Jobs not named have no cache to themselves. A job named in `caps` (job_id, percent) may draw that
    percentage of the memory bandwidth its cores could draw; a job not named there is not limited.
    """

    nodes: tuple[tuple[int, int], ...]
    shares: tuple[tuple[str, int, int], ...]
    caps: tuple[tuple[str, int], ...] = ()
    reason: str = ""  # why the division has changed, if not because jobs started or ended


class MoveJob(_Command, frozen=True):
    """Re-bind a running job to these nodes, which are L3 domains of the server it is on. It cannot be refused: if a
    process can no longer be re-bound, the executor reports its end."""

    job_id: str
    attempt: int
    nodes: tuple[tuple[int, int], ...]


class HoldJob(_Command, frozen=True):
    """Keep these nodes idle for the job until then: its mates in other domains are not ready."""

    job_id: str
    nodes: tuple[tuple[int, int], ...]
    until_us: int


class ReleaseJob(_Command, frozen=True):
    """Free the nodes kept for the job; it continues to wait."""

    job_id: str
    reason: str = ""


class RenewJob(_Command, frozen=True):
    """Set a new fuse for this run, unless the old one has expired: its mates were heard."""

    job_id: str
    attempt: int
    fuse_us: int


class StopJob(_Command, frozen=True):
    """Stop this run and put the job back into the queue. Report the end with status "stopped"."""

    job_id: str
    attempt: int
    reason: str = ""


class CancelJob(_Command, frozen=True):
    """Stop a run, or tell its owner that the job will never run."""

    job_id: str
    attempt: int
    reason: str = ""


class TellPeer(_Command, frozen=True):
    """Send a message to the controller of another domain; it may be lost, late or delivered twice."""

    domain: str
    message: Message


class WakeAt(_Command, frozen=True):
    """Call the core again at this instant even if nothing happens."""

    at_us: int


Command = (
    StartJob | MoveJob | SetShares | HoldJob | ReleaseJob | RenewJob | StopJob | CancelJob | TellPeer | WakeAt
)  # fmt: skip
