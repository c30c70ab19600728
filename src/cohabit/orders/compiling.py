"""Compile an order for one job at a time, if numba can; any other order stays a numpy function.

The compiled form is the definition of the order: the simulator, the live core and the readable twin all call it. It
uses the mathematical library of the system, so scores are the same on every processor. An order that stays in numpy
may differ in the last bit between processors.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

from cohabit.compiled import PLAIN, compile_order
from cohabit.core.protocols import Order
from cohabit.orders.one_job import for_one_job

# operations whose results IEEE 754 prescribes: numpy gives the same bits as machine code
EXACT = {
    "add", "subtract", "multiply", "true_divide", "negative", "less", "less_equal", "greater", "greater_equal", "equal",
    "not_equal", "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "minimum", "maximum", "sqrt", "absolute",
    "float64",
}  # fmt: skip


def compiled_order(order: Order, module: str, in_passes: bool) -> Order:
    """Return the order with its compiled form, if it has one; in_passes: it is called in every pass, not once per job.

    module: the module or file its function comes from.
    """
    source = None if PLAIN else for_one_job(order.function, "score_one")
    if source is None or not (in_passes or _differs_in_numpy(source)):
        return order
    with suppress(Exception):  # numba raises many kinds of exceptions
        return replace(order, entry=compile_order(module, source, len(order.parameters)))
    return order


def _differs_in_numpy(source: str) -> bool:
    """Whether the function uses an operation that numpy may compute in its own way."""
    used = set(re.findall(r"\bnumpy\.(\w+)\(", source))
    return bool(used - EXACT) or "power(" in source
