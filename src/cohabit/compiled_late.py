"""Kernels as plain Python until machine code pays: what compiled.py offers to a controller (COHABIT_KERNELS=late).

numba and what it loads take 70 MB and half a second. A controller with few jobs needs neither: its kernels run as they
are written (compiled_plain.py). When that has taken PATIENCE_S in all, a thread loads numba and compiles the kernels
that were called, for the kinds of arguments they were called with; from then on they are machine code. An order that
must be compiled loads numba at once. Both forms give the same schedules, so it does not matter when the change happens.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from cohabit import compiled_plain as plain
from cohabit.source_files import load_source

__all__ = ["load_source"]

PATIENCE_S = 0.5  # about what loading machine code takes
FORMULA = None  # compiled_numba.py has it
Function = TypeVar("Function", bound=Callable[..., Any])
_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
_CALLED = ctypes.CFUNCTYPE(
    None, _POINTER, _NUMBER, _POINTER, _NUMBER, _POINTER, _NUMBER, _NUMBER, _POINTER, _POINTER
)  # fmt: skip


class _Progress:
    """The progress of this process towards machine code."""

    is_machine_code = False
    spent_s = 0.0  # in kernels as plain Python
    inside = loading = False
    lock = threading.RLock()


_seen: dict[Kernel, tuple[Any, ...]] = {}  # kernels that were called from outside, with what they were given last


class Kernel:
    """A function that becomes machine code; `kind` is the decorator of compiled_numba.py for it."""

    def __init__(self, function: Callable[..., Any], kind: str) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self._kind = function, kind
        self._compiled: Callable[..., Any] | None = None

    def compiled(self) -> Callable[..., Any]:
        """The function as compiled by numba."""
        if self._compiled is None:
            self._compiled = getattr(_numba(), self._kind)(self.py_func)
        return self._compiled

    def __call__(self, *arguments: Any) -> Any:
        """Call the function in its present form."""
        if _Progress.inside:  # called by a plain kernel
            return self.py_func(*arguments)
        if _Progress.is_machine_code:
            return self.compiled()(*arguments)
        begun, _Progress.inside = time.perf_counter(), True
        try:
            with np.errstate(over="ignore"):  # integers wrap around silently, as in machine code
                return self.py_func(*arguments)
        finally:
            _Progress.inside = False
            _seen[self] = arguments
            _Progress.spent_s += time.perf_counter() - begun
            if _Progress.spent_s > PATIENCE_S and not _Progress.loading:
                _Progress.loading = True
                threading.Thread(target=load, daemon=True, name="machine code").start()


def load() -> None:
    """Make machine code of the kernels that are in use, then use it."""
    with _Progress.lock:
        if not _Progress.is_machine_code:
            numba = _numba()
            for kernel, arguments in list(_seen.items()):
                numba.compile_for(kernel.compiled(), arguments)
            _Progress.is_machine_code = True
            _seen.clear()


def is_loaded() -> bool:
    """Return whether kernels are machine code by now."""
    return _Progress.is_machine_code


@functools.cache
def _numba() -> Any:
    from cohabit import compiled_numba

    compiled_numba.understand(Kernel, Primitive, ScoreEntry)
    return compiled_numba


def compiled(function: Function) -> Function:
    """As in compiled_numba.py, but compiled later; the same holds for the next three."""
    return Kernel(function, "compiled")  # type: ignore[return-value]


def compiled_lean(function: Function) -> Function:
    return Kernel(function, "compiled_lean")  # type: ignore[return-value]


def compiled_inline(function: Function) -> Function:
    return Kernel(function, "compiled_inline")  # type: ignore[return-value]


def compiled_free(function: Function) -> Function:
    return Kernel(function, "compiled_free")  # type: ignore[return-value]


class Primitive:
    """A function that has a form of its own as machine code, under the same name."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name, self._function = function.__name__, function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)


move = Primitive(plain.move)
leading_zeros, trailing_zeros = Primitive(plain.leading_zeros), Primitive(plain.trailing_zeros)


class ScoreEntry(plain.ScoreEntry):
    """An order that was not compiled, as kernels of both forms call it."""

    def __init__(self, score: Callable[[int, int], None]) -> None:
        super().__init__(score)
        self._callback: Any = None

    def __wrapper_address__(self) -> int:
        """Return the address for machine code."""
        if self._callback is None:
            self._callback = _CALLED(lambda _j, _c, _u, _n, _r, count, now, _p, _o: self._score(count, now))
        return ctypes.cast(self._callback, _POINTER).value or 0

    def signature(self) -> Any:
        return _numba().FORMULA


def no_scores() -> ScoreEntry:
    """Return the placeholder for an order that needs no scores."""
    return ScoreEntry(lambda _count, _now: None)


def python_entry(score: Callable[[int, int], None]) -> ScoreEntry:
    """An order: score(count, now) works on buffers it knows."""
    return ScoreEntry(score)


def compile_order(origin: str, source: str, parameters: int) -> Any:
    """As in compiled_numba.py; machine code is needed now."""
    load()
    return _numba().compile_order(origin, source, parameters)


def is_warm(kernel: str = "trace_driver.drive_by_ladder") -> bool:
    """Return whether the kernels have been compiled before."""
    return bool(_numba().is_warm(kernel))


def forget_unused() -> None:
    """Remove the machine code of other versions."""
    _numba().forget_unused()
