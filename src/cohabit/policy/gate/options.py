"""What a scenario can say about gates; each takes from it what concerns it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cohabit.predict.variability import VariabilityModel


@dataclass(frozen=True)
class GateOptions:
    """Keys of [policy], checked by who uses them."""

    model: VariabilityModel | None = None  # None: nothing is known, nothing is gated
    labels: tuple[str, ...] = ("variation",)
    skip_threshold: int = 10
    all_nodes: bool = False
    cost_aware: bool = False
    choose_nodes: bool = False
