"""The search for a placement: annealing from a start, in stretches, with the caller's clock if there is one.

The same problem, start, word and number of swaps always give the same placement, and renumbering the nodes of the start
renumbers the result. The result is never worse than the start: the best placement seen is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cohabit.model.mix import Ints
from cohabit.optimise import annealing, starts
from cohabit.optimise.division import make_work
from cohabit.optimise.memo import HITS, LOOKUPS, Memo, Valuer, grown, make_memo
from cohabit.optimise.tables import OBJECTIVES, Problem

SWAPS_PER_JOB = 256  # enough to come within a tenth of a percent of a search ten times as long
FIRST_TEMPERATURE, LAST_TEMPERATURE = 0.003, 2e-5  # of weighted speedup
MARGIN = 0.001
STRETCH = 4096  # most swaps between two checks of the clock
TIMED_STRETCH = 256

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Budget:
    """The length of a search: so many swaps, or until `used` (the share of the time that has passed) reaches 1."""

    swaps: int = 0
    used: Callable[[], float] | None = None


@dataclass(frozen=True)
class Found:
    """The result of a search."""

    place: Ints  # node of every job
    value: float  # by the search's own objective
    start_value: float
    swaps: int
    lookups: int
    hits: int


def default_swaps(jobs: int) -> int:
    """Return a number of swaps that is enough for most mixes."""
    return SWAPS_PER_JOB * jobs


def search(
    problem: Problem,
    start: Ints,
    word: int,
    budget: Budget,
    *,
    shared: bool = False,
    objective: str = "weighted",
    memo: Memo | None = None,
    margin: float = MARGIN,
    progress: Progress | None = None,
) -> Found:
    """Anneal from a start; `word` begins the random sequence, `shared`: no cache is divided."""
    mix = problem.mix
    place, old = starts.canonical(start, mix.nodes)
    seats = starts.seats_of(place, mix.nodes, mix.room)
    seating = annealing.make_seating(seats, problem.kind_of, mix.nodes, mix.buckets, word)
    scratch = annealing.make_scratch(mix.room, mix.buckets)
    memo = make_memo() if memo is None else memo
    valuer = Valuer(problem.tables, OBJECTIVES[objective], make_work(mix.room, mix.buckets), memo, shared)
    before = memo.counts.copy()
    annealing.seat_all(seating, valuer, scratch)
    start_value = float(seating.totals[0])
    done = 0
    while mix.nodes > 1:
        share = budget.used() if budget.used is not None else done / max(budget.swaps, 1)
        if share >= 1.0 or (budget.used is None and done >= budget.swaps):
            break
        swaps = TIMED_STRETCH if budget.used is not None else min(STRETCH, budget.swaps - done)
        falling = 1.0 if budget.used is not None else _temperature(1.0) / _temperature(0.0)
        cooling = falling ** (1.0 / max(budget.swaps, 1))
        valuer = valuer._replace(memo=grown(valuer.memo))
        proposed = annealing.anneal(seating, valuer, scratch, margin, swaps, _temperature(share), cooling)
        done += proposed
        if progress is not None and budget.used is None:
            progress(done, budget.swaps)
        if proposed < swaps:  # no two jobs differ: there is nothing to exchange
            break
    lookups, hits = (int(valuer.memo.counts[at] - before[at]) for at in (LOOKUPS, HITS))
    best = old[starts.place_of(seating.best, len(mix), mix.room)]
    return Found(best, float(seating.totals[1]), start_value, done, lookups, hits)


def _temperature(share: float) -> float:
    return float(FIRST_TEMPERATURE * (LAST_TEMPERATURE / FIRST_TEMPERATURE) ** min(share, 1.0))
