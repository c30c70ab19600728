"""What a person can set of the placements; each takes what concerns it (`from_options`)."""

from __future__ import annotations

from typing import NamedTuple


class PlacementOptions(NamedTuple):
    """The keys of [policy] that are about nodes."""

    alpha: float = 0.9
    beta: float = 2.0
    scales: tuple[int, ...] = (1, 2, 4, 8)
    divide_cache: bool = True
    book_bandwidth: bool = True
    learn: bool = True
    bound: float = 0.0  # alpha, where the scenario states one
    moves: int = 0
