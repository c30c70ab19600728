"""What numpy leaves open is settled for order functions: equal numbers keep their order in a sort.

`np.argsort(x)` may put equal numbers in any order, and does so differently from one processor to the next; a schedule
must not hang on that. An order function that sorts is therefore called with a numpy whose `argsort` is stable unless
another kind is asked for: ties go to the earlier submission, as everywhere. Functions it calls keep their own numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import numpy as np


class _Settled:
    """numpy, but `argsort` is stable."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def argsort(values: Any, *more: Any, **options: Any) -> Any:
        """As numpy's, stable where nothing else is asked for."""
        if len(more) < 2 and options.get("kind") is None and options.get("stable") is None:
            options["kind"] = "stable"
        return np.argsort(values, *more, **options)


SETTLED = _Settled()


def settled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, or the same with that numpy if it sorts."""
    if not isinstance(function, FunctionType) or not _asks_for("argsort", function.__code__):
        return function
    known = {name: SETTLED if value is np else value for name, value in function.__globals__.items()}
    return FunctionType(function.__code__, known, function.__name__, function.__defaults__, function.__closure__)


def _asks_for(name: str, code: CodeType) -> bool:
    return name in code.co_names or any(_asks_for(name, one) for one in code.co_consts if isinstance(one, CodeType))
