"""Why a job waits for shared nodes: which scales were tried and what the nearest node lacked."""

from __future__ import annotations

from collections.abc import Sequence

from cohabit.core.kernels import STRICT
from cohabit.core.ledger import Ledger, Takes
from cohabit.core.protocols import Explaining, GroupPlacer, PolicySet, SharedPlacer
from cohabit.core.sharing import open_kinds
from cohabit.core.view import View
from cohabit.model.plan import Ask


def why_not_shared(view: View, policies: PolicySet, placer: SharedPlacer, row: int, queue: list[int]) -> str:
    """Which scales were tried and what was missing on the nearest node, or who may not be overtaken."""
    own = placer.why_not(row, view) if isinstance(placer, Explaining) else ""
    if own and isinstance(placer, GroupPlacer):
        return own
    age_limit_us = view.age_limit_us()
    strict = policies.backfill.depth == STRICT
    for other in queue[: queue.index(row)]:
        if strict or view.waited_us(other) >= age_limit_us:
            why = "nothing may overtake" if strict else "it has reached the age limit and may not be overtaken"
            return f"job {view.job_id(other)} is ahead of it and {why}"
    if own:
        return own
    asks = view.asks(row, placer)
    shared = [ask for ask in asks if not ask.exclusive]
    tried = [_what_is_missing(ask, row, view) for ask in (asks if not shared else asks[: asks.index(shared[-1]) + 1])]
    return "; ".join(tried) if tried else "no scale is possible for it"


def _what_is_missing(ask: Ask, row: int, view: View) -> str:
    """How far one way of running the job is from fitting."""
    ledger, takes = view.ledger, open_kinds(ask, row, view)
    if not any(takes):
        return f"scale {ask.scale}: a maintenance window closes the nodes it may use before its time is over"
    have = ledger.room(takes)
    where = "empty nodes" if ask.exclusive else f"nodes with {_listed(ledger, next(filter(None, takes)))}"
    text = f"scale {ask.scale}: needs {ask.nodes} {where}, {have} have that"
    if have >= ask.nodes:
        return text + ", but jobs ahead of it take them"
    nearest = _nearest(ledger, takes)
    if nearest is None:
        return text
    return f"{text}; the nearest, node {nearest[0]}, lacks {nearest[1]}"


def _nearest(ledger: Ledger, takes: Takes) -> tuple[int, str] | None:
    """The unsuitable node that lacks least, by the sum of missing fractions, and what it lacks."""
    best: tuple[float, int, str] | None = None
    for index in ledger.classes():
        kind = int(ledger.kind[index])
        if not takes[kind] or not ledger.up[index]:
            continue
        lacking = [max(0, want - int(free)) for want, free in zip(takes[kind], ledger.free[:, index], strict=True)]
        distance = sum(lack / max(int(cap), 1) for lack, cap in zip(lacking, ledger.capacity[kind], strict=True))
        if any(lacking) and (
            best is None or (distance, int(ledger.first[index])) < (best[0], int(ledger.first[best[1]]))
        ):
            best = (distance, index, _listed(ledger, lacking) or "a cache partition")
    return None if best is None else (int(ledger.first[best[1]]), best[2])


def _listed(ledger: Ledger, amounts: Sequence[int]) -> str:
    shown = [
        f"{amount / 1000:.1f} GB/s" if dimension.unit == "MB/s" else f"{amount} {dimension.unit}"
        for dimension, amount in zip(ledger.dimensions, amounts, strict=True)
        if amount and dimension.name != "partitions"
    ]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
