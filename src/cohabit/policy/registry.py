"""Every policy by name. Adding one is a file in its folder and a line here; the contract tests then run over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cohabit.core.protocols import Gate, Order, Partitioner, Placer, SharedPlacer
from cohabit.model.errors import InputError, unknown
from cohabit.orders.loading import GIVEN, OrderEntry, entry_of_file, given_entry, load_order, refers_to_usage
from cohabit.policy.options import GateOptions, PlacementOptions
from cohabit.source_files import load_source


class Entry(NamedTuple):
    """The location of a placement, a cache division or a gate, and what a user should know of it."""

    module: str
    name: str  # of a class or function that takes the options
    summary: str
    source: str
    partitions: tuple[str, ...] = ()  # of a placement: the cache divisions it supports, the default first

    def make(self, *options: Any) -> Any:
        """Load and make the policy."""
        return getattr(load_source(self.module), self.name)(*options)


@dataclass(frozen=True)
class Described:
    """A policy that is not a score function."""

    summary: str
    source: str


_ORDER = "cohabit.policy.order."
ORDERS: dict[str, OrderEntry] = {
    "fcfs": OrderEntry(_ORDER + "fcfs", "scores", False, "first come, first served", "textbook"),
    "sjf": OrderEntry(_ORDER + "sjf", "shortest", False, "shortest request first", "textbook"),
    "ljf": OrderEntry(_ORDER + "sjf", "longest", False, "longest request first", "textbook"),
    "saf": OrderEntry(_ORDER + "saf", "scores", False, "smallest requested area first", "textbook"),
    "wfp": OrderEntry(
        _ORDER + "wfp", "scores", True, "longest wait per request, wide jobs first", "Cobalt, ICPP 2011", falling=True
    ),
    "unicef": OrderEntry(
        _ORDER + "unicef", "scores", True, "small and short jobs first, by wait", "CLUSTER 2019", falling=True
    ),
    "f1": OrderEntry(_ORDER + "regression", "f1", False, "fitted: log10(r) n + 870 log10(s)", "SC 2017"),
    "f2": OrderEntry(_ORDER + "regression", "f2", False, "fitted: sqrt(r) n + 25600 log10(s)", "SC 2017"),
    "f3": OrderEntry(_ORDER + "regression", "f3", False, "fitted: r n + 6860000 log10(s)", "SC 2017"),
    "f4": OrderEntry(_ORDER + "regression", "f4", False, "fitted: r sqrt(n) + 530000 log10(s)", "SC 2017"),
    "age": OrderEntry(_ORDER + "age", "scores", False, "oldest eligible first", "Spread-n-Share, SC 2019"),
    "multifactor": OrderEntry(
        _ORDER + "multifactor", "scores", True,
        "age, size, fair share and QOS, weighted", "Slurm multifactor", falling=True,
    ),
}  # fmt: skip

BACKFILLS: dict[str, Described] = {
    "none": Described("strict order: stop at the first job that does not fit", "textbook"),
    "easy": Described("the head is promised a start; others may pass if they do not delay it", "Lifka, JSSPP 1995"),
    "conservative": Described("every job is promised a start that never moves later", "Feitelson and Weil, 1998"),
    "first-fit": Described("promise nothing; start whatever fits, in order", "Cobalt's cluster side (K13)"),
    "<depth>": Described("a whole number: that many blocked jobs are promised a start", "Fluxion hybrid"),
}

_PLACEMENT = "cohabit.policy.placement."
PLACEMENTS: dict[str, Entry] = {
    "exclusive": Entry(
        _PLACEMENT + "exclusive", "Exclusive", "CE: every job has its nodes to itself, as few as it needs", "SC 2019"
    ),
    "share": Entry(
        _PLACEMENT + "share", "Share",
        "CS: nodes are shared by free cores, at the lowest scale that fits", "SC 2019", ("none", "guarantee"),
    ),
    "spread": Entry(
        _PLACEMENT + "spread", "Spread",
        "SNS: spread and share as profiles of cache and bandwidth allow", "SC 2019", ("equal", "guarantee"),
    ),
    "joint": Entry(
        _PLACEMENT + "planned", "by_form",
        "spread, share and wait by what it costs all jobs, under a slowdown bound", "ours",
        ("spare", "guarantee", "equal"),
    ),
    "shepherd": Entry(
        _PLACEMENT + "shepherd", "Shepherd",
        "where nodes gain most from a job, with the cache divided by profiles", "Shepherd, PACT 2017",
        ("utility", "guarantee"),
    ),
    "pair": Entry(
        _PLACEMENT + "pair", "by_method",
        "two jobs a node, chosen to hurt each other least; cores shared in time", "Intelligent Colocation, 2019",
        ("none", "guarantee"),
    ),
}  # fmt: skip

_PARTITION = "cohabit.policy.partition."
PARTITIONS: dict[str, Entry] = {
    "equal": Entry(
        _PARTITION + "equal", "Equal", "what jobs booked; the rest in equal shares", "Spread-n-Share, SC 2019"
    ),
    "spare": Entry(_PARTITION + "spare", "Spare", "what jobs booked; the rest to those that gain most by it", "ours"),
    "utility": Entry(
        _PARTITION + "utility", "Utility", "to whom ways are worth most, in groups", "Shepherd, PACT 2017; KPart, 2018"
    ),
    "guarantee": Entry(
        _PARTITION + "guarantee", "Guarantee",
        "the usual way, corrected for jobs that measurably fall below alpha", "ours, after SC 2019",
    ),
}  # fmt: skip
UNDIVIDED, GUARANTEE = "none", "guarantee"

GATES: dict[str, Entry] = {
    "variability": Entry(
        "cohabit.policy.gate.variability", "by_model",
        "wait while a trained model expects the job to vary, a bounded number of times", "RUSH, IPDPS 2022",
    ),
    "paying": Entry(
        "cohabit.policy.gate.paying", "by_model",
        "wait where a start into noise is expected to lose more than the wait, for a bounded time", "ours, after RUSH",
    ),
}  # fmt: skip
UNGATED = "none"

LISTED_BY = "cohabit policies"

BUNDLES: dict[str, tuple[dict[str, Any], Described]] = {
    "cohabit": (
        {"order": "fcfs", "backfill": "easy", "placement": "joint", "partition": "guarantee"},
        Described("spread, share, divide and promise: the five papers in one policy", "ours"),
    ),
    "ce": (
        {"order": "age", "backfill": "first-fit", "placement": "exclusive", "age_limit_runs": 4.0},
        Described("compact and exclusive: the queue of cs and sns, one job per node", "Spread-n-Share, SC 2019"),
    ),
    "cs": (
        {"order": "age", "backfill": "first-fit", "placement": "share", "age_limit_runs": 4.0},
        Described("compact and shared: free cores, nothing known of cache and bandwidth", "Spread-n-Share, SC 2019"),
    ),
    "sns": (
        {"order": "age", "backfill": "first-fit", "placement": "spread", "age_limit_runs": 4.0},
        Described("spread and share under a slowdown bound, cache divided", "Spread-n-Share, SC 2019"),
    ),
    "sns-guarantee": (
        {
            "order": "age",
            "backfill": "first-fit",
            "placement": "spread",
            "age_limit_runs": 4.0,
            "partition": "guarantee",
        },
        Described("sns that measures running jobs and gives back to those below alpha", "ours, after SC 2019"),
    ),
    "shepherd": (
        {"order": "age", "backfill": "first-fit", "placement": "shepherd", "age_limit_runs": 4.0},
        Described("share where it pays, cache divided by what ways are worth to each", "Shepherd, PACT 2017"),
    ),
    "ce-easy": (
        {"order": "fcfs", "backfill": "easy", "placement": "exclusive"},
        Described("FCFS with EASY backfilling, CE: the fair baseline", "Lifka, JSSPP 1995"),
    ),
    "slurm": (
        {
            "order": "multifactor",
            "backfill": 10,
            "placement": "share",
            "scales": (1,),
            "bf_interval_s": 30.0,
            "bf_window_s": 86400.0,
            "bf_resolution_s": 60.0,
            "bf_max_job_test": 500,
        },
        Described("stock Slurm on shared cores: multifactor, backfilling in cycles", "Slurm's sched/backfill"),
    ),
    "rush": (
        {"order": "fcfs", "backfill": "easy", "placement": "exclusive", "gate": "variability"},
        Described("ce-easy that waits for a calmer machine, by telemetry and a trained model", "RUSH, IPDPS 2022"),
    ),
    "rush-paying": (
        {"order": "fcfs", "backfill": "easy", "placement": "exclusive", "gate": "paying"},
        Described(
            "rush that weighs both losses, lends its nodes meanwhile and waits a bounded time", "ours, after RUSH"
        ),
    ),
    **{
        f"cosched-{scheme}": (
            {"order": "wfp", "backfill": "easy", "placement": "exclusive", "scheme": scheme},
            Described(f"WFP with EASY; {summary}", source),
        )
        for scheme, summary, source in (
            ("hold", "a job whose mate is not ready keeps its nodes", "Coscheduling, ICPP 2011"),
            ("yield", "a job whose mate is not ready lets others go", "Coscheduling, ICPP 2011"),
            ("agree", "mates settle on a common start and reserve it", "ours, after ICPP 2011"),
        )
    },
    "fifo": (
        {"order": "fcfs", "backfill": "none", "placement": "exclusive"},
        Described("one after the other, exclusive", "Intelligent Colocation, 2019"),
    ),
    **{
        name: (
            {"order": "fcfs", "backfill": "none", "placement": "pair", "pairing": pairing},
            Described(summary, "Intelligent Colocation, 2019"),
        )
        for name, pairing, summary in (
            ("fifo-shared", "consecutive", "in order, two jobs a node, without knowing anything of them"),
            ("distributed-intensity", "intensity", "the job with most cache misses beside the one with fewest"),
            ("pair-greedy", "greedy", "the pair that hurts least first; bad pairs one after the other"),
            ("pair-optimal", "optimal", "pairs of least total degradation; bad pairs one after the other"),
            ("pair-saving", "saving", "pairs that save most time against one after the other (ours)"),
        )
    },
}


def order_entry(name: str) -> OrderEntry:
    """Look an order up by name, or take a path to a file with a function `scores`."""
    if name.endswith(".py"):
        return entry_of_file(Path(name))
    if name not in ORDERS:
        raise unknown("order", name, ORDERS, LISTED_BY)
    return ORDERS[name]


def give_order(name: str, scores: Callable[..., Any], *, changing: bool, falling: bool, summary: str) -> None:
    """Add an order as a function object, for this process; built-in names are refused, given ones replaced."""
    if name in ORDERS and not is_given(name):
        raise InputError(f"there is an order {name!r} already", "", "give it another name")
    ORDERS[name] = given_entry(name, scores, changing, falling, summary)


def is_given(name: str) -> bool:
    """Return whether an order was given as a function object."""
    return name in ORDERS and ORDERS[name].module.startswith(GIVEN)


def looks_at_usage(name: str) -> bool:
    """Return whether an order depends on the users' usage; only then is usage counted."""
    return refers_to_usage(order_entry(name))


def make_order(name: str, options: dict[str, Any], in_passes: bool) -> Order:
    """Return the order by name with its parameters; in_passes: it is called in every pass, not once per job."""
    return load_order(name, order_entry(name), options, in_passes)


def make_placement(name: str, options: PlacementOptions) -> Placer | SharedPlacer:
    """Return the placement by name, with its options."""
    if name not in PLACEMENTS:
        raise unknown("placement", name, PLACEMENTS, LISTED_BY)
    made: Placer | SharedPlacer = PLACEMENTS[name].make(options)
    return made


def make_gates(name: str, options: GateOptions) -> tuple[Gate, ...]:
    """Return the gate by name, with its options; none if none is configured."""
    if name == UNGATED:
        return ()
    if name not in GATES:
        raise unknown("gate", name, [*GATES, UNGATED], LISTED_BY)
    return (GATES[name].make(options),)


def make_partitioner(placement: str, name: str | None, options: PlacementOptions) -> Partitioner | None:
    """Return the cache division for a placement: as named, or its default; None: it is not divided."""
    possible = PLACEMENTS[placement].partitions
    chosen = name or (possible[0] if possible else UNDIVIDED)
    if chosen == UNDIVIDED:
        return None
    if chosen not in PARTITIONS:
        raise unknown("way to divide the cache", chosen, [*PARTITIONS, UNDIVIDED], LISTED_BY)
    if possible and chosen not in possible:
        raise InputError(
            f"partition = {chosen!r} does not go with placement {placement!r}",
            "policy.partition",
            f"use {' or '.join(map(repr, dict.fromkeys((*possible, UNDIVIDED))))}",
        )
    if not possible:
        return None
    under = (make_partitioner(placement, possible[0], options),) if chosen == GUARANTEE else ()
    made: Partitioner = PARTITIONS[chosen].make(options, *under)
    return made
