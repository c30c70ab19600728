"""The only access to machine code: every kernel of the project is decorated with `compiled` from here.

A kernel is the Python function that it is written as until it is machine code. Both forms give the same schedules, so
it does not matter when the change happens. COHABIT_KERNELS chooses:

- not set: machine code from the first call on. numba and what it loads take 70 MB and half a second, then.
- `late`: machine code when plain kernels have taken PATIENCE_S in all, made in a thread from those in use. Controllers
  choose it: with few jobs they never need numba.
- `plain`: never, also where numba is not installed. A hundred times slower, but ready at once.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])

PATIENCE_S = 0.5  # about what loading machine code takes
WORD = 64
LOADED_S = time.time()  # a file that changes later is not the one that this process has loaded
_WANTED = os.environ.get("COHABIT_KERNELS")
PLAIN = _WANTED == "plain" or find_spec("numba") is None

if PLAIN:
    np.seterr(over="ignore")  # machine code wraps around, too: of numbers beyond the last entry, which are not used


class _Progress:
    """The progress of this process towards machine code."""

    is_machine_code = not PLAIN and _WANTED != "late"
    spent_s = 0.0  # in kernels as plain Python
    inside = loading = False
    lock = threading.RLock()


_seen: dict[Kernel, tuple[Any, ...]] = {}  # kernels that were called from outside, with what they were given last


class Kernel:
    """A function that becomes machine code. numba looks for `py_func` and `targetoptions` where it inlines."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self.targetoptions = function, options
        self._entry: Callable[..., Any] | None = None

    @functools.cached_property
    def compiled(self) -> Callable[..., Any]:
        """The function as compiled by numba."""
        found: Callable[..., Any] = _numba().kernel(self.py_func, self.targetoptions)
        return found

    def again(self, *arguments: Any) -> Any:
        """Call the function with arguments of the types of the first such call. They are not looked up again: with a
        ScoreEntry among them, that takes longer than a short pass."""
        if not _Progress.is_machine_code:
            return self(*arguments)
        if self._entry is None:
            self._entry = _numba().compile_for(self.compiled, arguments)
        return self._entry(*arguments)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function in its present form."""
        if _Progress.is_machine_code:
            return self.compiled(*arguments)
        if _Progress.inside:  # called by a plain kernel
            return self.py_func(*arguments)
        begun, _Progress.inside = time.perf_counter(), True
        try:
            with np.errstate(over="ignore"):
                return self.py_func(*arguments)
        finally:
            _Progress.inside = False
            _seen[self] = arguments
            _Progress.spent_s += time.perf_counter() - begun
            if _Progress.spent_s > PATIENCE_S and not _Progress.loading:
                _Progress.loading = True
                threading.Thread(target=load_machine_code, daemon=True, name="machine code").start()


def called_again(function: Function) -> Function:
    """Return a kernel as it is called often with arguments whose types never change; arrays are contiguous."""
    return function.again if isinstance(function, Kernel) else function  # type: ignore[return-value]


def load_machine_code() -> None:
    """Make machine code of the kernels that are in use, then use it."""
    with _Progress.lock:
        if not (_Progress.is_machine_code or PLAIN):
            numba = _numba()
            for kernel, arguments in list(_seen.items()):
                numba.compile_for(kernel.compiled, arguments)
            _Progress.is_machine_code = True
            _seen.clear()


@functools.cache
def _numba() -> Any:
    from cohabit import compiled_numba

    compiled_numba.understand(Kernel, Primitive, ScoreEntry)
    return compiled_numba


def _decorator(**options: Any) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        return function if PLAIN else Kernel(function, options)  # type: ignore[return-value]

    return decorate


compiled = _decorator(_nrt=True)
# Small functions that make no arrays: no counting of references, which can take half their time.
compiled_lean = _decorator(_nrt=False)
# The same for functions that one other calls: part of it, since handing over many arrays takes its time.
compiled_inline = _decorator(_nrt=False, inline="always")
# Long searches that touch no Python object: other threads run meanwhile.
compiled_free = _decorator(nogil=True)


class Primitive:
    """A function that has a form of its own as machine code, under the same name."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name, self._function = function.__name__, function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)


@Primitive
def move(numbers: NDArray[Any], source: int, target: int, count: int) -> None:
    """Copy so many numbers of an array from one place in it to another; the two stretches may overlap."""
    numbers[target : target + count] = numbers[source : source + count].copy()


@Primitive
def trailing_zeros(word: int) -> int:
    """Zeros after the last one of a word of 64 bits."""
    bits = int(word)
    return (bits & -bits).bit_length() - 1 if bits else WORD


class ScoreEntry:
    """An order as kernels call it: with addresses of arrays, a count, the time and more addresses.

    One that is compiled has an address and `score_rows`. Any other works on buffers that it knows: score(count, now).
    """

    _POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
    _CALLED = ctypes.CFUNCTYPE(
        None, _POINTER, _NUMBER, _POINTER, _NUMBER, _POINTER, _NUMBER, _NUMBER, _POINTER, _POINTER
    )

    def __init__(
        self,
        score: Callable[[int, int], None] | None,
        address: int = 0,
        score_rows: Callable[..., None] | None = None,
    ) -> None:
        self._score, self._address, self.score_rows = score, address, score_rows

    def __call__(self, *arguments: Any) -> None:
        """Call an order that is not compiled."""
        assert self._score is not None
        self._score(*arguments[5:7])

    @functools.cached_property
    def _callback(self) -> Any:
        score = self._score
        assert score is not None
        return self._CALLED(lambda *arguments: score(*arguments[5:7]))

    def __wrapper_address__(self) -> int:
        """The address at which machine code finds it."""
        return self._address or int(ctypes.cast(self._callback, self._POINTER).value or 0)

    def scores(
        self, columns: Any, rows: NDArray[np.int64], now_us: int, parameters: tuple[float, ...]
    ) -> NDArray[np.float64]:
        """The scores of these rows by a compiled order, called from Python."""
        assert self.score_rows is not None
        out = np.empty(len(rows))
        self.score_rows(columns, rows, now_us, np.array([*parameters, 0.0]), out)
        return out


def compile_order(origin: str, source: str, parameters: int) -> ScoreEntry:
    """Machine code from the source of a function `score_one` (orders/one_job.py); raises whatever numba raises."""
    load_machine_code()
    return ScoreEntry(None, *_numba().compile_order(origin, source, parameters))


def is_warm(kernel: str = "trace_driver.drive_by_ladder") -> bool:
    """Return whether a kernel has been compiled before on this machine, or never will be."""
    return PLAIN or bool(_numba().is_warm(kernel))


def forget_unused() -> None:
    """Remove machine code of other versions."""
    if not PLAIN:
        _numba().forget_unused()
