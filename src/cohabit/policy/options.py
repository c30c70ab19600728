"""The options of policies; each policy reads its own where it is made. They are checked where they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cohabit.policy.degradation import Degradations
    from cohabit.predict.variability import VariabilityModel


OBJECTIVES = ("turnaround", "slowdown", "makespan", "node-hours")
ALONE, BY_CORES = UNKNOWN = ("alone", "cores")  # how programs without a whole profile run


class TrialRules(NamedTuple):
    """When the exploration of scales stops (S16): x and y of the paper."""

    least_cores: int = 2  # on a node
    worst_loss: float = 0.05  # of speed, against scale 1


PAPERS_RULES = TrialRules()
ALL_SCALES = tuple(2**power for power in range(13))  # explored until a program no longer gains


class PlacementOptions(NamedTuple):
    """The keys of [policy] that concern nodes and their caches."""

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
    look_ahead: int = 6
    objective: str = "turnaround"
    unknown: str = ALONE
    planned: bool = False
    evaluations: int = 4000
    trial_rules: TrialRules = PAPERS_RULES
    explore: float = 0.0  # share of the pairs that are made to learn


class GateOptions(NamedTuple):
    """The keys of [policy] that concern gates."""

    model: VariabilityModel | None = None  # None: nothing is known, nothing is gated
    labels: tuple[str, ...] = ("variation",)
    skip_threshold: int = 10
    all_nodes: bool = False
    cost_aware: bool = False
    choose_nodes: bool = False
    longest_wait_us: int = 600_000_000
    price_us: int = 120_000_000
