"""Phases: a program's bandwidth and its need of cache vary while it runs, around the average its profile shows.

A run is a sequence of cycles of exponential length; each holds calm, average and bursting stages in fixed shares and
random order, so every cycle, and with it every run, has exactly the profiled mean. Places are fractions of the work: a
job that is slowed down stays longer in the stage it is in. Constants and the reasons for them are in constants.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.sim.machine.constants import CONSTANTS, PhaseConstants
from cohabit.sim.streams import stream

CALM, AVERAGE, BURST = 0, 1, 2
LEVELS = (CALM, AVERAGE, BURST)
_SIGN = (-1.0, 0.0, 1.0)


class Track(NamedTuple):
    """The stages of one run: each ends at this fraction of the work (the last one at 1) and has this level."""

    ends: tuple[float, ...]
    levels: tuple[int, ...]

    def shares_between(self, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the share at each level for every interval between neighbouring edges (fractions of the work)."""
        ends = np.array(self.ends)
        starts = np.concatenate(([0.0], ends[:-1]))
        low, high = edges[:-1, None], edges[1:, None]
        overlap = np.clip(np.minimum(high, ends) - np.maximum(low, starts), 0.0, None)
        levels = np.array(self.levels)
        spent = np.stack([overlap[:, levels == level].sum(axis=1) for level in LEVELS], axis=1)
        shares: NDArray[np.float64] = spent / spent.sum(axis=1, keepdims=True)
        return shares


STEADY = Track((1.0,), (AVERAGE,))


def draw_track(rng: np.random.Generator, constants: PhaseConstants = CONSTANTS.phases) -> Track:
    """The stages of one run."""
    ends: list[float] = []
    levels: list[int] = []
    done = 0.0
    while done < 1.0:
        length = min(float(rng.exponential(1.0 / constants.cycles_per_run)), 1.0 - done)
        if length <= 0.0:
            continue
        place = done
        for level in rng.permutation(3).tolist():
            place += constants.shares[level] * length
            if levels and levels[-1] == level:
                ends[-1] = place
            else:
                ends.append(place)
                levels.append(level)
        done = 1.0 if done + length >= 1.0 else done + length
    ends[-1] = 1.0
    return Track(tuple(ends), tuple(levels))


@dataclass(frozen=True)
class Phases:
    """The stages of every job, by its name and the seed alone: the same under every policy."""

    seed: int
    constants: PhaseConstants = CONSTANTS.phases

    def track(self, job_id: str) -> Track:
        """Return the stages of this job's run."""
        return draw_track(stream(self.seed, f"phases of {job_id}"), self.constants)


class Multipliers(NamedTuple):
    """The effect of one level on the profiled averages."""

    bandwidth: float
    sensitivity: float  # of IPC: 1 - sensitivity * (1 - ipc)


def multipliers(level: int, room: float, least_ipc: float, constants: PhaseConstants = CONSTANTS.phases) -> Multipliers:
    """Return bandwidth and cache sensitivity at a level, bounded on both sides alike so that the mean stays 1.

    `room` is what the cores can draw at most over what the program draws on average; `least_ipc` is its relative IPC
    with the least cache.
    """
    bandwidth = min(constants.bandwidth_amplitude, max(0.0, room - 1.0))
    loss = 1.0 - least_ipc
    bearable = least_ipc * (1.0 - constants.least_ipc_share) / loss if loss > 0 else constants.sensitivity_amplitude
    sensitivity = min(constants.sensitivity_amplitude, max(0.0, bearable))
    return Multipliers(1.0 + _SIGN[level] * bandwidth, 1.0 + _SIGN[level] * sensitivity)
