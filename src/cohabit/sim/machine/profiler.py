"""Simulate the monitor of an exclusive run: it records its time, or curves from short episodes at different ways.

The curves come from one run during which the allocation changes every 5 s, in turn (S12, S13). Each episode is
read with some noise, and falls into whatever phase the program is in: that is how a profile gets biased. The run pays
for it with 19 % of its time, so times are taken from other runs (S14). Shared runs are not used (S17).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from cohabit.model.cluster import hardware_key
from cohabit.model.command import StartJob
from cohabit.model.curve import Curve, never_falling
from cohabit.model.event import ProfileLearned
from cohabit.model.job import Job
from cohabit.model.profile import Profile, ScaleProfile
from cohabit.model.units import seconds
from cohabit.sim.machine.phases import LEVELS, STEADY, Track
from cohabit.sim.machine.truth import Truth, shape_of, total_ways
from cohabit.sim.streams import stream

RUN, TIME, CURVE = "run", "time", "curve"
_LEAST = 1e-3  # noise never makes a reading zero


class Profiler:
    """Measures exclusive runs with a relative error of `noise` per episode."""

    def __init__(self, truth: Truth, seed: int = 0, noise: float = 0.0) -> None:
        self.truth, self.seed, self.noise = truth, seed, noise
        self.constants = truth.constants.profiler

    def work_factor(self, purpose: str) -> float:
        """Return the factor by which measuring increases the work of the run."""
        return self.constants.curve_run_cost if purpose == CURVE else 1.0

    def measure(
        self, job: Job, command: StartJob, elapsed_us: int, now_us: int, group: int = 0, track: Track = STEADY
    ) -> ProfileLearned | None:
        """Return what a successful run has shown; None if there is nothing to learn or no program name."""
        if not job.program or not command.exclusive or elapsed_us <= 0:
            return None
        if command.purpose == CURVE:
            measured = self._curves(job, command, elapsed_us, now_us, group, track)
        else:
            program = self.truth.programs.get(job.program)
            known = program is not None and command.scale == 1
            measured = ScaleProfile(
                command.scale,
                seconds(elapsed_us),
                measured_at_us=now_us,
                communication=program.communication if known and program is not None else -1.0,
                counters=program.counters if known and program is not None else {},
            )
        return ProfileLearned(job.program, job.processes, measured, hardware_key(self.truth.groups[group]))

    def sampled_ways(self, program: str, group: int) -> tuple[int, ...]:
        """Return the allocations tried: 2, 4, 8 and all, as far as the machine has them; a curve needs at least two."""
        node, known = self.truth.groups[group], self.truth.programs.get(program)
        most = node.ways or (total_ways(known, node) if known is not None else 2)
        ways = {one for one in self.constants.sampled_ways if node.min_ways <= one < most} | {most}
        return tuple(sorted(ways)) if len(ways) > 1 else tuple(sorted({1, most}))

    def _curves(
        self, job: Job, command: StartJob, elapsed_us: int, now_us: int, group: int, track: Track
    ) -> ScaleProfile:
        ways = self.sampled_ways(job.program, group)
        nodes = sum(count for _, count in command.nodes)
        shape = shape_of(job.program, job.processes, nodes, command.scale, command.cores)
        allocation, shares = self._episodes(len(ways), seconds(elapsed_us), track)
        rng = stream(self.seed, f"profile of {job.job_id}")
        loads = [self.truth.load(shape, group, level) for level in LEVELS]
        program = self.truth.programs.get(job.program)
        full = (program.ipc_full if program is not None else 0.0) or 1.0
        ipc = self._readings(full * _table([load.ipc for load in loads], ways), allocation, shares, rng)
        gbs = self._readings(_table([load.demand for load in loads], ways), allocation, shares, rng)
        misses = None
        if program is not None and program.miss_rate is not None and command.scale == 1:
            table = np.tile([program.miss_rate.at(one) for one in ways], (len(LEVELS), 1))
            misses = Curve(ways, self._readings(table, allocation, shares, rng))
        rounds = np.bincount(allocation, minlength=len(ways))
        return ScaleProfile(
            command.scale,
            ipc=Curve(ways, never_falling(ipc, rounds.tolist())),
            bandwidth_gbs=Curve(ways, gbs),
            miss_rate=misses,
            measured_at_us=now_us,
        )

    def _episodes(
        self, allocations: int, elapsed_s: float, track: Track
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the allocation of each episode, and how it was spread over the levels of the program's phases.

        A run too short for one round is cut into as many episodes as there are allocations; what is left of a run
        after its last whole episode is not read.
        """
        length = min(self.constants.episode_s, elapsed_s / allocations)
        count = max(allocations, int(elapsed_s / length + 1e-9))
        edges = np.minimum(np.arange(count + 1) * length / elapsed_s, 1.0)
        return np.arange(count) % allocations, track.shares_between(edges)

    def _readings(
        self,
        table: NDArray[np.float64],
        allocation: NDArray[np.int64],
        shares: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> tuple[float, ...]:
        """Return the average over the episodes of each allocation, every episode with its own error."""
        read = (shares * table[:, allocation].T).sum(axis=1)
        read = read * np.maximum(1.0 + self.noise * rng.standard_normal(len(read)), _LEAST)
        return tuple(float(read[allocation == one].mean()) for one in range(table.shape[1]))


def _table(by_level: Sequence[Callable[[float], float]], ways: tuple[int, ...]) -> NDArray[np.float64]:
    """Return a quantity by level of the phase (rows) and ways (columns)."""
    return np.array([[quantity(float(one)) for one in ways] for quantity in by_level])


def noisy_profile(profile: Profile, sigma: float, rng: np.random.Generator) -> Profile:
    """Return the profile with a relative error of `sigma` in every point of its curves.

    Times stay as they are: they come from whole runs of their own, measured by a clock (S14). The paper saw errors in
    curves, whose points fall into different phases of a run.
    """
    if sigma <= 0:
        return profile

    def blurred(curve: Curve | None, rising: bool = False) -> Curve | None:
        if curve is None:
            return None
        errors = np.maximum(1.0 + sigma * rng.standard_normal(len(curve.values)), _LEAST)
        values = tuple(float(value) for value in np.array(curve.values) * errors)
        return Curve(curve.ways, never_falling(values) if rising else values)

    scales = tuple(
        msgspec.structs.replace(
            one,
            ipc=blurred(one.ipc, rising=True),
            bandwidth_gbs=blurred(one.bandwidth_gbs),
            miss_rate=blurred(one.miss_rate),
        )
        for one in profile.scales
    )
    return msgspec.structs.replace(profile, scales=scales)
