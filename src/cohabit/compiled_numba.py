"""Make machine code with numba, for compiled.py, which loads this module when machine code is wanted.

Machine code is kept on disk (kept_code.py). No fast-math: journals must replay byte for byte on x86-64 and arm64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

# isort: off
from cohabit import kept_code  # before numba, which then starts sooner and keeps machine code as it says

# isort: on
import numba
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.cpython.unsafe.numbers import trailing_zeros
from numba.experimental import function_type  # noqa: F401  # it knows the kind of a ScoreEntry
from numba.extending import intrinsic, typeof_impl

from cohabit.kept_code import forget_unused, is_warm
from cohabit.source_files import load_file

__all__ = ["FORMULA", "forget_unused", "is_warm", "trailing_zeros"]


def kernel(function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """Return a function that is compiled on its first call; its machine code is kept on disk."""
    return numba.njit(cache=True, **options)(function)


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


def compile_order(origin: str, source: str, parameters: int) -> tuple[int, Callable[..., None]]:
    """The address of a compiled order for kernels, and the order for Python.

    It is kept on disk under the content of its source, as is the name of its module: machine code knows modules by
    their names, and with such a one it fits wherever the folder has been moved to.
    """
    arguments = "".join(f", parameters[{index}]" for index in range(parameters))
    files = ("compiled_numba.py", "core/columns.py", "orders/power.py")
    text = _ORDER_SOURCE.format(
        origin=origin,
        function=source,
        arguments=arguments,
        room=parameters + 1,
        digest=kept_code.digest_of(*(kept_code.PACKAGE / name for name in files)),
    )
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    path = kept_code.order_file(f"order_{digest}.py")
    if not path.exists():
        with kept_code.writing(path) as stream:
            stream.write(text.encode())
    module = load_file(str(path), f"cohabit_order_{digest}")
    return module.entry.address, module.score_rows


def understand(kernel: type, primitive: type, entry: type) -> None:
    """Have kernels call these classes of compiled.py as what they stand for."""
    typeof_impl.register(kernel)(lambda one, context: typeof_impl(one.compiled, context))
    typeof_impl.register(primitive)(lambda one, _: cpu_target.typing_context.resolve_value_type(globals()[one.name]))
    typeof_impl.register(entry)(lambda _one, _: types.FunctionType(FORMULA))


def compile_for(kernel: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the machine code of a kernel for arguments of these types; it does not check them."""
    found: Callable[..., Any] = kernel.compile(tuple(numba.typeof(one) for one in arguments))
    return found
