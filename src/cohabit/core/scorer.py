"""The orders of a set of policies as a compiled pass calls them: by address.

An order that is not compiled is reached through a callback into Python that works on the buffers of the pass.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import ScoreEntry
from cohabit.core.columns import Columns
from cohabit.core.kernels.bundles import Scorer, Shortlist
from cohabit.core.protocols import Order, PolicySet


def make_scorer(
    policies: PolicySet,
    columns: Columns,
    usage: NDArray[np.float64],
    waiting: NDArray[np.int64],
    fresh: NDArray[np.float64],
    shortlist: Shortlist,
    failures: list[Exception],
) -> Scorer:
    """Return the orders as a pass calls them: machine code if they are compiled, else a callback into Python.

    `waiting` and `fresh` are the buffers of the pass. An exception in Python cannot cross machine code: it is added to
    `failures`.
    """
    first, second = (
        _entry_of(order if policies.changing else None, columns, waiting, fresh[index], failures)
        for index, order in enumerate((policies.order, policies.backfill_order))
    )
    return Scorer(*first, *second, usage, shortlist)


def _entry_of(
    order: Order | None,
    columns: Columns,
    waiting: NDArray[np.int64],
    fresh: NDArray[np.float64],
    failures: list[Exception],
) -> tuple[ScoreEntry, NDArray[np.float64]]:
    if order is None:
        return ScoreEntry(lambda _count, _now: None), np.zeros(1)
    if order.entry is not None:
        return order.entry, np.array([*order.parameters, 0.0])

    def score_in_python(count: int, now: int) -> None:
        try:
            fresh[:count] = order.raw_scores(columns, waiting[:count], now)
        except Exception as error:
            failures.append(error)
            fresh[:count] = 0.0

    return ScoreEntry(score_in_python), np.zeros(1)
