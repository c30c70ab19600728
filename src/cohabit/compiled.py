"""The one door to compiled kernels: every kernel in the project is decorated with `compiled` from here.

Two forms have the same names and give the same schedules. compiled_numba.py makes machine code: a minute or two of
compiling, once. compiled_plain.py leaves the functions as they are: a hundred times slower, but ready at once, for a
few thousand jobs or a machine without numba. COHABIT_KERNELS=plain chooses it; without numba it is the only one.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

PLAIN = os.environ.get("COHABIT_KERNELS") == "plain" or find_spec("numba") is None

if TYPE_CHECKING or not PLAIN:
    from cohabit.compiled_numba import (
        EMPTY,
        FORMULA,
        MEMORY_HEAD,
        NO_MEMORY,
        RISING,
        ScoreEntry,
        compile_as_it_stands,
        compile_bounds,
        compile_for_one,
        compile_for_queue,
        compile_given,
        compile_numbers,
        compiled,
        compiled_free,
        compiled_inline,
        compiled_lean,
        forget_unused,
        fused,
        is_warm,
        largest_in_eights,
        leading_zeros,
        least_in_eights,
        load_source,
        move,
        no_scores,
        python_entry,
        sum_in_eights,
        trailing_zeros,
    )
else:
    from cohabit.compiled_plain import (
        EMPTY,
        FORMULA,
        MEMORY_HEAD,
        NO_MEMORY,
        RISING,
        ScoreEntry,
        compile_as_it_stands,
        compile_bounds,
        compile_for_one,
        compile_for_queue,
        compile_given,
        compile_numbers,
        compiled,
        compiled_free,
        compiled_inline,
        compiled_lean,
        forget_unused,
        fused,
        is_warm,
        largest_in_eights,
        leading_zeros,
        least_in_eights,
        load_source,
        move,
        no_scores,
        python_entry,
        sum_in_eights,
        trailing_zeros,
    )

__all__ = [
    "EMPTY",
    "FORMULA",
    "MEMORY_HEAD",
    "NO_MEMORY",
    "PLAIN",
    "RISING",
    "ScoreEntry",
    "compile_as_it_stands",
    "compile_bounds",
    "compile_for_one",
    "compile_for_queue",
    "compile_given",
    "compile_numbers",
    "compiled",
    "compiled_free",
    "compiled_inline",
    "compiled_lean",
    "forget_unused",
    "fused",
    "is_warm",
    "largest_in_eights",
    "leading_zeros",
    "least_in_eights",
    "load_source",
    "move",
    "no_scores",
    "python_entry",
    "sum_in_eights",
    "trailing_zeros",
]
