"""Convert a mix of named programs into arrays for the kernels: equal programs are one kind, whatever their names.

Two programs with the same curve, costs and bound behave alike, so sets of jobs that differ in names only are one set to
the search. Kinds are numbered in the order in which they first appear; no name reaches a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cohabit.model.mix import Floats, Ints, Mix
from cohabit.optimise import law
from cohabit.optimise.division import HARMONIC, MINIMUM, WEIGHTED, Tables

OBJECTIVES = {"weighted": WEIGHTED, "harmonic": HARMONIC, "min": MINIMUM}
_GOLDEN = 0x9E3779B97F4A7C15
_WORD = 2**64 - 1


@dataclass(frozen=True)
class Problem:
    """A mix, prepared: what every search starts from."""

    mix: Mix
    tables: Tables
    kind_of: Ints  # of every job

    @property
    def alone(self) -> Floats:
        """IPC of every job by itself on a node."""
        found: Floats = self.tables.alone[self.kind_of]
        return found


def prepare(mix: Mix) -> Problem:
    """The arrays of a mix."""
    bounds = np.zeros(len(mix)) if mix.alpha is None else mix.alpha
    columns = np.column_stack([mix.mpki, mix.cpi0, mix.cycles_per_miss, bounds])
    kinds: dict[bytes, int] = {}
    kind_of = np.array([kinds.setdefault(row.tobytes(), len(kinds)) for row in columns], dtype=np.int64)
    first = np.array([int(np.flatnonzero(kind_of == kind)[0]) for kind in range(len(kinds))], dtype=np.int64)
    return Problem(mix, tables_of(mix.only(first)), kind_of)


def tables_of(mix: Mix) -> Tables:
    """Arrays in which every program of the mix is a kind of its own."""
    relative = law.rate_of(mix.freq_ghz) / mix.bandwidth_cap_gbs
    mpki = np.ascontiguousarray(mix.mpki, dtype=np.float64)
    cpi0 = np.ascontiguousarray(mix.cpi0, dtype=np.float64)
    cost = np.ascontiguousarray(mix.cycles_per_miss, dtype=np.float64) / 1000.0
    alone = np.empty(len(mix))
    law.alone(mpki, cpi0, cost, relative, alone)
    bound = np.zeros(len(mix)) if mix.alpha is None else np.ascontiguousarray(mix.alpha, dtype=np.float64)
    words = [(mixed_word(2 * kind + 1), mixed_word(2 * kind + 2)) for kind in range(len(mix))]
    keys = np.array(words, dtype=np.uint64).reshape(len(mix), 2)
    return Tables(mpki, cpi0, cost, alone, bound, keys[:, 0].copy(), keys[:, 1].copy(), relative)


def mixed_word(number: int) -> int:
    """A word that looks random and is always the same for the same number (splitmix64)."""
    word = (number * _GOLDEN) & _WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return word ^ (word >> 31)
