"""What a picture of the manager says of its nodes, as facts for the core. Pure.

A node that a reservation has, and what jobs of the manager's own have of a node, come back at an instant that is known:
by the reservation's end and by their time limits. Promised starts count on that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cohabit.backend.steered.known import Picture
from cohabit.backend.steered.shapes import ManagerJob
from cohabit.model.event import NodeDown, NodeDrained, NodeUp, NodeUsed
from cohabit.model.units import SECOND, microseconds

UP, DRAINED, DOWN = "up", "drained", "down"
GONE = ("DOWN", "FAIL", "FAILING", "POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "FUTURE", "ERROR")
IN_RESERVATION = ("MAINT", "MAINTENANCE", "RESERVED")
UNFIT = ("DRAIN", "DRAINED", "DRAINING", "UNKNOWN", "NOT_RESPONDING", "NO_RESPOND", *IN_RESERVATION,
         "REBOOT", "REBOOT_REQUESTED", "REBOOT_ISSUED", "POWERING_UP", "POWER_UP", "INVALID_REG")  # fmt: skip
NodeFact = NodeUp | NodeUsed | NodeDrained | NodeDown
_FACT: dict[str, type[NodeUp] | type[NodeDrained] | type[NodeDown]] = {UP: NodeUp, DRAINED: NodeDrained, DOWN: NodeDown}


AFTER_US = 60 * SECOND


class Used(NamedTuple):
    """What jobs of the manager's own have of a node."""

    cores: int  # 0: not known how many, so the node takes no job of ours
    memory_mib: int = 0
    until_us: int = 0  # by their time limits; 0: not known


def node_facts(
    picture: Picture,
    number: Mapping[str, int],
    foreign: Iterable[ManagerJob],
    memory: bool,
    told: Sequence[NodeFact],
) -> Iterator[NodeFact]:
    """Say how every node stands. `number`: the steered nodes by their names; `foreign`: jobs of the manager's own that
    run; `memory`: the manager books it; `told`: how they stood before, by number."""
    used, reserved, nodes = _used(foreign, memory), _reserved_until(picture), {one.name: one for one in picture.nodes}
    for name, at in number.items():
        states, others = nodes[name].states if name in nodes else GONE, used.get(name)
        stands, before = condition(states), told[at]
        only_reserved = stands == DRAINED and condition(set(states) - set(IN_RESERVATION)) == UP
        if stands == UP and others is not None:
            yield NodeUsed(at, *others) if others.cores else NodeDrained(at)
        elif only_reserved and name in reserved:
            ends_us = [reserved[name], *([] if others is None else [others.until_us])]
            yield NodeUsed(at, nodes[name].cpus, 0, max(ends_us) if all(ends_us) else 0)
        elif only_reserved and isinstance(before, NodeUsed) and _has_just_passed(before.until_us, picture.begun_s):
            yield before  # the manager lets go of a node some seconds after the reservation
        else:
            yield _FACT[stands](at)


def _has_just_passed(until_us: int, now_s: float) -> bool:
    return 0 <= microseconds(now_s) - until_us < AFTER_US


def condition(states: Iterable[str]) -> str:
    """Map the manager's words to up, drained or down."""
    words = {word.upper() for word in states}
    if words & set(GONE):
        return DOWN
    return DRAINED if words & set(UNFIT) else UP


def _used(foreign: Iterable[ManagerJob], memory: bool) -> dict[str, Used]:
    used: dict[str, Used] = {}
    for job in foreign:
        ends_us = microseconds(job.start_s + job.limit_s) if job.start_s and job.limit_s else 0
        for name in job.nodes:
            cores, before = job.cores_on.get(name, 0), used.get(name, Used(-1, 0, 1))
            if not cores or not before.cores:
                used[name] = Used(0)
                continue
            memory_mib = (job.memory_per_node_mb or job.memory_per_cpu_mb * cores) if memory else 0
            until_us = max(before.until_us, ends_us) if before.until_us and ends_us else 0
            used[name] = Used(max(before.cores, 0) + cores, before.memory_mib + memory_mib, until_us)
    return used


def _reserved_until(picture: Picture) -> dict[str, int]:
    """Return by node when the reservations end that have begun."""
    found: dict[str, int] = {}
    for window in picture.windows:
        if window.begin_s <= picture.begun_s < window.end_s:
            for name in window.nodes:
                found[name] = max(found.get(name, 0), microseconds(window.end_s))
    return found
