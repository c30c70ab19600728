"""Record how much memory bandwidth every node drew in every episode of a run: the matrix behind a heat map (S59)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cohabit.model.units import microseconds
from cohabit.sim.machine.constants import CONSTANTS


class BandwidthRecorder:
    """Averages by node and episode; it keeps nodes x episodes numbers, so it is meant for small clusters."""

    def __init__(
        self, episode_us: int = microseconds(CONSTANTS.recorder.episode_s), begin_us: int | None = None
    ) -> None:
        assert episode_us > 0
        self.episode_us = episode_us
        self.begin_us = begin_us  # None: the first instant that is recorded
        self._last_us = 0
        self._drawn: NDArray[np.float64] | None = None  # since then
        self._rows: list[NDArray[np.float64]] = []  # GB/s times microseconds

    def record(self, now_us: int, gbs_by_node: NDArray[np.float64]) -> None:
        """Record what the nodes draw from now on."""
        if self._drawn is None:
            self.begin_us = now_us if self.begin_us is None else self.begin_us
            self._last_us, self._drawn = self.begin_us, np.zeros_like(gbs_by_node)
        self._advance(now_us)
        self._drawn = gbs_by_node

    def matrix(self, until_us: int | None = None) -> NDArray[np.float64]:
        """Return average GB/s, one row per node, one column per episode; the last episode may be shorter."""
        if self._drawn is None or self.begin_us is None:
            return np.zeros((0, 0))
        if until_us is not None:
            self._advance(until_us)
        if not self._rows:
            return np.zeros((len(self._drawn), 0))
        lasted = np.full(len(self._rows), float(self.episode_us))
        lasted[-1] = self._last_us - self.begin_us - self.episode_us * (len(self._rows) - 1)
        matrix: NDArray[np.float64] = np.stack(self._rows, axis=1) / lasted
        return matrix

    def _advance(self, now_us: int) -> None:
        assert self._drawn is not None
        assert self.begin_us is not None
        while self._last_us < now_us:
            episode = (self._last_us - self.begin_us) // self.episode_us
            if episode == len(self._rows):
                self._rows.append(np.zeros_like(self._drawn))
            end = min(now_us, self.begin_us + (episode + 1) * self.episode_us)
            self._rows[episode] += self._drawn * (end - self._last_us)
            self._last_us = end
