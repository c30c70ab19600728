"""Explain how a run that is over ran, from its record, in the words of one that runs (core/explain_running.py)."""

from __future__ import annotations

from cohabit.core.core import SchedulerCore
from cohabit.core.explain_running import PURPOSES, nodes_in_words
from cohabit.core.explain_sharing import MOST_NAMES, joined
from cohabit.live.controller.records import BESIDE_MOST, Record
from cohabit.model.units import counted

NOT_EXECUTED = "could not "  # how the launcher begins: its folder, an output or its program was not to be had


def how_it_ran(record: Record, core: SchedulerCore) -> str:
    """Return one sentence; empty for an array, and for a job that never started or could not be executed."""
    state, count = core.state, sum(many for _, many in record.nodes)
    if record.start_us is None or not count or record.members or record.reason.startswith(NOT_EXECUTED):
        return ""
    where = nodes_in_words(record.nodes, state.cluster.names)
    if state.ledger is None or (record.exclusive and record.purpose not in PURPOSES):
        return f"ran on {where}, which it had to itself"
    words = [f"ran at scale {record.scale} on {where}{_share(record, core, count)}"]
    if record.purpose in PURPOSES:
        words.append(f"{PURPOSES[record.purpose]} at this scale")
    if not record.exclusive:
        words.append(f"beside {_met(record)}" if record.met else "no other job was there")
    if record.profile:
        words.append(record.profile)
    return "; ".join(words)


def _share(record: Record, core: SchedulerCore, count: int) -> str:
    """Return what it had of each node; only what such a node states."""
    if record.exclusive:
        return ", which it had to itself"
    kinds, first = core.state.kinds, record.nodes[0][0]
    booked = [counted(record.cores // count, "core")]
    if first < len(kinds.of_node):  # the machine may be a smaller one since then
        group = kinds.groups[int(kinds.of_node[first])]
        if record.ways and group.ways:
            booked.append(counted(record.ways, "cache way"))
        if record.bandwidth_mbs and group.bandwidth_gbs:
            booked.append(f"{record.bandwidth_mbs / 1000:.1f} GB/s of memory bandwidth")
    return f" with {joined(booked)}{' on each' if count > 1 else ''}"


def _met(record: Record) -> str:
    """Name the jobs it met: those of the same user by name; job names of other users are private."""
    own = [name for name, user in record.beside if user == record.user]
    words = [f"job {name}" for name in own[:MOST_NAMES]]
    if len(record.beside) >= BESIDE_MOST:
        return f"{BESIDE_MOST} other jobs or more{f', such as {joined(words)}' if words else ''}"
    more, foreign = len(own) - len(words), len(record.beside) - len(own)
    words += [f"{more} more"] * (more > 0)
    if foreign:
        words.append("a job of another user" if foreign == 1 else f"{foreign} jobs of other users")
    return joined(words) or "other jobs"  # a record of an earlier version names none
