"""The options of placements; each reads its own (`from_options`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cohabit.policy.degradation import Degradations


class PlacementOptions(NamedTuple):
    """The keys of [policy] that concern nodes."""

    alpha: float = 0.9
    beta: float = 2.0
    scales: tuple[int, ...] = (1, 2, 4, 8)
    divide_cache: bool = True
    book_bandwidth: bool = True
    learn: bool = True
    bound: float = 0.0  # alpha, if the scenario states one
    moves: int = 0
    pairing: str = "greedy"
    degradations: Degradations | None = None  # mutual slowdowns of jobs, as far as known
    threshold_pct: float = 100.0
    group_size: int = 2
    window: int = 150
    oversubscribe: bool = True
    refill: bool = False
