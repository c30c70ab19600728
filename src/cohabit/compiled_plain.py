"""Kernels as the Python they are written in: what compiled.py offers where nothing is to be compiled.

Arithmetic is that of numpy's numbers, so schedules are those of the machine code; tests/core/test_plain_kernels.py
compares them. Orders are asked through Python. Nothing here imports numba or reads machine code.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from cohabit.source_files import load_source

__all__ = ["load_source"]

# What a recorded order may remember between two calls, behind its parameters: a head of MEMORY_HEAD numbers, the first
# of which tells whether there is a memory at all, then so many numbers per row of the job table. Nobody's scores depend
# on it: it saves computing again what stays the same. memory[RISING] tells that rows are always in rising order, and
# whoever comes has a higher one than all who came before.
MEMORY_HEAD = 128
RISING = MEMORY_HEAD - 1
NO_MEMORY, EMPTY = 0.0, 1.0

FORMULA = None
WORD = 64
Function = TypeVar("Function", bound=Callable[..., Any])

np.seterr(over="ignore")  # machine code wraps around, too: of numbers beyond the last entry, which are not used


def compiled(function: Function) -> Function:
    """As it is."""
    return function


compiled_lean = compiled_inline = compiled_free = compiled


def fused(a: float, b: float, c: float) -> float:
    """a * b + c, rounded once."""
    if not np.isfinite(a * b + c):
        return a * b + c
    return float(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))


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


def sum_in_eights(numbers: NDArray[Any], first: int, count: int) -> Any:
    """numbers[first], [first + 8] ... added to each other, [first + 1] ..., and the eight sums pair by pair."""
    parts = list(np.add.accumulate(numbers[first : first + count].reshape(-1, 8), axis=0)[-1])
    while len(parts) > 1:
        parts = [one + other for one, other in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def least_in_eights(numbers: NDArray[Any], first: int, count: int) -> Any:
    """The least of `count` numbers; what is no number is passed over."""
    return np.fmin.reduce(numbers[first : first + count])


def largest_in_eights(numbers: NDArray[Any], first: int, count: int) -> Any:
    """The largest of them."""
    return np.fmax.reduce(numbers[first : first + count])


class ScoreEntry:
    """An order as the kernels call it: with addresses, which nobody needs here, a count and the time."""

    memory, of_usage = 0, False

    def __init__(self, score: Callable[[int, int], None]) -> None:
        self._score = score

    def __call__(
        self, _jobs: Any, _capacity: int, _usage: Any, _users: int, _rows: Any, count: int, now: int, *_numbers: Any
    ) -> None:
        self._score(count, now)


def no_scores() -> ScoreEntry:
    """Stands where an order needs no scores."""
    return ScoreEntry(lambda _count, _now: None)


def python_entry(score: Callable[[int, int], None]) -> ScoreEntry:
    """An order: score(count, now) works on buffers it knows."""
    return ScoreEntry(score)


def _not_compiled(*_arguments: Any) -> NoReturn:
    raise RuntimeError("kernels are plain Python here: COHABIT_KERNELS=plain, or numba is not installed")


compile_as_it_stands = compile_bounds = compile_for_one = compile_for_queue = _not_compiled
compile_given = compile_numbers = _not_compiled


def is_warm(_kernel: str = "") -> bool:
    """Nothing is left to compile."""
    return True


def forget_unused() -> None:
    """No machine code is kept."""
