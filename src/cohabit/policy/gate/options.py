"""The options of gates in a scenario; each gate reads its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cohabit.predict.variability import VariabilityModel


@dataclass(frozen=True)
class GateOptions:
    """Keys of [policy], checked where they are used."""

    model: VariabilityModel | None = None  # None: nothing is known, nothing is gated
    labels: tuple[str, ...] = ("variation",)
    skip_threshold: int = 10
    all_nodes: bool = False
    cost_aware: bool = False
    choose_nodes: bool = False
