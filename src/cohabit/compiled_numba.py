"""Kernels as machine code, made by numba: what compiled.py offers where numba is there and wanted.

Machine code is kept on disk (kept_code.py). No fast-math: journals must replay byte for byte on x86-64 and arm64.
compiled_plain.py has the same names without numba.
"""

from __future__ import annotations

import ctypes
import hashlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

# isort: off
from cohabit import kept_code  # before numba, which then starts sooner and keeps machine code as it says

# isort: on
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.cpython.unsafe.numbers import leading_zeros, trailing_zeros
from numba.experimental import function_type  # noqa: F401  # it knows the kind of a ScoreEntry
from numba.extending import intrinsic, typeof_impl
from numpy.typing import NDArray

from cohabit.compiled_plain import EMPTY, MEMORY_HEAD, NO_MEMORY, RISING
from cohabit.kept_code import forget_unused, is_warm
from cohabit.source_files import load_file, load_source

__all__ = [
    "EMPTY",
    "FORMULA",
    "MEMORY_HEAD",
    "NO_MEMORY",
    "RISING",
    "ScoreEntry",
    "compile_as_it_stands",
    "compile_bounds",
    "compile_for",
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
    return numba.njit(cache=True, _nrt=False, forceinline=True)(function)  # type: ignore[no-any-return]


def compiled_free(function: Function) -> Function:
    """`compiled` for long searches that touch no Python object: other threads run meanwhile."""
    return numba.njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]


@intrinsic  # type: ignore[untyped-decorator]
def fused(_context: Any, _a: Any, _b: Any, _c: Any) -> Any:
    """a * b + c, rounded once."""
    number = types.float64
    return number(number, number, number), lambda _context, builder, _signature, values: builder.fma(*values)


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


_EIGHT = ir.VectorType(ir.DoubleType(), 8)


def _in_eights(join: Callable[[Any, Any, Any], Any]) -> Any:
    """Join numbers[first], [first + 8] ... with each other, [first + 1] ..., and the eight found pair by pair.

    For `count` numbers, some eights. The compiler does not find by itself that several can be joined at once.
    """

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        word = values[1].type

        def eight(at: Any) -> Any:
            place = builder.gep(data, [builder.add(values[1], at)])
            loaded = builder.load(builder.bitcast(place, _EIGHT.as_pointer()))
            loaded.align = 8
            return loaded

        found = cgutils.alloca_once_value(builder, eight(word(0)))
        with cgutils.for_range_slice(builder, word(8), values[2], word(8), word) as (at, _):
            builder.store(join(builder, builder.load(found), eight(at)), found)
        parts = [builder.extract_element(builder.load(found), ir.IntType(32)(place)) for place in range(8)]
        while len(parts) > 1:
            parts = [join(builder, one, other) for one, other in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    @intrinsic  # type: ignore[untyped-decorator]
    def joined(_context: Any, numbers: Any, first: Any, count: Any) -> Any:
        return types.float64(numbers, types.int64, types.int64), code

    return joined


def _of_two(name: str) -> Callable[[Any, Any, Any], Any]:
    def join(builder: Any, one: Any, other: Any) -> Any:
        kind = f"llvm.{name}.{'v8f64' if one.type == _EIGHT else 'f64'}"
        chosen = builder.module.declare_intrinsic(kind, fnty=ir.FunctionType(one.type, [one.type] * 2))
        return builder.call(chosen, [one, other])

    return join


sum_in_eights = _in_eights(lambda builder, one, other: builder.fadd(one, other))
least_in_eights = _in_eights(_of_two("minnum"))  # what is no number is passed over
largest_in_eights = _in_eights(_of_two("maxnum"))


# ---- order policies: one vectorised Python function, compiled as it stands and called by address from the kernels ----

_INTS, _FLOATS = types.CPointer(types.int64), types.CPointer(types.float64)
# jobs, capacity, usage, users, rows, count, now, parameters, out
FORMULA = types.void(
    _INTS, types.int64, _FLOATS, types.int64, _INTS, types.int64, types.int64, _FLOATS, _FLOATS
)  # fmt: skip
_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
_CALLED = ctypes.CFUNCTYPE(  # the same from Python
    None, _POINTER, _NUMBER, _POINTER, _NUMBER, _POINTER, _NUMBER, _NUMBER, _POINTER, _POINTER
)

_ENTRY_SOURCE = """# Made by cohabit from {origin}; safe to delete, it will be made again.
import numba
import numpy
from numba import carray, cfunc
from cohabit.compiled_numba import FORMULA, load_source
from cohabit.core import columns as c

{function}

@cfunc(FORMULA, cache=True)
def entry(jobs_at, capacity, usage_at, users, rows_at, count, now, parameters_at, out_at):
    jobs = carray(jobs_at, (c.JOB_COLUMNS, capacity))
    usage = carray(usage_at, (2, users + 1))
    view = c.Columns(
        jobs[c.NODES], jobs[c.LIMIT], jobs[c.SUBMIT], jobs[c.SEQ], jobs[c.CORES], jobs[c.USER], jobs[c.PARTITION],
        jobs[c.QOS], jobs[c.ELIGIBLE], usage[0, :-1], usage[1, :-1],
    )
    parameters = carray(parameters_at, {most})
    out = carray(out_at, count)
    {call}
"""
# The function as it stands, for all rows at once; rewritten for one (an index without a sign is never from the end);
# and recorded, with the loops over all rows written out
_AS_IT_STANDS = "scores = numba.njit(getattr(load_source({origin!r}), {name!r}))\n"
_CALL_AS_IT_STANDS = "out[:] = scores(view, carray(rows_at, count), now{arguments})"
_CALL_FOR_ONE = """for index in range(count):
        out[index] = score_one(view, numpy.uint64(rows_at[index]), now{arguments})"""
_CALL_GIVEN = "score_given(view, carray(rows_at, count), now{arguments}, out)"
_CALL_BOUNDS = "bound_queue(view, carray(rows_at, count), now{arguments}, out)"
_NUMPY_DIVISION = '@numba.njit(error_model="numpy")'  # by zero as in arrays
# For a function that makes no arrays, without counting of references: a call for one row takes a quarter of the time.
_LEAN = '@numba.njit(error_model="numpy", _nrt=False)'
_MAKE_ARRAYS = ("numpy.empty", "ranks.", "sums.")
_CALL_FOR_QUEUE = """rows = carray(rows_at, count)
    memory = carray(parameters_at, {memory_at} + {head} + {memory} * capacity)[{memory_at}:]
    if memory[0] == {no_memory}:
        with_memory_of_its_own(view, rows, now, parameters, capacity, out)
    else:
        score_queue(view, rows, now{arguments}, memory, out)"""
_MEMORY_OF_ITS_OWN = """
@numba.njit(_nrt=True)
def with_memory_of_its_own(view, rows, now, parameters, capacity, out):
    memory = numpy.empty({head} + {memory} * capacity)
    memory[:{head}] = 0.0
    score_queue(view, rows, now{arguments}, memory, out)
"""


class ScoreEntry(types.WrapperAddressProtocol):  # type: ignore[misc]
    """A compiled order, as the kernels take it."""

    def __init__(self, address: int, alive: object = None, memory: int = 0) -> None:
        self.address = address
        self.alive = alive  # whatever must not be collected while the address is in use
        self.memory = memory  # how many numbers per row it may remember
        self.of_usage = False  # bounds only: whether they hold as long as no share of usage shrinks

    def __wrapper_address__(self) -> int:
        return self.address

    def signature(self) -> Any:
        return FORMULA

    def numbers(self, parameters: tuple[float, ...], capacity: int = 0, rising: bool = False) -> NDArray[np.float64]:
        """Its parameters as it takes them; with an empty memory for the rows of a table of this capacity, if any.

        A memory is for one job table, all of whose rows are there from the beginning and keep what policies see.
        """
        if capacity == 0 or self.memory == 0:
            return np.array([*parameters, NO_MEMORY])
        found = np.concatenate([parameters, [EMPTY], np.zeros(MEMORY_HEAD - 1 + self.memory * capacity)])
        found[len(parameters) + RISING] = rising
        return found

    def scores(
        self, jobs: NDArray[Any], usage: NDArray[Any], rows: NDArray[Any], now_us: int, numbers: NDArray[np.float64]
    ) -> NDArray[Any]:
        """What it gives for these rows, called from Python."""
        out = np.empty(len(rows))
        self.write(jobs, usage, rows, now_us, numbers, out)
        return out

    def write(
        self,
        jobs: NDArray[Any],
        usage: NDArray[Any],
        rows: NDArray[Any],
        now_us: int,
        numbers: NDArray[np.float64],
        out: NDArray[np.float64],
    ) -> None:
        """The same into an array that is there."""
        _CALLED(self.address)(
            jobs.ctypes.data, jobs.shape[1], usage.ctypes.data, usage.shape[1] - 1, rows.ctypes.data, len(rows), now_us,
            numbers.ctypes.data, out.ctypes.data,
        )  # fmt: skip


def compile_as_it_stands(origin: str, name: str, parameters: int) -> ScoreEntry:
    """Machine code for an order function; raises whatever numba raises where the function is beyond it, as do these:"""
    module = load_source(origin)
    if getattr(module, "__file__", None) is None:  # what it refers to may change while no file does
        raise ValueError(f"{origin} has no file")
    source = inspect.getsourcefile(getattr(module, name)) or ""
    content = hashlib.blake2b(Path(source).read_bytes(), digest_size=8).hexdigest()
    function = f"# content: {content}\n" + _AS_IT_STANDS.format(origin=origin, name=name)
    return _entry_of(origin, function, _CALL_AS_IT_STANDS, parameters)


def compile_for_one(origin: str, source: str, parameters: int) -> ScoreEntry:
    """The same from the source of a function `score_one` for one row (policy/one_by_one.py)."""
    function = f"from cohabit.core import powers\n\n{_NUMPY_DIVISION}\n{source}"
    return _entry_of(origin, function, _CALL_FOR_ONE, parameters)


def compile_for_queue(origin: str, source: str, memory: int, parameters: int, first: str = "") -> ScoreEntry:
    """The same from the source of a function `score_queue` that writes the scores of all rows (policy/recording.py)."""
    kind = _NUMPY_DIVISION if any(word in source for word in _MAKE_ARRAYS) else _LEAN
    own = _MEMORY_OF_ITS_OWN.format(arguments=_arguments(parameters), memory=memory, head=MEMORY_HEAD)
    rooms = ", ".join(room for room in ("powers", "ranks", "sums") if f"{room}." in source)
    function = (f"from cohabit.core import {rooms}\n" if rooms else "") + f"\n{kind}\n{source}\n{own}"
    return _entry_of(origin, function, first + _CALL_FOR_QUEUE, parameters, memory)


def compile_bounds(origin: str, source: str, parameters: int) -> ScoreEntry:
    """The same from the source of `bound_queue` (policy/bounds.py); until when the bounds hold is a last parameter."""
    function = f"from cohabit.core import intervals, powers\n\n{_LEAN}\n{source}"
    found = _entry_of(origin, function, _CALL_BOUNDS, parameters + 1)
    found.of_usage = "jobs.usage_share" in source
    return found


def compile_numbers(origin: str, source: str, memory: int, parameters: int, numbers: int) -> ScoreEntry:
    """The same as for a queue, but it writes so many numbers made of the queue, twice (policy/given.py)."""
    return compile_for_queue(origin, source, memory, parameters, f"out = carray(out_at, {2 * numbers})\n    ")


def compile_given(origin: str, source: str, parameters: int, kinds: list[str]) -> ScoreEntry:
    """The same from the source of `score_given`, to which numbers of the queue of such types are parameters, too."""
    function = f"from cohabit.core import powers\n\n{_LEAN}\n{source}"
    views = [f"parameters{'.view(numpy.int64)' if kind == 'int64' else ''}" for kind in kinds]
    more = "".join(f", {view}[{place}]" for place, view in enumerate(views, parameters))
    call = _CALL_GIVEN.format(arguments=_arguments(parameters) + more)
    return _entry_of(origin, function, call, parameters + len(kinds))


def _arguments(parameters: int) -> str:
    return "".join(f", parameters[{index}]" for index in range(parameters))


def _entry_of(origin: str, function: str, call: str, parameters: int, memory: int = 0) -> ScoreEntry:
    """The entry this function makes, kept on disk under the content of its source, as is the name of its module.

    Machine code knows modules by their names; with such a one it fits wherever the folder has been moved to.
    """
    called = call.format(
        arguments=_arguments(parameters), memory_at=parameters, memory=memory, head=MEMORY_HEAD, no_memory=NO_MEMORY
    )
    text = _ENTRY_SOURCE.format(origin=origin, function=function, most=max(parameters, 1), call=called)
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    path = kept_code.order_file(f"order_{digest}.py")
    if not path.exists():
        with kept_code.writing(path) as stream:
            stream.write(text.encode())
    return ScoreEntry(load_file(str(path), f"cohabit_order_{digest}").entry.address, memory=memory)


@numba.cfunc(FORMULA, cache=True)
def _no_scores(jobs, capacity, usage, users, rows, count, now, parameters, out):  # type: ignore[no-untyped-def]
    pass


def no_scores() -> ScoreEntry:
    """Stands where an order needs no compiled form."""
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
