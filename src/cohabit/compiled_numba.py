"""Kernels as machine code, made by numba: what compiled.py offers where numba is there and wanted.

Machine code is kept on disk (kept_code.py). No fast-math: journals must replay byte for byte on x86-64 and arm64.
compiled_plain.py has the same names without numba.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

# isort: off
from cohabit import kept_code  # before numba, which then starts sooner and keeps machine code as it says

# isort: on
import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.cpython.unsafe.numbers import leading_zeros, trailing_zeros
from numba.experimental import function_type  # noqa: F401  # it knows the kind of a ScoreEntry
from numba.extending import intrinsic, typeof_impl
from numpy.typing import NDArray

from cohabit.kept_code import forget_unused, is_warm
from cohabit.source_files import load_file, load_source

__all__ = [
    "FORMULA",
    "ScoreEntry",
    "compile_for",
    "compile_order",
    "compiled",
    "compiled_free",
    "compiled_inline",
    "compiled_lean",
    "forget_unused",
    "is_warm",
    "leading_zeros",
    "load_source",
    "move",
    "no_scores",
    "python_entry",
    "trailing_zeros",
    "understand",
]

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile on first use and keep the machine code on disk; to its callers it stays an ordinary function."""
    return numba.njit(cache=True, _nrt=True)(function)  # type: ignore[no-any-return]  # also below `compiled_lean`


def compiled_lean(function: Function) -> Function:
    """`compiled` for small functions that make no arrays: no counting of references, which can take half their time."""
    return numba.njit(cache=True, _nrt=False)(function)  # type: ignore[no-any-return]


def compiled_inline(function: Function) -> Function:
    """`compiled_lean` for functions that one other calls: part of it, since handing over many arrays takes its time."""
    return numba.njit(cache=True, _nrt=False, inline="always")(function)  # type: ignore[no-any-return]


def compiled_free(function: Function) -> Function:
    """`compiled` for long searches that touch no Python object: other threads run meanwhile."""
    return numba.njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]


@intrinsic  # type: ignore[untyped-decorator]
def move(_context: Any, numbers: Any, source: Any, target: Any, count: Any) -> Any:
    """Copy so many numbers of an array from one place in it to another; the two stretches may overlap."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = signature.args[0]
        data = context.make_array(kind)(context, builder, values[0]).data
        there, here = builder.gep(data, [values[2]]), builder.gep(data, [values[1]])
        size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        cgutils.raw_memmove(builder, there, here, values[3], size)
        return context.get_dummy_value()

    return types.void(numbers, types.int64, types.int64, types.int64), code


# ---- orders: a function for one job, called by address from the kernels ---------------------------------------------

_INTS, _FLOATS = types.CPointer(types.int64), types.CPointer(types.float64)
# jobs, capacity, usage, users, rows, count, now, parameters, out
FORMULA = types.void(
    _INTS, types.int64, _FLOATS, types.int64, _INTS, types.int64, types.int64, _FLOATS, _FLOATS
)  # fmt: skip
_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
_CALLED = ctypes.CFUNCTYPE(  # the same from Python
    None, _POINTER, _NUMBER, _POINTER, _NUMBER, _POINTER, _NUMBER, _NUMBER, _POINTER, _POINTER
)

# Division by zero gives infinity or NaN, as in numpy. An index without a sign never counts from the end.
_ORDER_SOURCE = """# Made by cohabit from {origin}; safe to delete, it will be made again. Sources: {digest}
import numba
import numpy
from numba import carray, cfunc
from cohabit.compiled_numba import FORMULA
from cohabit.core import columns as c
from cohabit.orders.power import power

@numba.njit(error_model="numpy", _nrt=False)
{function}

@numba.njit(_nrt=False, cache=True)
def score_rows(view, rows, now, parameters, out):
    for index in range(len(rows)):
        out[index] = score_one(view, numpy.uint64(rows[index]), now{arguments})

@cfunc(FORMULA, cache=True)
def entry(jobs_at, capacity, usage_at, users, rows_at, count, now, parameters_at, out_at):
    jobs = carray(jobs_at, (c.JOB_COLUMNS, capacity))
    usage = carray(usage_at, (2, users + 1))
    view = c.Columns(
        jobs[c.NODES], jobs[c.LIMIT], jobs[c.SUBMIT], jobs[c.SEQ], jobs[c.CORES], jobs[c.USER], jobs[c.PARTITION],
        jobs[c.QOS], jobs[c.ELIGIBLE], usage[0, :-1], usage[1, :-1],
    )
    score_rows(view, carray(rows_at, count), now, carray(parameters_at, {room}), carray(out_at, count))
"""


class ScoreEntry(types.WrapperAddressProtocol):  # type: ignore[misc]
    """An order as the kernels take it; `score_rows` is the same from Python, where it is compiled."""

    def __init__(self, address: int, alive: object = None, score_rows: Callable[..., None] | None = None) -> None:
        self.address = address
        self.alive = alive  # objects that must not be collected while the address is in use
        self.score_rows = score_rows

    def __wrapper_address__(self) -> int:
        return self.address

    def signature(self) -> Any:
        return FORMULA

    def scores(
        self, columns: Any, rows: NDArray[np.int64], now_us: int, parameters: tuple[float, ...]
    ) -> NDArray[np.float64]:
        """The scores of these rows, called from Python."""
        assert self.score_rows is not None
        out = np.empty(len(rows))
        self.score_rows(columns, rows, now_us, np.array([*parameters, 0.0]), out)
        return out


def compile_order(origin: str, source: str, parameters: int) -> ScoreEntry:
    """Machine code from the source of a function `score_one` (orders/one_job.py); raises whatever numba raises.

    It is kept on disk under the content of its source, as is the name of its module: machine code knows modules by
    their names, and with such a one it fits wherever the folder has been moved to.
    """
    arguments = "".join(f", parameters[{index}]" for index in range(parameters))
    files = ("compiled_numba.py", "core/columns.py", "orders/power.py")
    text = _ORDER_SOURCE.format(
        origin=origin, function=source, arguments=arguments, room=parameters + 1,
        digest=kept_code.digest_of(*(kept_code.PACKAGE / name for name in files)),
    )  # fmt: skip
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    path = kept_code.order_file(f"order_{digest}.py")
    if not path.exists():
        with kept_code.writing(path) as stream:
            stream.write(text.encode())
    module = load_file(str(path), f"cohabit_order_{digest}")
    return ScoreEntry(module.entry.address, score_rows=module.score_rows)


@numba.cfunc(FORMULA, cache=True)
def _no_scores(jobs, capacity, usage, users, rows, count, now, parameters, out):  # type: ignore[no-untyped-def]
    pass


def no_scores() -> ScoreEntry:
    """Return the placeholder for an order that needs no compiled form."""
    return ScoreEntry(_no_scores.address)


def python_entry(score: Callable[[int, int], None]) -> ScoreEntry:
    """A way back into Python for an order numba cannot compile: score(count, now) works on buffers it knows."""
    callback = _CALLED(lambda _j, _c, _u, _n, _r, count, now, _p, _o: score(count, now))
    return ScoreEntry(ctypes.cast(callback, _POINTER).value or 0, callback)


# ---- what compiled_late.py needs ------------------------------------------------------------------------------------


def understand(kernel: type, primitive: type, entry: type) -> None:
    """Have kernels call these classes of compiled_late.py as what they stand for."""
    typeof_impl.register(kernel)(lambda one, context: typeof_impl(one.compiled(), context))
    typeof_impl.register(primitive)(lambda one, _: cpu_target.typing_context.resolve_value_type(globals()[one.name]))
    typeof_impl.register(entry)(lambda _one, _: types.FunctionType(FORMULA))


def compile_for(kernel: Any, arguments: tuple[Any, ...]) -> None:
    """Machine code of a kernel for arguments like these."""
    kernel.compile(tuple(numba.typeof(one) for one in arguments))
