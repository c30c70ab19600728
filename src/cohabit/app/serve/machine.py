"""This machine as a running controller uses it: its description for the core, its back end, and its measurements.

The nodes of a journal stay as they were when it began: if the kernel reports other memory, or the cache cannot be
divided any more, the journal's events stay readable; other cores are refused.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from cohabit.app.measure.capacity import known_capacity
from cohabit.app.measure.profiles import profiles_in
from cohabit.backend.local.executor import LocalBackend
from cohabit.backend.local.nodes import VirtualNodes
from cohabit.backend.protocol import Backend
from cohabit.core.protocols import PolicySet
from cohabit.live.controller.journal import Journal
from cohabit.live.controller.measuring import MeasuringBackend, stored_facts
from cohabit.live.controller.meters import LocalMeter
from cohabit.live.controller.place import Place
from cohabit.live.controller.store_link import begin_anew
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.errors import InputError
from cohabit.model.event import Event, ProfileLearned, TelemetryReduced
from cohabit.model.profile import stream_gbs
from cohabit.model.telemetry import encode
from cohabit.model.units import microseconds

MACHINE = "machine"
log = logging.getLogger(__name__)


class ProfilingConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[profiling] of a site file: what is learned from runs, where the policy shares nodes."""

    measure: bool = True  # whether runs are measured at all
    period_s: float = 10.0  # period of reporting the progress of runs on shared nodes
    profiles: str = ""  # a file of profiles known before the first job

    def check(self, where: str) -> None:
        """Refuse invalid settings."""
        if not 0.1 <= self.period_s <= 3600:
            raise InputError(f"period_s = {self.period_s:g}", where, "give 0.1 to 3600 s")


class TelemetryConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[telemetry] of a site file: counters are reported if the table exists, or if the policy has a gate."""

    every_s: float = 30.0  # period of reporting a window
    window_s: float = 300.0  # length of the window; as in the model's training data

    def check(self, where: str) -> None:
        """Refuse invalid settings."""
        if not 1.0 <= self.every_s <= self.window_s or self.window_s > 3600.0:
            raise InputError(
                f"every_s = {self.every_s:g}, window_s = {self.window_s:g}",
                where,
                "every_s from 1 up to window_s, window_s up to 3600",
            )


def cluster_of(nodes: VirtualNodes, policies: PolicySet, oversubscribe: bool) -> Cluster:
    """Return this machine, shared if the policy shares; with its bandwidth if `cohabit measure capacity` ran."""
    shared = not policies.placer.exclusive
    cluster = nodes.cluster("shared" if shared else "exclusive", shared and oversubscribe)
    points = known_capacity() if shared else ()
    return replace(cluster, groups=tuple(_with_bandwidth(one, points, cluster.cores) for one in cluster.groups))


def _with_bandwidth(group: NodeGroup, points: tuple[tuple[int, float], ...], cores: int) -> NodeGroup:
    """Give a node that is a part of the machine the same part of the machine's bandwidth."""
    if not points or group.bandwidth_gbs:
        return group
    part = group.cores / cores
    machine = replace(group, cores=cores, bandwidth_gbs=points)
    steps = sorted({1, group.cores, *(2**power for power in range(1, 12) if 2**power < group.cores)})
    return replace(
        group, bandwidth_gbs=tuple((count, round(stream_gbs(machine, count / part) * part, 3)) for count in steps)
    )


def written(found: Cluster) -> str:
    """Return the nodes as a journal keeps them."""
    return msgspec.json.encode(found.groups).decode()


def same_machine(journal: Journal, found: Cluster, place: Path) -> Cluster:
    """Return the nodes the journal was begun on."""
    kept = journal.get(MACHINE)
    if kept is None:
        journal.put({MACHINE: written(found)})
        return found
    groups = msgspec.json.decode(kept, type=tuple[NodeGroup, ...])
    if [(one.count, one.cores) for one in groups] != [(one.count, one.cores) for one in found.groups]:
        raise InputError(
            "its jobs were taken on a machine with other cores",
            os.fspath(place),
            "use the same machine, or a new folder",
        )
    return replace(found, groups=groups)


def begun_anew(journal: Journal, place: Place, *settings: str) -> bool:
    """Begin the journal of a place anew under other settings, if it never took a job; return whether it did."""
    if not journal.begin_anew(MACHINE, *settings):
        return False
    begin_anew(place.learned)
    log.info("%s never took a job: it continues under the new settings", place.root)
    return True


def measured(backend: LocalBackend, policies: PolicySet, config: ProfilingConfig | None) -> Backend:
    """Return the back end, with its runs measured if a policy learns from them."""
    if config is None or not config.measure or policies.placer.exclusive:
        return backend
    return MeasuringBackend(backend, LocalMeter(backend), config.period_s)


def reach_of(cluster: Cluster) -> Callable[[int, int], float]:
    """Return the memory bandwidth for a number of cores of a node; infinity: it was not measured."""
    groups = [one for one in cluster.groups for _ in range(one.count)]

    return lambda node, cores: stream_gbs(groups[node], cores)


def facts_of(config: ProfilingConfig | None) -> list[ProfileLearned]:
    """Return the events about programs for a core that has just begun."""
    if config is None or not config.profiles:
        return []
    found, warning = profiles_in(Path(config.profiles))
    if warning:
        log.warning("%s", warning)
    return stored_facts([one.profile for one in found])


async def report_telemetry(
    config: TelemetryConfig, nodes: int, tell: Callable[[Event], Awaitable[None]], now_us: Callable[[], int]
) -> None:
    """Report this machine's counters to a running controller until cancelled: a window of the last minutes as an event.

    `nodes`: how many the core knows; all virtual nodes of one machine have the same counters. `now_us`: the clock of
    the receiver. If nothing can be read, nothing is sent: the core sees stale telemetry, delays no job and says so.
    """
    from cohabit.app.measure.runs_window import SampledHere  # polars: 20 MB, loaded only if needed

    try:
        sampled = SampledHere(microseconds(config.window_s), log.info)
    except InputError as error:
        log.warning("no telemetry: %s", error)
        return
    rows = np.zeros(nodes, np.int64)
    with sampled:
        while True:
            await asyncio.sleep(config.every_s)
            window = sampled.before(time.time_ns() // 1000)
            if window is not None:
                everywhere = window.changed(now_us(), window.counters, lambda table: table[rows])
                await tell(TelemetryReduced(encode(everywhere)))
