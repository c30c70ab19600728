"""Rewrite an order function for one job at a time and compile it: so it makes no arrays.

Only a function that treats every job alike and by itself is rewritten: it reads jobs as `jobs.name[rows]` and applies
numpy's element-wise operations to them. Every operator becomes the numpy function it stands for. Any other function,
and one that numba cannot compile, stays a numpy function.

The compiled form is the definition of the order: the simulator, the live core and the readable twin all call it. It
uses the mathematical library of the system, so scores are the same on every processor. An order that stays in numpy
may differ in the last bit between processors.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import textwrap
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import FunctionType
from typing import Any

import numpy as np

from cohabit.compiled import PLAIN, compile_order
from cohabit.core.columns import Columns
from cohabit.core.protocols import Order

BY_USER = ("usage", "usage_share")  # columns with a number per user
BY_ROW = tuple(name for name in Columns._fields if name not in BY_USER)
# numpy's names for Python's operators on arrays
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "true_divide", ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder", ast.Pow: "power", ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor", ast.USub: "negative", ast.Invert: "invert", ast.Lt: "less", ast.LtE: "less_equal",
    ast.Gt: "greater", ast.GtE: "greater_equal", ast.Eq: "equal", ast.NotEq: "not_equal",
}  # fmt: skip

# operations whose results IEEE 754 prescribes: numpy gives the same bits as machine code
EXACT = {
    "add", "subtract", "multiply", "true_divide", "negative", "less", "less_equal", "greater", "greater_equal", "equal",
    "not_equal", "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "minimum", "maximum", "sqrt", "absolute",
    "float64",
}  # fmt: skip


def compiled_order(order: Order, module: str, in_passes: bool) -> Order:
    """Return the order with its compiled form, if it has one; in_passes: it is called in every pass, not once per job.

    module: the module or file its function comes from.
    """
    source = None if PLAIN else for_one_job(order.function, "score_one")
    if source is None or not (in_passes or _differs_in_numpy(source)):
        return order
    with suppress(Exception):  # numba raises many kinds of exceptions
        return replace(order, entry=compile_order(module, source, len(order.parameters)))
    return order


def _differs_in_numpy(source: str) -> bool:
    """Return whether the function uses an operation that numpy may compute in its own way."""
    used = set(re.findall(r"\bnumpy\.(\w+)\(", source))
    return bool(used - EXACT) or "power(" in source


class _Beyond(Exception):
    """The function does something that cannot be rewritten job by job."""


def for_one_job(function: Callable[..., Any], name: str) -> str | None:
    """Return the source of a function `name` for one row, which needs `numpy` and `power`; None: not possible."""
    if not isinstance(function, FunctionType) or function.__closure__:
        return None
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function.__code__))).body
        return _Rewriter(function).rewrite(tree, name)
    except (OSError, SyntaxError, ValueError, _Beyond):
        return None


class _Rewriter:
    """Rewrites one function. `vectors` are its variables with a value per row, `numbers` those with one value."""

    def __init__(self, function: FunctionType) -> None:
        self.known, self.local = function.__globals__, function.__code__.co_varnames
        self.vectors: set[str] = set()
        self.users: set[str] = set()  # variables that are jobs.user[rows]
        self.numbers: set[str] = set()
        self.parameters: set[str] = set()  # those that were given
        self.jobs = self.rows = ""

    def rewrite(self, tree: ast.stmt, name: str) -> str:
        if not isinstance(tree, ast.FunctionDef) or tree.args.vararg or tree.args.kwarg or tree.args.kwonlyargs:
            raise _Beyond
        if {"numpy", "power"} & {*self.local}:
            raise _Beyond
        names = [argument.arg for argument in (*tree.args.posonlyargs, *tree.args.args)]
        self.jobs, self.rows = names[:2]
        self.numbers.update(names[2:])
        self.parameters.update(names[3:])
        body = "\n".join(ast.unparse(ast.fix_missing_locations(line)) for line in self._block(tree.body))
        return f"def {name}({', '.join(names)}):\n{textwrap.indent(body, '    ')}\n"

    def _block(self, lines: list[ast.stmt]) -> list[ast.stmt]:
        kept = [line for line in lines if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))]
        return [self._line(line) for line in kept]

    def _line(self, line: ast.stmt) -> ast.stmt:
        if isinstance(line, ast.Return) and line.value is not None:
            value, vector = self._value(line.value)
            if vector:
                return ast.Return(value)
        elif isinstance(line, ast.Assign) and len(line.targets) == 1:
            return self._assignment(line.targets[0], line.value)
        elif isinstance(line, ast.AnnAssign) and line.value is not None:
            return self._assignment(line.target, line.value)
        elif isinstance(line, ast.If):
            test, vector = self._value(line.test)
            if not vector:
                return ast.If(test, self._block(line.body) or [ast.Pass()], self._block(line.orelse))
        raise _Beyond

    def _assignment(self, target: ast.expr, value: ast.expr) -> ast.stmt:
        found, vector = self._value(value)
        name = target.id if isinstance(target, ast.Name) else ""
        users = self._is_column(value, ("user",))
        others = (self.numbers if vector else self.vectors) | (self.users if not users else self.vectors - self.users)
        if name in ("", self.jobs, self.rows, *others):  # the name would have two meanings
            raise _Beyond
        (self.vectors if vector else self.numbers).add(name)
        self.parameters.discard(name)
        if users:
            self.users.add(name)
        return ast.Assign([ast.Name(name, ast.Store())], found)

    def _value(self, node: ast.expr) -> tuple[ast.expr, bool]:
        """Return the expression for one job, and whether it stood for one value per row."""
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node, False
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Attribute) and self._is_numpy(node.value) and type(getattr(np, node.attr, 0)) is float:
            return _of_numpy(node.attr), False  # np.pi, np.inf
        if isinstance(node, ast.Subscript):
            if self._is_column(node, BY_ROW) or self._is_looked_up_by_user(node):
                return node, True
        elif isinstance(node, ast.BinOp):
            return self._operation(node, node.op, [node.left, node.right])
        elif isinstance(node, ast.UnaryOp):
            return self._operation(node, node.op, [node.operand])
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._operation(node, node.ops[0], [node.left, node.comparators[0]])
        elif isinstance(node, ast.BoolOp):
            return self._choice(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
            return self._call(node.func, node.args)
        raise _Beyond

    def _name(self, node: ast.Name) -> tuple[ast.expr, bool]:
        if node.id in self.vectors:
            return node, True
        if node.id in self.numbers:
            return node, False
        constant = None if node.id in self.local else self.known.get(node.id)
        if constant is None or type(constant) not in (int, float) or not math.isfinite(constant):
            raise _Beyond
        return ast.Constant(constant), False  # a constant of its module

    def _operation(self, node: ast.expr, operator: ast.AST, operands: list[ast.expr]) -> tuple[ast.expr, bool]:
        found = [self._value(operand) for operand in operands]
        if type(operator) not in OPERATORS:
            raise _Beyond
        values = [value for value, _ in found]
        if any(vector for _, vector in found):
            return ast.Call(self._function(OPERATORS[type(operator)], values), values, []), True
        if isinstance(node, ast.BinOp):
            return ast.BinOp(values[0], node.op, values[1]), False
        if isinstance(node, ast.Compare):
            return ast.Compare(values[0], node.ops, values[1:]), False
        assert isinstance(node, ast.UnaryOp)
        return ast.UnaryOp(node.op, values[0]), False

    def _choice(self, node: ast.BoolOp) -> tuple[ast.expr, bool]:
        found = [self._value(part) for part in node.values]
        if any(vector for _, vector in found):
            raise _Beyond
        return ast.BoolOp(node.op, [value for value, _ in found]), False

    def _call(self, called: ast.Attribute, arguments: list[ast.expr]) -> tuple[ast.expr, bool]:
        if called.attr == "astype" and not self._is_numpy(called.value):
            value, vector = self._value(called.value)
            if vector and len(arguments) == 1 and self._is_float(arguments[0]):
                return ast.Call(_of_numpy("float64"), [value], []), True
            raise _Beyond
        found = [self._value(argument) for argument in arguments]
        values, vector = [value for value, _ in found], any(vector for _, vector in found)
        does = getattr(np, called.attr, None) if self._is_numpy(called.value) else None
        if does is np.where and len(values) == 3 and vector:
            return ast.IfExp(values[0], values[1], values[2]), True
        if isinstance(does, np.ufunc) and (does.nin, does.nout, does.signature) == (len(values), 1, None):
            return ast.Call(self._function(called.attr, values), values, []), vector
        raise _Beyond

    def _function(self, name: str, values: list[ast.expr]) -> ast.expr:
        """Return a call of a numpy function; for one exponent that is a fraction, `power` of orders/power.py."""
        exponent = values[-1] if name == "power" else None
        parameter = isinstance(exponent, ast.Name) and exponent.id in self.parameters
        if parameter or (isinstance(exponent, ast.Constant) and type(exponent.value) is float):
            return ast.Name("power", ast.Load())
        return _of_numpy(name)

    def _is_column(self, node: ast.expr, columns: tuple[str, ...]) -> bool:
        """Return whether this is `jobs.name[rows]` with one of these names."""
        return (
            isinstance(node, ast.Subscript)
            and self._is_of_jobs(node.value, columns)
            and isinstance(node.slice, ast.Name)
            and node.slice.id == self.rows
        )

    def _is_looked_up_by_user(self, node: ast.Subscript) -> bool:
        """Return whether this is `jobs.usage[user]` for the users of the rows."""
        by = node.slice
        known = self._is_column(by, ("user",)) or (isinstance(by, ast.Name) and by.id in self.users)
        return known and self._is_of_jobs(node.value, BY_USER)

    def _is_of_jobs(self, node: ast.expr, columns: tuple[str, ...]) -> bool:
        if not isinstance(node, ast.Attribute) or node.attr not in columns:
            return False
        return isinstance(node.value, ast.Name) and node.value.id == self.jobs

    def _is_numpy(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Name) or node.id in self.local:
            return False
        return self.known.get(node.id) is np

    def _is_float(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr == "float64" and self._is_numpy(node.value)
        return isinstance(node, ast.Name) and node.id == "float" and "float" not in {*self.known, *self.local}


def _of_numpy(name: str) -> ast.expr:
    return ast.Attribute(ast.Name("numpy", ast.Load()), name, ast.Load())
