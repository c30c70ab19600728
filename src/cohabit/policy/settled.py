"""What numpy leaves open is settled for order functions, so that they score alike on every processor.

`np.argsort(x)` may put equal numbers in any order, `@` and its like add in whatever order a library finds fastest, and
`np.interp` rounds once or twice: all this differs from one processor to the next, and a schedule must not hang on it.
An order function that asks for such a thing is therefore called with a numpy whose `argsort` is stable unless another
kind is asked for (ties go to the earlier submission, as everywhere), whose sums of a table's columns, weighted or not,
are added from left to right, and whose `interp` rounds after every operation. Where numpy has its own `tanh`, `exp`,
`power` and the like for a processor, those of the system's library are taken, for `x ** y` too. Functions of its own
file are called with the same numpy; those of other modules keep their own.
"""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import math
import textwrap
import tokenize
from collections.abc import Callable, Iterable
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LONGEST_SUM = 64  # of columns, from left to right
# Functions of core/library.py, as Python has them
LIBRARY: dict[str, Callable[..., float]] = {
    "exp": math.exp, "exp2": math.exp2, "expm1": math.expm1, "log": math.log, "log2": math.log2,
    "log10": math.log10, "log1p": math.log1p, "sin": math.sin, "cos": math.cos, "tan": math.tan, "arctan": math.atan,
    "arcsinh": math.asinh, "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh, "cbrt": math.cbrt,
    "arcsin": math.asin, "arccos": math.acos, "arctanh": math.atanh, "arccosh": math.acosh, "power": math.pow,
}  # fmt: skip
UP_TO_ONE, FROM_ONE = ("arcsin", "arccos", "arctanh"), ("arccosh",)  # what they are defined for
RAISED, RAISED_IN_PLACE = "_raised_by_the_library", "_raised_in_place"  # what stands for ** and **= in a function
SHORTCUTS = (-1, 0, 0.5, 1, 2)  # exponents for which ** needs no power


class Table(np.ndarray[Any, Any]):
    """An array of columns or rows; products with it are added from left to right."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if not all(map(_is_known, inputs)):
            return NotImplemented
        plain = [_plain(one) for one in inputs]
        if "out" in options:
            options["out"] = tuple(_plain(one) for one in options["out"])
        if ufunc is np.matmul and method == "__call__" and not options:
            return product(*plain)
        return _as_table(getattr(ufunc, method)(*plain, **options))

    def dot(self, other: Any, out: Any = None) -> Any:
        """As the operator @."""
        return product(self, other) if out is None else super().dot(other, out)

    def sum(self, axis: Any = None, *more: Any, **options: Any) -> Any:
        """Of a few columns or rows, from left to right; and so is this:"""
        total = None if more or any(one is not None for one in options.values()) else self._added(axis)
        return super().sum(axis, *more, **options) if total is None else total

    def mean(self, axis: Any = None, *more: Any, **options: Any) -> Any:
        total = None if more or any(one is not None for one in options.values()) else self._added(axis)
        return super().mean(axis, *more, **options) if total is None else total / self.shape[axis]

    def _added(self, axis: Any) -> Any:
        if type(axis) is not int or not -2 <= axis < 2 or self.ndim != 2 or self.dtype.kind not in "if":
            return None
        parts = list(np.moveaxis(_plain(self), axis, 0))
        if not 0 < len(parts) <= LONGEST_SUM:
            return None
        total = parts[0].copy()
        for part in parts[1:]:
            total = total + part
        return total


def _is_known(value: Any) -> bool:
    """Whether it is numpy's or Python's, and no stand-in with its own way."""
    return issubclass(type(value), np.ndarray | np.generic) or not hasattr(type(value), "__array_ufunc__")


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Table) else value


def _as_table(value: Any) -> Any:
    return value.view(Table) if isinstance(value, np.ndarray) and value.ndim == 2 else value


def product(one: Any, other: Any) -> Any:
    """The sum of products over the last axis of one and the first of the other, from left to right."""
    one, other = np.asarray(_plain(one)), np.asarray(_plain(other))
    fits = {one.ndim, other.ndim} <= {1, 2} and one.shape[-1] == other.shape[0] > 0 and "b" not in (
        one.dtype.kind, other.dtype.kind
    )  # fmt: skip
    if not fits:
        return np.dot(one, other)
    if one.ndim == other.ndim == 1:
        return (one * other).sum()
    if len(other) > LONGEST_SUM:
        return (one[..., None] * other).sum(axis=-2) if other.ndim == 2 else (one * other).sum(axis=-1)
    left = np.moveaxis(one, -1, 0) if other.ndim == 1 or one.ndim == 1 else one.T[:, :, None]
    return _as_table(from_left_to_right(list(left), list(other)))


def from_left_to_right(columns: list[Any], weights: list[Any]) -> Any:
    """Each column times its weight, added up."""
    total = columns[0] * weights[0]
    for column, weight in zip(columns[1:], weights[1:], strict=True):
        total = total + column * weight
    return total


def contraction(pattern: Any) -> tuple[int, bool] | None:
    """Of np.einsum: which operand is the table, and whether its columns are added (else its rows)."""
    sides = pattern.replace(" ", "").split("->") if isinstance(pattern, str) else []
    terms = sides[0].split(",") if len(sides) == 2 else []
    if sorted(map(len, terms)) != [1, 2] or not "".join(terms).isalpha():
        return None
    table = int(len(terms[1]) == 2)
    letters, weights = terms[table], terms[1 - table]
    if weights not in letters or letters[0] == letters[1] or sides[1] != letters.replace(weights, ""):
        return None
    return table, letters[1] == weights


def usable_table(places: Any, heights: Any) -> tuple[Array, Array] | None:
    """The two columns of a table to interpolate in, if it is an ordinary one: rising, and without surprises."""
    at, height = np.asarray(places), np.asarray(heights)
    if at.ndim != 1 or at.shape != height.shape or len(at) < 2 or {at.dtype.kind, height.dtype.kind} - {*"if"}:
        return None
    at, height = at.astype(float), height.astype(float)
    sound = np.isfinite(at).all() and (np.abs(height) < 1e150).all() and not np.signbit(height[height == 0]).any()
    if not sound or not (at[1:] > at[:-1]).all() or not np.isfinite(slopes(at, height)).all():
        return None
    return at, height


def slopes(places: Array, heights: Array) -> Array:
    """How steep each stretch of the table is."""
    with np.errstate(all="ignore"):
        found: Array = (heights[1:] - heights[:-1]) / (places[1:] - places[:-1])
    return found


class _SettledLinalg:
    """np.linalg: of it, how long a vector is."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np.linalg, name)

    @staticmethod
    def norm(values: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
        """As numpy's, summed like any other sum; of a table, along one of its axes."""
        real = getattr(getattr(values, "dtype", None), "kind", "f") in "if"
        vector = isinstance(values, np.ndarray) and values.ndim == 1
        if not real or ord not in (None, 2) or keepdims or (axis is None and not vector):
            return np.linalg.norm(values, ord, axis, keepdims)
        numbers = values * 1.0
        return np.sqrt((numbers * numbers).sum(axis))


class _Settled:
    """numpy, but what it leaves open is settled."""

    linalg = _SettledLinalg()

    def __getattr__(self, name: str) -> Any:
        return of_the_library(name) if name in LIBRARY and has_its_own(name) else getattr(np, name)

    @staticmethod
    def argsort(values: Any, *more: Any, **options: Any) -> Any:
        """As numpy's, stable where nothing else is asked for."""
        if len(more) < 2 and options.get("kind") is None and options.get("stable") is None:
            options["kind"] = "stable"
        return np.argsort(values, *more, **options)

    @staticmethod
    def interp(values: Any, places: Any, heights: Any, *more: Any, **options: Any) -> Any:
        """As numpy's, rounded after every operation."""
        table = usable_table(places, heights)
        if more or options or table is None or np.asarray(values).dtype not in (np.float64, np.int64):
            return np.interp(values, places, heights, *more, **options)
        (at, height), x = table, np.asarray(values, float)
        stretch = np.clip(np.searchsorted(at, x, side="right") - 1, 0, len(at) - 2)
        with np.errstate(all="ignore"):
            found = slopes(at, height)[stretch] * (x - at[stretch]) + height[stretch]
        return np.where(x < at[0], height[0], np.where(x >= at[-1], height[-1], found))[()]

    @staticmethod
    def array(*values: Any, **options: Any) -> Any:
        """As numpy's; so are these:"""
        return _as_table(np.array(*values, **options))

    @staticmethod
    def column_stack(*values: Any, **options: Any) -> Any:
        return _as_table(np.column_stack(*values, **options))

    @staticmethod
    def stack(*values: Any, **options: Any) -> Any:
        return _as_table(np.stack(*values, **options))

    @staticmethod
    def vstack(*values: Any, **options: Any) -> Any:
        return _as_table(np.vstack(*values, **options))

    @staticmethod
    def dot(one: Any, other: Any, *more: Any, **options: Any) -> Any:
        """As numpy's, from left to right; so are these:"""
        return np.dot(one, other, *more, **options) if more or options else product(one, other)

    @staticmethod
    def matmul(one: Any, other: Any, *more: Any, **options: Any) -> Any:
        return np.matmul(one, other, *more, **options) if more or options else product(one, other)

    @staticmethod
    def einsum(pattern: Any, *operands: Any, **options: Any) -> Any:
        known = contraction(pattern) if len(operands) == 2 and not options else None
        if known is None:
            return np.einsum(pattern, *operands, **options)
        table, columns = known
        if columns:
            return product(operands[table], operands[1 - table])
        return product(operands[1 - table], operands[table])


@cache
def has_its_own(name: str) -> bool:
    """Whether numpy has another function of that name than the library, on this processor."""
    probes = np.geomspace(0.001, 9.0, 20_000)
    if name in UP_TO_ONE + FROM_ONE:
        probes = probes / 10.0 if name in UP_TO_ONE else probes + 1.0
    exponents = (np.full(len(probes), 1.3),) if name == "power" else ()
    expected = list(map(LIBRARY[name], probes.tolist(), *(one.tolist() for one in exponents)))
    with np.errstate(all="ignore"):
        return bool((getattr(np, name)(probes, *exponents) != expected).any())


@cache
def of_the_library(name: str) -> Any:
    """numpy's function, computed by the library where nothing special is asked for."""
    from cohabit.core import library

    does, own = getattr(library, name), getattr(np, name)

    def computed(*values: Any, **options: Any) -> Any:
        plain = all(map(_is_number, values)) and len(values) == own.nin and not options
        if not plain or np.result_type(*values, 1.0 if own.nin == 1 else 1) != np.float64:
            return own(*values, **options)
        if name == "power" and np.ndim(values[1]) == 0 and values[1] == 2:
            return own(*values)  # numpy multiplies
        alike = np.broadcast_arrays(*(np.asarray(one, float) for one in values))
        found = does(*map(np.ravel, alike)).reshape(alike[0].shape)
        return _as_table(found) if any(isinstance(one, Table) for one in values) else found[()]

    return computed


def raised(base: Any, exponent: Any) -> Any:
    """base ** exponent, by the library."""
    by_itself = all(map(_is_number, (base, exponent))) and np.ndim(exponent) == 0 and exponent in SHORTCUTS
    arrays = any(type(one) in (np.ndarray, Table) for one in (base, exponent))
    return of_the_library("power")(base, exponent) if arrays and not by_itself else base**exponent


def raised_in_place(base: Any, exponent: Any) -> Any:
    """base **= exponent: every name of the array sees it."""
    if type(base) in (np.ndarray, Table) and base.dtype == np.float64:
        base[...] = raised(base, exponent)
    else:
        base **= exponent
    return base


def _is_number(value: Any) -> bool:
    """Or an array; and no stand-in that looks like one."""
    return issubclass(type(value), np.ndarray | np.number | int | float)


SETTLED = _Settled()
_NAMES = {name for name in vars(_Settled) if not name.startswith("_")}


def settled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, or the same with that numpy if it asks for what numpy leaves open."""
    if not isinstance(function, FunctionType) or not any(_asks(one) for one in _of_its_file(function)):
        return function
    return with_modules(function, ((np, SETTLED),), {})


def with_modules(function: FunctionType, modules: Iterable[tuple[Any, Any]], more: dict[str, Any]) -> FunctionType:
    """The function with other modules for some, and more names; functions of its own file too."""
    known = {**more, RAISED: raised, RAISED_IN_PLACE: raised_in_place, **function.__globals__}
    for name, value in known.items():
        others = [other for module, other in modules if value is module or (value is SETTLED and module is np)]
        if others:
            known[name] = others[0]
        elif _is_beside(value, function):
            known[name] = _rebound(value, known)
    return _rebound(function, known)


def _is_beside(value: Any, function: FunctionType) -> bool:
    return type(value) is FunctionType and value.__globals__ is function.__globals__


def _rebound(function: FunctionType, known: dict[str, Any]) -> FunctionType:
    code = function.__code__ if function.__closure__ else _without_powers(function.__code__)
    found = FunctionType(code, known, function.__name__, function.__defaults__, function.__closure__)
    found.__kwdefaults__ = function.__kwdefaults__
    return found


@cache
def _without_powers(code: CodeType) -> CodeType:
    """The same, but ** asks the library; where there is no source to tell from, as it is."""
    if not (has_its_own("power") and _has_operator(code, "**")):
        return code
    try:
        lines = inspect.getblock(linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :])
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (SyntaxError, tokenize.TokenError):
        return code
    ast.increment_lineno(tree, code.co_firstlineno - 1)
    module = compile(ast.fix_missing_locations(_Powers().visit(tree)), code.co_filename, "exec")
    found = [one for one in module.co_consts if isinstance(one, CodeType) and one.co_name == code.co_name]
    return found[0] if len(found) == 1 and found[0].co_varnames == code.co_varnames else code


class _Powers(ast.NodeTransformer):
    """Puts a call in the place of every ** and **=."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        numbers = isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant)
        if not isinstance(node.op, ast.Pow) or numbers:
            return node
        return ast.copy_location(ast.Call(ast.Name(RAISED, ast.Load()), [node.left, node.right], []), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Pow) or not isinstance(node.target, ast.Name):
            return node
        terms = [ast.Name(node.target.id, ast.Load()), node.value]
        call = ast.Call(ast.Name(RAISED_IN_PLACE, ast.Load()), terms, [])
        return ast.copy_location(ast.Assign([node.target], call), node)


def _of_its_file(function: FunctionType) -> list[CodeType]:
    others = [value.__code__ for value in function.__globals__.values() if _is_beside(value, function)]
    return [function.__code__, *others]


def _asks(code: CodeType) -> bool:
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    operates = _has_operator(code, "@") or (_has_operator(code, "**") and has_its_own("power"))
    return operates or any(map(_is_settled, code.co_names)) or any(map(_asks, inner))


def _has_operator(code: CodeType, sign: str) -> bool:
    """Whether it, or a generator in it, uses this operator."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    here = any(one.opname == "BINARY_OP" and one.argrepr in (sign, f"{sign}=") for one in dis.get_instructions(code))
    return here or any(_has_operator(one, sign) for one in inner)


def _is_settled(name: str) -> bool:
    return name in _NAMES or (name in LIBRARY and has_its_own(name))
