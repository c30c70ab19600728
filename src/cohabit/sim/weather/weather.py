"""The weather while jobs run: how much each job is slowed now, and what counters show of it.

The sky (series.py) is drawn from the seed alone; running jobs add to it what their programs ask of network and
filesystem. Every program suffers by its own sensitivity. The world asks for rates whenever the sky or the set of
running jobs has changed. The true state must never reach a policy: it is given only windows of counters, and
those end before the job they are used for begins.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.model.event import TelemetryReduced
from cohabit.model.telemetry import WINDOW_US, Table, Window, encode
from cohabit.model.units import SECOND
from cohabit.sim.streams import stream
from cohabit.sim.weather.constants import CONSTANTS, STORAGE, Constants
from cohabit.sim.weather.counters import Floats, NodeState, Sampler
from cohabit.sim.weather.series import Sky, production, reserved
from cohabit.trace.rush_programs import Temper

Ranges = Sequence[tuple[int, int]]
BUSY_SPREAD = 0.5  # assumed: nodes of one foreign job use their links alike, other jobs more or less
BLOCK_NODES = 16  # such a job's size


@dataclass(frozen=True)
class Guest:
    """A running job as seen by the weather."""

    temper: Temper
    nodes: NDArray[np.int64]
    near: float  # share of its nodes on leaf switches the noise job is on
    luck: float  # its own variation in this run
    settled: bool = False  # whether the part of it that depends on others is over


@dataclass
class Weather:
    """The weather of one machine over one period."""

    seed: int
    nodes: int
    tempers: Mapping[str, Temper]
    sky: Sky
    constants: Constants = CONSTANTS
    begin_us: int = 0  # when the sky begins, on the world's clock
    telling: bool = True  # whether counters are read and reported
    canaries: bool = True  # whether canaries run before jobs, are charged, and are in the windows
    others: bool = False  # whether nodes are busy with foreign jobs, as on a production machine
    noise_nodes: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    changed: bool = False  # whether rates must be computed again
    _step: int = -1
    _guests: dict[str, Guest] = field(default_factory=dict)
    sampler: Sampler = field(init=False)  # reads the counters
    _samples: deque[Table] = field(init=False)
    _near: NDArray[np.bool_] = field(init=False)  # nodes on leaf switches of the noise job

    def __post_init__(self) -> None:
        leaf = self.constants.pod.leaf_nodes
        self._near = np.isin(np.arange(self.nodes) // leaf, np.unique(self.noise_nodes // leaf))
        self._samples = deque(maxlen=WINDOW_US // self.step_us)
        canary = self.constants.canary if self.canaries else None
        self.sampler = Sampler(stream(self.seed, "weather counters"), canary)

    # ---- time -------------------------------------------------------------------------------------------------------

    @property
    def step_us(self) -> int:
        """Return how long the sky stays unchanged."""
        return self.constants.telemetry.sample_s * SECOND

    @property
    def next_us(self) -> int:
        """Return when the sky changes next."""
        return self.begin_us + (self._step + 1) * self.step_us

    def pass_to(self, now_us: int) -> list[TelemetryReduced]:
        """Change the sky; counters are read just before, and the last minutes are reported periodically."""
        facts: list[TelemetryReduced] = []
        while self.next_us <= now_us:
            if not self.telling:
                self._step = (now_us - self.begin_us) // self.step_us
                break
            if self._step >= 0:
                self._samples.append(self.sampler.sample(self.node_state()))
                every = self.constants.telemetry.tell_s // self.constants.telemetry.sample_s
                if len(self._samples) == self._samples.maxlen and (self._step + 1) % every == 0:
                    window = self.sampler.window(self.next_us, list(self._samples), self.node_state())
                    facts.append(TelemetryReduced(encode(window)))
            self._step += 1
        self.changed = True
        return facts

    def window_before(self, now_us: int) -> Window:
        """Return the last minutes, read afterwards with the jobs that run now; for machines without regular reports."""
        last = (now_us - self.begin_us) // self.step_us
        count = WINDOW_US // self.step_us
        samples = [self.sampler.sample(self.node_state(step)) for step in range(last - count, last)]
        return self.sampler.window(now_us, samples, self.node_state(last - 1))

    # ---- jobs -------------------------------------------------------------------------------------------------------

    @property
    def canary_us(self) -> int:
        """Return the time charged to every run for its canary."""
        return round(self.constants.canary.cost_s * SECOND) if self.canaries else 0

    def start(self, job_id: str, program: str, ranges: Ranges) -> None:
        """Let the job load network and filesystem from now on."""
        self._guests[job_id] = self.guest(job_id, program, ranges)
        self.changed = True

    def guest(self, job_id: str, program: str, ranges: Ranges) -> Guest:
        """Return the job as it would be on these nodes."""
        temper = self.tempers.get(program) or Temper(program, "compute", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        nodes = np.concatenate([np.arange(first, first + count) for first, count in ranges])
        luck = math.exp(temper.own * float(stream(self.seed, f"weather run {job_id}").standard_normal()))
        return Guest(temper, nodes, float(self._near[nodes].mean()), luck)

    def settle(self, job_id: str) -> None:
        """Record that the early part of its work is done."""
        self._guests[job_id] = replace(self._guests[job_id], settled=True)
        self.changed = True

    def stop(self, job_id: str) -> None:
        """Remove the job."""
        if self._guests.pop(job_id, None) is not None:
            self.changed = True

    def rates(self) -> dict[str, float]:
        """Return the current rate of every running job; 1 is undisturbed."""
        self.changed = False
        network, filesystem = self.asked()
        step = max(self._step, 0)
        return {job_id: self.rate(one, step, network, filesystem) for job_id, one in self._guests.items()}

    def asked(self) -> tuple[float, float]:
        """Return the total demand of running jobs on network and filesystem, in nodes."""
        guests = self._guests.values()
        return (
            math.fsum(one.temper.network * len(one.nodes) for one in guests),
            math.fsum(one.temper.filesystem * len(one.nodes) for one in guests),
        )

    def rate(self, one: Guest, step: int, network: float, filesystem: float) -> float:
        """Return the rate of one job in a step beside this demand; its own demand is in its run time already."""
        if one.settled:
            return 1.0 / one.luck
        temper, size, early = one.temper, len(one.nodes), self.constants.law.early
        others_network = max(0.0, network - temper.network * size) / self.nodes
        others_filesystem = max(0.0, filesystem - temper.filesystem * size) / self.nodes
        loads = self.sky_over(one, step)
        lost = temper.network_sensitivity * self.congestion(loads[0] + others_network)
        lost += temper.filesystem_sensitivity * self.congestion(loads[1] + others_filesystem)
        return 1.0 / ((1.0 + lost / early) * one.luck)

    def sky_over(self, one: Guest, step: int) -> tuple[float, float]:
        """Return the load of network and filesystem that a job feels in a step, with the noise where it is."""
        network, filesystem, noise = self.sky.at(step)
        place = self.constants.noise.place
        if not place:
            return network + (1.0 + self.constants.noise.near * one.near) * noise, filesystem
        felt = noise if noise and self._hit(step)[one.nodes].any() else 0.0
        return (network, filesystem + felt) if place == STORAGE else (network + felt, filesystem)

    def _hit(self, step: int) -> NDArray[np.bool_]:
        """Return the nodes where the noise is in this step."""
        if self.sky.noise is None:
            return np.zeros(self.nodes, bool)
        return self.sky.noise.hit(step, self.nodes, *self.constants.places.of(self.constants.noise.place))

    def congestion(self, load: float) -> float:
        """Return the share of the load that waits: 0 up to the knee, 1 at saturation, more beyond."""
        knee = self.constants.law.knee
        return max(0.0, load - knee) / (1.0 - knee)

    def congestion_of(self, loads: NDArray[Any]) -> Floats:
        """Return the same for every node."""
        knee = self.constants.law.knee
        return np.asarray(np.maximum(0.0, loads - knee) / (1.0 - knee), np.float64)

    def would_take_us(
        self, job_id: str, program: str, ranges: Ranges, now_us: int, work_us: float, usual: tuple[float, float]
    ) -> float:
        """Return how long a run from now would take beside the running jobs, or beside the usual load if that is more.

        For judging, never for policies: it looks at future weather.
        """
        one = self.guest(job_id, program, ranges)
        network, filesystem = self.asked()
        size = len(one.nodes)
        asked = (
            max(network + one.temper.network * size, usual[0]),
            max(filesystem + one.temper.filesystem * size, usual[1]),
        )
        early = self.constants.law.early
        step, at_us, left = (now_us - self.begin_us) // self.step_us, float(now_us), early * work_us
        while True:
            rate = self.rate(one, max(step, 0), *asked)
            until_us = self.begin_us + (step + 1) * self.step_us
            if left <= (until_us - at_us) * rate:
                return at_us + left / rate - now_us + (1.0 - early) * work_us * one.luck
            left, at_us, step = left - (until_us - at_us) * rate, until_us, step + 1

    # ---- counters ---------------------------------------------------------------------------------------------------

    def node_state(self, step: int | None = None) -> NodeState:
        """Return the state behind the counters of every node in this step, or in another with the same jobs."""
        step = max(self._step if step is None else step, 0)
        background_network, background_filesystem, noise = self.sky.at(step)
        network, filesystem = self.asked()
        load, servers = background_network + network / self.nodes, background_filesystem + filesystem / self.nodes
        there = (1.0 + self.constants.noise.near * self._near) if not self.constants.noise.place else self._hit(step)
        traffic, io = np.zeros(self.nodes), np.zeros(self.nodes)
        if self.others:
            traffic = self._of_others("network", step, background_network, self.constants.network.base)
            io = self._of_others("filesystem", step, background_filesystem, self.constants.filesystem.base)
        for one in self._guests.values():
            traffic[one.nodes], io[one.nodes] = one.temper.network, one.temper.filesystem
        traffic[self.noise_nodes] = min(1.0, noise)
        if self.constants.noise.place == STORAGE:
            congestion = np.full(self.nodes, self.congestion(load))
            return NodeState(traffic, congestion, io, self.congestion_of(servers + noise * there))
        return NodeState(traffic, self.congestion_of(load + noise * there), io, self.congestion(servers))

    def _of_others(self, what: str, step: int, load: float, usual: float) -> Floats:
        """Return the demand of nodes that run foreign jobs; these jobs change every five minutes.

        All nodes take part in the usual load; more comes from a few nodes that cross the whole network or write all
        at once, so that it is seen in waiting rather than in what an average node sends.
        """
        rng = stream(self.seed, f"weather others {what} {step * self.step_us // WINDOW_US}")
        blocks = -(-self.nodes // BLOCK_NODES)
        ordinary = min(load, usual)
        found = ordinary * np.exp(BUSY_SPREAD * rng.standard_normal(blocks))
        few = rng.permutation(blocks)[: max(1, round(blocks * self.constants.noise.node_share))]
        found[few] += min(1.0, load - ordinary)
        return np.repeat(found, BLOCK_NODES)[: self.nodes]


def noise_nodes_of(nodes: int, constants: Constants = CONSTANTS) -> NDArray[np.int64]:
    """Return the nodes of the noise job: its share of them, on every second leaf switch, the last nodes of each."""
    leaf, share = min(constants.pod.leaf_nodes, nodes), constants.noise.node_share
    leaves = np.arange(0, -(-nodes // leaf), 2)
    each = max(1, round(share * nodes / len(leaves)))
    found = [np.arange(min((at + 1) * leaf, nodes) - each, min((at + 1) * leaf, nodes)) for at in leaves.tolist()]
    return np.concatenate(found)


def weather_of(
    seed: int,
    nodes: int,
    tempers: Mapping[str, Temper],
    *,
    noise: bool = True,
    canaries: bool = True,
    telling: bool = True,
    begin_us: int = 0,
    constants: Constants = CONSTANTS,
) -> Weather:
    """Return a reserved part of the machine, with the noise job on 1/16 of its nodes (to be drained) or without."""
    return Weather(
        seed,
        nodes,
        tempers,
        reserved(seed, constants, noise),
        constants,
        begin_us,
        telling,
        canaries,
        noise_nodes=noise_nodes_of(nodes, constants) if noise else np.zeros(0, np.int64),
    )


def production_weather(
    seed: int, nodes: int, days: float, tempers: Mapping[str, Temper], constants: Constants = CONSTANTS
) -> Weather:
    """Return the whole machine over a long time, with nodes busy with foreign jobs."""
    sky = production(seed, days, constants)
    return Weather(seed, nodes, tempers, sky, constants, telling=False, others=True)
