"""Kernels as the Python they are written in: what compiled.py offers where nothing is to be compiled.

Arithmetic is that of numpy's numbers, so schedules are those of the machine code; tests/core/test_plain_kernels.py
compares them. Orders are called through Python. Nothing here imports numba or reads machine code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from cohabit.source_files import load_source

__all__ = ["load_source"]

FORMULA = None
WORD = 64
Function = TypeVar("Function", bound=Callable[..., Any])

np.seterr(over="ignore")  # machine code wraps around, too: of numbers beyond the last entry, which are not used


def compiled(function: Function) -> Function:
    """Return the function unchanged."""
    return function


compiled_lean = compiled_inline = compiled_free = compiled


def move(numbers: NDArray[Any], source: int, target: int, count: int) -> None:
    """Copy so many numbers of an array from one place in it to another; the two stretches may overlap."""
    numbers[target : target + count] = numbers[source : source + count].copy()


def trailing_zeros(word: int) -> int:
    """Zeros after the last one of a word of 64 bits."""
    bits = int(word)
    return (bits & -bits).bit_length() - 1 if bits else WORD


def leading_zeros(word: int) -> int:
    """Zeros before the first one."""
    return WORD - int(word).bit_length()


class ScoreEntry:
    """An order as the kernels call it: with addresses (unused here), a count and the time."""

    score_rows = None

    def __init__(self, score: Callable[[int, int], None]) -> None:
        self._score = score

    def __call__(
        self, _jobs: Any, _capacity: int, _usage: Any, _users: int, _rows: Any, count: int, now: int, *_numbers: Any
    ) -> None:
        self._score(count, now)


def no_scores() -> ScoreEntry:
    """Return the placeholder for an order that needs no scores."""
    return ScoreEntry(lambda _count, _now: None)


def python_entry(score: Callable[[int, int], None]) -> ScoreEntry:
    """An order: score(count, now) works on buffers it knows."""
    return ScoreEntry(score)


def _not_compiled(*_arguments: Any) -> NoReturn:
    raise RuntimeError("kernels are plain Python here: COHABIT_KERNELS=plain, or numba is not installed")


compile_order = _not_compiled


def is_warm(_kernel: str = "") -> bool:
    """Return True: nothing is left to compile."""
    return True


def forget_unused() -> None:
    """Do nothing: no machine code is kept."""
