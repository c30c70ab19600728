"""Random traces, policies and deeds from a seeded stream, for long campaigns; strategies.py is for hypothesis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cohabit.model.units import SECOND
from cohabit.policy.registry import ORDERS, PLACEMENTS
from tests.support.builders import Choice, TraceRow
from tests.support.rehearsal import KINDS, Deed

BACKFILLS = ("none", "easy", "1", "2", "3", "8", "conservative", "first-fit")


def takes_backfill_order(backfill: str) -> bool:
    """Return whether a backfill takes a second order."""
    return backfill not in ("none", "0", "conservative")


def random_choice(rng: np.random.Generator) -> Choice:
    """An order, a backfill and sometimes a backfill order."""
    order, backfill = str(rng.choice(list(ORDERS))), str(rng.choice(BACKFILLS))
    second = str(rng.choice(list(ORDERS))) if takes_backfill_order(backfill) and rng.random() < 0.4 else None
    return Choice(order, backfill, second)


def sometimes_gated(rng: np.random.Generator, choice: Choice) -> Choice:
    """The same, now and then with a gate that delays some or all starts."""
    return choice._replace(skip_rate=float(rng.choice([0.3, 1.0]))) if rng.random() < 0.2 else choice


def random_trace(rng: np.random.Generator, jobs: int, nodes: int, longest_s: int = 3600) -> list[TraceRow]:
    """Ties, run 0, request below run, request 0, whole-machine and too large jobs, submits out of order."""
    scale = min(int(rng.choice([3, 12, 60, 3600])), longest_s)
    span = int(rng.integers(0, max(2, jobs * scale // 2)))
    submit, run = rng.integers(0, span + 1, jobs), rng.integers(0, scale + 1, jobs)
    accurate, loose = run, run + rng.integers(0, scale + 1, jobs)
    limit = np.choose(rng.integers(0, 5, jobs), [accurate, loose, rng.integers(0, scale + 1, jobs), loose, 2 * loose])
    small = 1 + rng.integers(0, max(1, nodes // int(rng.integers(1, 9))), jobs)
    size = np.where(rng.random(jobs) < 0.1, nodes + (rng.random(jobs) < 0.1), np.minimum(small, nodes))
    if rng.random() < 0.6:
        limit = np.maximum(limit, 1)
    if rng.random() < 0.7:
        submit = np.sort(submit)
    unit = SECOND if rng.random() < 0.8 else int(rng.integers(1, SECOND))
    user = rng.integers(-1, int(rng.integers(1, 6)), jobs)
    columns = (submit * unit, run * unit, limit * unit, size, user)
    return [TraceRow(*map(int, row)) for row in zip(*columns, strict=True)]


def random_shared_choice(rng: np.random.Generator) -> Choice:
    """Any placement that shares nodes, with any order."""
    placement = str(rng.choice([name for name in PLACEMENTS if name != "exclusive"]))
    backfill, limit_s = (
        str(rng.choice(["none", "first-fit", "easy", "3", "conservative"])),
        float(rng.choice([0.0, 1.0, 20.0])),
    )
    order = str(rng.choice(list(ORDERS)))
    moves = int(rng.choice([0, 1, 3])) if placement == "shepherd" else 0
    return Choice(order, backfill, None, placement, limit_s if backfill == "first-fit" else 0.0, moves)


def random_deeds(rng: np.random.Generator, count: int, kinds: Sequence[str] = KINDS) -> list[Deed]:
    """Anything that can happen, submissions, waits and ends more often than the rest."""
    often = {"submit": 6.0, "wait": 6.0, "finish": 6.0, "confirm": 3.0, "follow": 3.0, "array": 2.0}
    weights = np.array([often.get(kind, 1.0) for kind in kinds])
    weights *= 0.1 + rng.random(len(kinds))  # every run has its own weights
    chosen = rng.choice(kinds, count, p=weights / weights.sum())
    salts, joined = rng.integers(0, 2**40, count), rng.random(count) < rng.choice([0.0, 0.2, 0.5])
    return [Deed(str(kind), int(salt), bool(tied)) for kind, salt, tied in zip(chosen, salts, joined, strict=True)]
