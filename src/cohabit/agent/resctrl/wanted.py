"""Compute what every job on this machine should have of every L3 domain, from the orders of the core. Pure.

`SetShares` speaks of nodes and ways; resctrl speaks of domains and masks. A job that is named on none of its nodes and
has no bandwidth to keep needs no class: it shares the root's cache and is only monitored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cohabit.agent.local_nodes import LocalNode
from cohabit.agent.resctrl.bandwidth import cap_value, control_value
from cohabit.agent.resctrl.offer import PERCENT, CacheOffer, ResctrlOffer
from cohabit.agent.resctrl.schemata import Run, longest_run, mask_of
from cohabit.model.command import SetShares

Caps = Mapping[int, Mapping[str, int]]  # by node and job: percent of what its cores could draw from memory
Reach = Callable[[int, int], float]  # (node, active cores) -> GB/s those cores can draw; infinite: not calibrated


class Share(NamedTuple):
    """The share of one domain: a mask (None: all ways) and a bandwidth value (None: no limit)."""

    mask: int | None = None
    bandwidth: int | None = None


Need = Mapping[int, Share]  # by domain; empty: no class of its own


@dataclass(frozen=True)
class Placed:
    """A job on this machine: its nodes, and on each its cores and the bandwidth to hold it to (0: none)."""

    job_id: str
    nodes: tuple[int, ...]
    cores: int = 0
    bandwidth_gbs: float = 0.0


class Wanted(NamedTuple):
    """The needs of each job, and what cannot be provided, in one sentence per job."""

    needs: dict[str, Need]
    problems: dict[str, str]


def unbooked(node: int, cores: int) -> float:
    """Return the reach of cores that are not calibrated."""
    return float("inf")


def divisions(command: SetShares) -> dict[int, dict[str, Run]]:
    """Return the order by node: the ways of each job, numbered from the node's first way."""
    shares = {job: Run(first, ways) for job, first, ways in command.shares}
    return {node: shares for first, count in command.nodes for node in range(first, first + count)}


def wanted_shares(
    nodes: Sequence[LocalNode],
    placed: Sequence[Placed],
    divided: Mapping[int, Mapping[str, Run]],
    offer: ResctrlOffer,
    reach: Reach = unbooked,
    capped: Caps | None = None,
) -> Wanted:
    """Return the needs of all jobs, by domain. Unknown nodes and names are skipped: their end may not be known yet."""
    found = Wanted({}, {})
    for job in placed:
        need: dict[int, Share] = {}
        for number in job.nodes:
            node = nodes[number]
            reaches = reach(number, job.cores or len(node.cores)), reach(number, len(node.cores))
            run = divided.get(number, {}).get(job.job_id)
            mask = None
            if run is not None and offer.cache is not None:
                mask, problem = _mask(node, run, offer.cache)
                if problem:
                    found.problems[job.job_id] = problem
            cap = (capped or {}).get(number, {}).get(job.job_id)
            if cap is not None and (why := _uncapped(node, offer, reaches[0])):
                found.problems[job.job_id] = why
            for domain in node.domains:
                share = Share(mask, _bandwidth(node, job, domain, offer, reaches, cap))
                if share != Share():
                    need[domain] = _joined(need[domain], share, offer) if domain in need else share
        found.needs[job.job_id] = need
    return found


def _mask(node: LocalNode, run: Run, cache: CacheOffer) -> tuple[int | None, str]:
    """Return the mask, or why there is none."""
    if run.ways < 1 or run.first < 0 or run.first + run.ways > node.ways:
        return None, f"ways {run.first} to {run.first + run.ways - 1} are not among the {node.ways} of {node.name}"
    mask = mask_of(Run(node.first_way + run.first, run.ways))
    refusal = cache.refuses(mask)
    return (None, refusal) if refusal else (mask, "")


def _bandwidth(
    node: LocalNode, job: Placed, domain: int, offer: ResctrlOffer, reaches: tuple[float, float], cap: int | None
) -> int | None:
    """Return the bandwidth value; `reaches` are those of the job's cores and of all cores. A booking is for a node;
    each of its domains carries its part. If there is also a cap, the lower of the two holds."""
    band, parts = offer.bandwidth, len(node.domains)
    if band is None or domain not in band.domains:
        return None
    each = reaches[0] / parts, reaches[1] / parts
    booked = control_value(job.bandwidth_gbs / parts, band, *each)
    most = None if cap is None else cap_value(cap, band, *each)
    return min((value for value in (booked, most) if value is not None), default=None)


def _uncapped(node: LocalNode, offer: ResctrlOffer, reach_gbs: float) -> str:
    """Return why a cap on the bandwidth of a job has no effect; empty: it has one."""
    band = offer.bandwidth
    if band is None:
        return "memory bandwidth cannot be limited on this machine"
    if not (band.kind == PERCENT and band.per_core) and math.isinf(reach_gbs):
        return f"memory bandwidth of {node.name} cannot be limited by percentages before it is calibrated"
    return ""


def _joined(one: Share, other: Share, offer: ResctrlOffer) -> Share:
    """Join two virtual nodes of one job behind the same cache: both their ways where the processor allows that."""
    if one.mask is None or other.mask is None or offer.cache is None:
        mask = one.mask if other.mask is None else other.mask
    else:
        mask = one.mask | other.mask
        if offer.cache.refuses(mask):
            mask = mask_of(longest_run(mask))
    if one.bandwidth is None or other.bandwidth is None or offer.bandwidth is None:
        return Share(mask, None)
    if offer.bandwidth.per_core:  # a percentage of each core's requests is not a sum
        return Share(mask, max(one.bandwidth, other.bandwidth))
    total = one.bandwidth + other.bandwidth
    return Share(mask, total if total < offer.bandwidth.most else None)
