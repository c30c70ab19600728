"""The only access to compiled kernels: every kernel in the project is decorated with `compiled` from here.

Three modules have the same names and give the same schedules. compiled_numba.py makes machine code, compiled once per
machine. compiled_plain.py leaves the functions as they are: a hundred times slower, but ready at once, for a few
thousand jobs or a machine without numba (COHABIT_KERNELS=plain). compiled_late.py begins with the second and continues
with the first, as controllers do (COHABIT_KERNELS=late).
"""

from __future__ import annotations

import importlib
import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

LATE = os.environ.get("COHABIT_KERNELS") == "late" and find_spec("numba") is not None
PLAIN = os.environ.get("COHABIT_KERNELS") == "plain" or find_spec("numba") is None

if TYPE_CHECKING:
    from cohabit.compiled_numba import (
        ScoreEntry,
        compile_order,
        compiled,
        compiled_free,
        compiled_inline,
        compiled_lean,
        forget_unused,
        is_warm,
        leading_zeros,
        load_source,
        move,
        no_scores,
        python_entry,
        trailing_zeros,
    )

__all__ = [
    "LATE",
    "PLAIN",
    "ScoreEntry",
    "compile_order",
    "compiled",
    "compiled_free",
    "compiled_inline",
    "compiled_lean",
    "forget_unused",
    "is_warm",
    "leading_zeros",
    "load_machine_code",
    "load_source",
    "move",
    "no_scores",
    "python_entry",
    "trailing_zeros",
]

_chosen = importlib.import_module(f"cohabit.compiled_{'late' if LATE else 'plain' if PLAIN else 'numba'}")
globals().update({name: getattr(_chosen, name) for name in __all__ if hasattr(_chosen, name)})


def load_machine_code() -> None:
    """Load machine code now instead of later, before a large computation."""
    if LATE:
        _chosen.load()
