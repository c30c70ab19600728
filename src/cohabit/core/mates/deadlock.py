"""The wait-for graph of groups: jobs that hold nodes while their mates wait for nodes that others hold.

A cycle in this graph is a deadlock (all four of Coffman's conditions hold) unless holds are released. Every domain
reports its nodes with its messages (`Standing`) and draws the graph of what it has heard. A graph of old reports can
show a cycle that is over: a hold is then released once for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

HOLDING, QUEUED = "holding", "queued"


class MateReport(msgspec.Struct, frozen=True):
    """One job of a group as its domain reports it: the number of nodes it holds, or wants."""

    domain: str
    job: str
    group: str
    state: str  # holding or queued
    nodes: int


def wait_for_graph(reports: Sequence[MateReport], free: dict[str, int]) -> dict[str, list[str]]:
    """Return group -> the groups it waits for. A group waits where one of its jobs is queued, does not fit into the
    free nodes of its domain, and would fit if the holds there were released. `free`: nodes neither in use nor held."""
    waits: dict[str, set[str]] = {report.group: set() for report in reports}
    holders = [report for report in reports if report.state == HOLDING]
    for wanting in reports:
        if wanting.state != QUEUED or wanting.nodes <= free.get(wanting.domain, 0):
            continue
        here = {held.group for held in holders if held.domain == wanting.domain and held.group != wanting.group}
        room = free.get(wanting.domain, 0) + sum(held.nodes for held in holders if held.domain == wanting.domain)
        if wanting.nodes <= room:  # otherwise it waits for running jobs, which end
            waits[wanting.group] |= here
    return {group: sorted(others) for group, others in sorted(waits.items())}


def find_deadlock(reports: Sequence[MateReport], free: dict[str, int]) -> list[str]:
    """Return the groups of one cycle, each waiting for the next and the last for the first; empty if there is none.

    Only groups that hold nodes in some domain can block others, so a cycle never contains a group that merely waits.
    """
    graph = wait_for_graph(reports, free)
    finished: set[str] = set()
    for start in graph:
        path: list[str] = []
        _follow(graph, start, path, finished)
        if path:
            return path
    return []


def _follow(graph: dict[str, list[str]], start: str, path: list[str], finished: set[str]) -> None:
    """Search depth first without recursion; leave the cycle in `path`, or nothing."""
    branches = [iter([start])]
    while branches:
        group = next(branches[-1], None)
        if group is None:
            branches.pop()
            if path:
                finished.add(path.pop())
        elif group in path:
            del path[: path.index(group)]
            return
        elif group not in finished:
            path.append(group)
            branches.append(iter(graph.get(group, [])))


def describe(cycle: list[str], reports: Sequence[MateReport]) -> str:
    """Describe the cycle in words, for an operator to break it."""
    lines: list[str] = []
    for position, group in enumerate(cycle):
        following = cycle[(position + 1) % len(cycle)]
        blocked = [one for one in reports if one.group == group and one.state == QUEUED]
        held = {one.domain: one.nodes for one in reports if one.group == following and one.state == HOLDING}
        lines += [
            f"{group} waits for {want.nodes} nodes on {want.domain}, where {following} holds {held[want.domain]}"
            for want in blocked
            if want.domain in held
        ]
    return "; ".join(lines)
