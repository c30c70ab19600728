"""Cohabit: a resource-aware job scheduler whose simulator and live system share one decision core.

From Python: `simulate`, `compare`, `sweep`, `policies`, `add_order`, and the `Run` and `Comparison` they return
(docs/python.md). Nothing is imported until one of these names is used, so that the command line starts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cohabit.version import __version__

if TYPE_CHECKING:
    from cohabit.app.simulate.study import Comparison, Run, add_order, compare, policies, simulate, sweep
    from cohabit.model.errors import InputError

__all__ = [
    "Comparison", "InputError", "Run", "__version__", "add_order", "compare", "policies", "simulate", "sweep",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'cohabit' has no attribute {name!r}")
    if name == "InputError":
        from cohabit.model.errors import InputError

        return InputError
    from cohabit.app.simulate import study

    return getattr(study, name)


def __dir__() -> list[str]:
    return sorted(__all__)
