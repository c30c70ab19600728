"""The fastest form of an order function that numba can compile; a function beyond all of them simply stays Python.

The first and the last are tried on various jobs before they are used, and must score them as the function does, to the
last bit. The other follows numpy operation by operation.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache

from cohabit.compiled import ScoreEntry, compile_as_it_stands, compile_bounds, compile_for_one, compile_for_queue
from cohabit.core.protocols import Given, Order
from cohabit.policy.bounds import for_window, hold
from cohabit.policy.one_by_one import for_one_job
from cohabit.policy.recording import agrees, for_queue


def fastest(order: Order, module: str, name: str) -> Order:
    """The order with its function, which has this name in that module or file, compiled."""
    count = len(order.parameters)
    with suppress(Exception):  # numba raises many kinds
        recorded = for_queue(order.function, order.parameters)
        if recorded is not None:
            found = compile_for_queue(module, *recorded, count)
            if agrees(found, order.function, order.parameters):
                order = replace(order, entry=found, bound=_bound(order, module))
                by_itself = order.alone or not order.changing
                return order if by_itself else replace(order, two_steps=_two_steps(order, module))
    with suppress(Exception):
        source = for_one_job(order.function, "score_one")
        if source is not None:
            return replace(order, entry=compile_for_one(module, source, count))
    with suppress(Exception):
        found = compile_as_it_stands(module, name, count)
        if agrees(found, order.function, order.parameters):
            return replace(order, entry=found)
    return order


def _bound(order: Order, module: str) -> ScoreEntry | None:
    """What no score undercuts within a while; an order that is said to fall needs no more than its own scores."""
    if order.falling or not order.changing:
        return None
    source = for_window(order.function, order.parameters)
    with suppress(Exception):
        if source is not None:
            found = compile_bounds(module, source, len(order.parameters))
            return found if hold(found, order.function, order.parameters) else None
    return None


def _two_steps(order: Order, module: str) -> Callable[[], Given | None]:
    """For an order that is not `alone`: what takes it by numbers made of the whole queue."""

    @cache
    def made() -> Given | None:
        from cohabit.policy.given import in_two_steps

        with suppress(Exception):
            return in_two_steps(order.function, order.parameters, module)
        return None

    return made
