"""Every policy by name. Adding one is a file in its folder and a line here; the contract tests then run over it."""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import JOB_COLUMNS, USER, Columns, columns_of
from cohabit.core.protocols import Gate, Order, Partitioner, Placer, SharedPlacer
from cohabit.model.errors import InputError
from cohabit.policy.gate.options import GateOptions
from cohabit.policy.placement.options import PlacementOptions
from cohabit.trusted import doubt_of

if TYPE_CHECKING:
    pass


class OrderEntry(NamedTuple):
    """Where an order lives and what a person should know of it."""

    module: str
    function: str
    changing: bool  # whether the score depends on the time, so that it is computed in every pass
    summary: str
    source: str
    falling: bool = False  # whether no score rises while the job waits, nor falls as its user's share of usage grows


class PlacementEntry(NamedTuple):
    """Where a placement lives and what a person should know of it."""

    module: str
    name: str  # of a class with `from_options`
    partitions: tuple[str, ...]  # how it can have the cache divided, the usual way first; none: it cannot
    summary: str
    source: str


class PartitionEntry(NamedTuple):
    """Where a way to divide the cache lives and what a person should know of it."""

    module: str
    name: str  # of a class with `from_options`
    summary: str
    source: str


class GateEntry(NamedTuple):
    """Where a gate lives and what a person should know of it."""

    module: str
    name: str  # of a class with `from_options`
    summary: str
    source: str


@dataclass(frozen=True)
class Described:
    """A policy that is not a score function."""

    summary: str
    source: str


_ORDER = "cohabit.policy.order."
_GIVEN = "cohabit_given_order_"  # modules of orders given as a function object
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
        _ORDER + "multifactor",
        "scores",
        True,
        "age, size, fair share and QOS, weighted",
        "Slurm multifactor",
        falling=True,
    ),
}

BACKFILLS: dict[str, Described] = {
    "none": Described("strict order: stop at the first job that does not fit", "textbook"),
    "easy": Described("the head is promised a start; others may pass if they do not delay it", "Lifka, JSSPP 1995"),
    "conservative": Described("every job is promised a start that never moves later", "Feitelson and Weil, 1998"),
    "first-fit": Described("promise nothing; start whatever fits, in order", "Cobalt's cluster side (K13)"),
    "<depth>": Described("a whole number: that many blocked jobs are promised a start", "Fluxion hybrid"),
}

_PLACEMENT = "cohabit.policy.placement."
PLACEMENTS: dict[str, PlacementEntry] = {
    "exclusive": PlacementEntry(
        _PLACEMENT + "exclusive",
        "Exclusive",
        (),
        "CE: every job has its nodes to itself, as few as it needs",
        "SC 2019",
    ),
    "share": PlacementEntry(
        _PLACEMENT + "share",
        "Share",
        ("none", "guarantee"),
        "CS: nodes are shared by free cores, at the lowest scale that fits",
        "SC 2019",
    ),
    "spread": PlacementEntry(
        _PLACEMENT + "spread",
        "Spread",
        ("equal", "guarantee"),
        "SNS: spread and share as profiles of cache and bandwidth allow",
        "SC 2019",
    ),
    "shepherd": PlacementEntry(
        _PLACEMENT + "shepherd",
        "Shepherd",
        ("utility", "guarantee"),
        "where nodes gain most from a job, with the cache divided by profiles",
        "Shepherd, PACT 2017",
    ),
    "pair": PlacementEntry(
        _PLACEMENT + "pair",
        "Pair",
        ("none", "guarantee"),
        "two jobs a node, chosen to hurt each other least; cores shared in time",
        "Intelligent Colocation, 2019",
    ),
}

_PARTITION = "cohabit.policy.partition."
PARTITIONS: dict[str, PartitionEntry] = {
    "equal": PartitionEntry(
        _PARTITION + "equal", "Equal", "what jobs booked; the rest in equal shares", "Spread-n-Share, SC 2019"
    ),
    "utility": PartitionEntry(
        _PARTITION + "utility", "Utility", "to whom ways are worth most, in groups", "Shepherd, PACT 2017; KPart, 2018"
    ),
    "guarantee": PartitionEntry(
        _PARTITION + "guarantee", "Guarantee",
        "the usual way, corrected for jobs that measurably fall below alpha", "ours, after SC 2019",
    ),
}  # fmt: skip
UNDIVIDED, GUARANTEE = "none", "guarantee"

GATES: dict[str, GateEntry] = {
    "variability": GateEntry(
        "cohabit.policy.gate.variability",
        "VariabilityGate",
        "wait while a trained model expects the job to vary, a bounded number of times",
        "RUSH, IPDPS 2022",
    ),
}
UNGATED = "none"

LISTED_BY = "cohabit policies"

BUNDLES: dict[str, tuple[dict[str, Any], Described]] = {
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
    "rush": (
        {"order": "fcfs", "backfill": "easy", "placement": "exclusive", "gate": "variability"},
        Described("ce-easy that waits for a calmer machine, by telemetry and a trained model", "RUSH, IPDPS 2022"),
    ),
    **{
        f"cosched-{scheme}": (
            {"order": "wfp", "backfill": "easy", "placement": "exclusive", "scheme": scheme},
            Described(summary, source),
        )
        for scheme, summary, source in (
            (
                "hold",
                "WFP with EASY; a job whose mate is not ready keeps its nodes",
                "Coscheduling, ICPP 2011",
            ),
            (
                "yield",
                "WFP with EASY; a job whose mate is not ready lets others go",
                "Coscheduling, ICPP 2011",
            ),
            ("agree", "WFP with EASY; mates settle on a common start and reserve it", "ours, after ICPP 2011"),
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


def unknown(kind: str, name: str, known: Iterable[str], listed_by: str = "") -> InputError:
    """The error for a name nobody has heard of, with the nearest one that exists and the command that lists all."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
    return InputError(f"there is no {kind} called {name!r}", "", f"{hint} (see `{listed_by}`)" if listed_by else hint)


def order_entry(name: str) -> OrderEntry:
    """Look an order up by name, or take a path to a file with a function `scores`."""
    if name.endswith(".py"):
        return _order_in_file(Path(name))
    if name not in ORDERS:
        raise unknown("order", name, ORDERS, LISTED_BY)
    return ORDERS[name]


def _order_in_file(path: Path) -> OrderEntry:
    from cohabit.compiled import load_source

    if not path.is_file():
        raise InputError("there is no such file", str(path), "give the path of a Python file with a function scores()")
    if doubt := doubt_of(path):
        raise InputError(f"is not executed: {doubt.what}", doubt.where, f"{doubt.fix}, such as a copy of it")
    try:
        module = load_source(str(path.resolve()))
    except Exception as error:
        raise InputError(f"the policy cannot be loaded: {error}", str(path)) from error
    if not callable(getattr(module, "scores", None)):
        raise InputError("the file has no function scores(jobs, rows, now_us)", str(path), "see CONTRIBUTING.md")
    changing = bool(getattr(module, "CHANGING", True))
    falling = bool(getattr(module, "FALLING", False))
    return OrderEntry(str(path.resolve()), "scores", changing, "your own order", str(path), falling)


def give_order(name: str, scores: Callable[..., Any], *, changing: bool, falling: bool, summary: str) -> None:
    """An order as a function object, known to this process only; built-in names are refused, given ones replaced."""
    if not name.isidentifier():
        raise InputError(f"{name!r} is no name for an order", "", "use letters, digits and underscores")
    if name in ORDERS and not is_given(name):
        raise InputError(f"there is an order {name!r} already", "", "give it another name")
    module = ModuleType(f"{_GIVEN}{name}", "An order given as a function; it has no file.")
    module.scores = scores  # type: ignore[attr-defined]
    before, sys.modules[module.__name__] = sys.modules.get(module.__name__), module
    entry = OrderEntry(module.__name__, "scores", changing, summary, "given in this session", falling)
    try:
        Order(scores, changing, falling, order_parameters(entry, {}), name=name).scores(*_example())
    except Exception as error:
        if before is not None:
            sys.modules[module.__name__] = before
        else:
            del sys.modules[module.__name__]
        raise InputError(f"the order {name!r} cannot score three ordinary jobs: {error}", "", "see CONTRIBUTING.md") \
            from error  # fmt: skip
    ORDERS[name] = entry


def is_given(name: str) -> bool:
    """Whether an order came as a function object."""
    return name in ORDERS and ORDERS[name].module.startswith(_GIVEN)


def order_parameters(entry: OrderEntry, options: dict[str, Any]) -> tuple[float, ...]:
    """The numbers an order is called with: its defaults, changed by `options`; unknown names are refused."""
    from cohabit.compiled import load_source

    function = getattr(load_source(entry.module), entry.function)
    defaults = {
        name: parameter.default
        for name, parameter in list(inspect.signature(function).parameters.items())[3:]
        if isinstance(parameter.default, int | float)
    }
    for name, value in options.items():
        if name not in defaults:
            raise unknown("option of this order", name, defaults or ["(it has none)"])
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"option {name} must be a number, not {value!r}", "policy.order_options")
        defaults[name] = float(value)
    return tuple(float(value) for value in defaults.values())


def looks_at_usage(name: str) -> bool:
    """Whether an order refers to what users have used; only then is it worth keeping count of."""
    from cohabit.compiled import load_source

    entry = order_entry(name)
    return _mentions(getattr(load_source(entry.module), entry.function), {"usage", "usage_share"}, set())


def _mentions(function: Any, words: set[str], seen: set[Any]) -> bool:
    """Whether a function, or one that it calls by its name, uses one of these words for an attribute or its name."""
    if not isinstance(function, FunctionType) or function.__code__ in seen:
        return False
    codes = [function.__code__]
    for code in codes:  # grows: functions within the function
        seen.add(code)
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    names = {name for code in codes for name in code.co_names}
    if words & (names | {constant for code in codes for constant in code.co_consts if isinstance(constant, str)}):
        return True
    return any(_mentions(function.__globals__.get(name), words, seen) for name in names)


def make_order(name: str, options: dict[str, Any], compile_it: bool) -> Order:
    """The order by name with its parameters; compiled as well where asked for and possible."""
    from cohabit.compiled import load_source
    from cohabit.policy.settled import settled

    entry = order_entry(name)
    parameters = order_parameters(entry, options)
    function = settled(getattr(load_source(entry.module), entry.function))
    falling = entry.changing and entry.falling and min(parameters, default=0.0) >= 0.0
    order = Order(function, entry.changing, falling, parameters, name=name)
    order.scores(*_example())
    if not compile_it:
        return order
    from cohabit.policy.forms import fastest

    return fastest(order, entry.module, entry.function)


def _example() -> tuple[Columns, NDArray[np.int64], int]:
    """Three ordinary jobs: an order that cannot score them is refused before anything runs."""
    jobs = np.arange(1, 3 * JOB_COLUMNS + 1, dtype=np.int64).reshape(JOB_COLUMNS, 3)
    jobs[USER] = 0
    return columns_of(jobs, np.ones((2, 2))), np.arange(3), 10**9


def make_placement(name: str, options: PlacementOptions) -> Placer | SharedPlacer:
    """The placement by name, with its options."""
    from cohabit.compiled import load_source

    if name not in PLACEMENTS:
        raise unknown("placement", name, PLACEMENTS, LISTED_BY)
    entry = PLACEMENTS[name]
    made: Placer | SharedPlacer = getattr(load_source(entry.module), entry.name).from_options(options)
    return made


def make_gates(name: str, options: GateOptions) -> tuple[Gate, ...]:
    """The gate by name, with its options; none where none is wanted."""
    from cohabit.compiled import load_source

    if name == UNGATED:
        return ()
    if name not in GATES:
        raise unknown("gate", name, [*GATES, UNGATED], LISTED_BY)
    entry = GATES[name]
    made: Gate = getattr(load_source(entry.module), entry.name).from_options(options)
    return (made,)


def make_partitioner(placement: str, name: str | None, options: PlacementOptions) -> Partitioner | None:
    """How the cache is divided under a placement: as named, or as is usual for it; None: it is not divided."""
    from cohabit.compiled import load_source

    possible = PLACEMENTS[placement].partitions
    chosen = name or (possible[0] if possible else UNDIVIDED)
    if chosen == UNDIVIDED:
        return None
    if chosen not in PARTITIONS:
        raise unknown("way to divide the cache", chosen, [*PARTITIONS, UNDIVIDED], LISTED_BY)
    if possible and chosen not in possible:
        raise InputError(
            f"partition = {chosen!r} does not go with placement {placement!r}", "policy.partition",
            f"use {' or '.join(map(repr, dict.fromkeys((*possible, UNDIVIDED))))}",
        )  # fmt: skip
    if not possible:
        return None
    entry = PARTITIONS[chosen]
    kind = getattr(load_source(entry.module), entry.name)
    if chosen == GUARANTEE:  # stands over the usual division of the placement
        over: Partitioner = kind.over(make_partitioner(placement, possible[0], options), options)
        return over
    made: Partitioner = kind.from_options(options)
    return made
