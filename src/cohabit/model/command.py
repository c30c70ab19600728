"""Orders the core gives, in the imperative. Every one carries (job, attempt), so giving it twice does no harm."""

from __future__ import annotations

import msgspec

from cohabit.model.peer import Message


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


class SetShares(_Command, frozen=True):
    """On each of these nodes (ranges), these jobs have these cache ways: (job_id, first way, ways), contiguous.

    The same mask holds on every socket of a node. Jobs with equal masks share those ways; masks that differ are
    disjoint. Jobs not named keep nothing of the cache to themselves.
    """

    nodes: tuple[tuple[int, int], ...]
    shares: tuple[tuple[str, int, int], ...]


class MoveJob(_Command, frozen=True):
    """Re-bind a running job to these nodes, which are L3 domains of the server it is on. It cannot be refused: whoever
    cannot re-bind a process any more reports its end."""

    job_id: str
    attempt: int
    nodes: tuple[tuple[int, int], ...]


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


Command = StartJob | MoveJob | SetShares | CancelJob | TellPeer | WakeAt
