"""Load an order: by module, from a file, or as a function object; with its parameters, compiled and checked."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import JOB_COLUMNS, USER, Columns, columns_of
from cohabit.core.protocols import Order
from cohabit.model.errors import InputError, unknown
from cohabit.source_files import load_source
from cohabit.trusted import doubt_of

GIVEN = "cohabit_given_order_"  # modules of orders given as a function object


class OrderEntry(NamedTuple):
    """The source of an order and its description for users."""

    module: str
    function: str
    changing: bool  # whether the score depends on the time, so that it is computed in every pass
    summary: str
    source: str
    falling: bool = False  # whether no score rises while the job waits, nor falls as its user's share of usage grows


def entry_of_file(path: Path) -> OrderEntry:
    """Return the order in a file with a function `scores`."""
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


def given_entry(name: str, scores: Callable[..., Any], changing: bool, falling: bool, summary: str) -> OrderEntry:
    """Return an order given as a function object, which must be able to score three ordinary jobs."""
    if not name.isidentifier():
        raise InputError(f"{name!r} is not a valid name of an order", "", "use letters, digits and underscores")
    module = ModuleType(f"{GIVEN}{name}", "An order given as a function; it has no file.")
    module.scores = scores  # type: ignore[attr-defined]
    before, sys.modules[module.__name__] = sys.modules.get(module.__name__), module
    entry = OrderEntry(module.__name__, "scores", changing, summary, "given in this session", falling)
    try:
        load_order(name, entry, {}, in_passes=False)
    except Exception as error:
        if before is not None:
            sys.modules[module.__name__] = before
        else:
            del sys.modules[module.__name__]
        if isinstance(error, InputError) and "FALLING" in str(error):
            raise
        what = f"the order {name!r} cannot score three ordinary jobs: {error}"
        raise InputError(what, "", "see CONTRIBUTING.md") from error
    return entry


def order_parameters(entry: OrderEntry, options: dict[str, Any]) -> tuple[float, ...]:
    """Return the numbers an order is called with: its defaults, changed by `options`; refuse unknown names."""
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


def refers_to_usage(entry: OrderEntry) -> bool:
    """Return whether an order refers to what users have used."""
    return _mentions(getattr(load_source(entry.module), entry.function), {"usage", "usage_share"}, set())


def _mentions(function: Any, words: set[str], seen: set[Any]) -> bool:
    """Return whether a function, or one that it calls by name, uses one of these words as an attribute or a name."""
    if not isinstance(function, FunctionType) or function.__code__ in seen:
        return False
    codes = [function.__code__]
    for code in codes:  # the list grows: functions within the function
        seen.add(code)
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    names = {name for code in codes for name in code.co_names}
    if words & (names | {constant for code in codes for constant in code.co_consts if isinstance(constant, str)}):
        return True
    return any(_mentions(function.__globals__.get(name), words, seen) for name in names)


def load_order(name: str, entry: OrderEntry, options: dict[str, Any], in_passes: bool) -> Order:
    """Return the order with its parameters; in_passes: it is called in every pass, not once per job."""
    from cohabit.orders.falling import check_falling
    from cohabit.orders.one_job import compiled_order

    parameters = order_parameters(entry, options)
    function = getattr(load_source(entry.module), entry.function)
    built_in = entry.module.startswith("cohabit.")
    falling = entry.changing and entry.falling and (not built_in or min(parameters, default=0.0) >= 0.0)
    order = Order(function, entry.changing, falling, parameters, name=name)
    order.scores(*_example())
    if falling and not built_in:
        check_falling(order)
    return compiled_order(order, entry.module, in_passes)


def _example() -> tuple[Columns, NDArray[np.int64], int]:
    """Return three ordinary jobs: an order that cannot score them is refused before anything runs."""
    jobs = np.arange(1, 3 * JOB_COLUMNS + 1, dtype=np.int64).reshape(JOB_COLUMNS, 3)
    jobs[USER] = 0
    return columns_of(jobs, np.ones((2, 2))), np.arange(3), 10**9
