"""How low an order's scores can go within a while: then few of them are needed in a pass (core/shortlist.py).

Goes through what policy/recording.py has noted of the function and writes it again in the arithmetic of
core/intervals.py: each value that changes becomes two, between which it stays from one instant to another. A function
that looks at several jobs at once, at usage other than shares of it, or asks questions has no such bounds, nor has one
that does anything not known there. A value of which nothing is known is bounded by nothing; that costs time, never a
wrong decision.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from cohabit.compiled import ScoreEntry
from cohabit.core import intervals
from cohabit.core.columns import SUBMIT, columns_of
from cohabit.policy.recording import needed_for, record, various_jobs
from cohabit.policy.stand_ins import Line

ON_TRUTHS = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "invert": "logical_not"}


class _Unknown(Exception):
    """The function has no bounds."""


def for_window(function: Callable[..., Any], parameters: tuple[float, ...]) -> str | None:
    """A function `bound_queue` that writes what no score undercuts from `now_us` to `until_us`; None: there is none."""
    if not isinstance(function, FunctionType):
        return None
    try:
        tape, result = record(function, parameters, ())
        return None if tape.branches else given_numbers(tape.lines, result, len(parameters), {})
    except Exception:  # the function's own, too
        return None


def given_numbers(lines: list[Line], result: str, parameters: int, numbers: dict[str, str]) -> str:
    """The same, as long as these numbers of the queue (their types by name) stay between two others each."""
    return _Writer(lines, result, parameters, numbers).source()


class _Writer:
    """The lines a result needs, those that stay the same as they are, the others as two numbers each."""

    def __init__(self, lines: list[Line], result: str, parameters: int, numbers: dict[str, str]) -> None:
        self.result, self.parameters, self.numbers = result, [f"p{index}" for index in range(parameters)], numbers
        self.lines = needed_for([result], lines, numbers)
        self.changing = {"now_us", *numbers, *(line.name for line in self.lines if not line.fixed)}
        self.kinds = {line.name: line.kind for line in self.lines} | dict.fromkeys(self.parameters, "float64") | numbers

    def source(self) -> str:
        ends = [f"{name}_{end}" for end in ("low", "high") for name in self.numbers]
        arguments = ", ".join(["jobs", "rows", "now_us", *self.parameters, *ends, "until_us", "out"])
        time = "    now_us_low, now_us_high = intervals.whole((numpy.float64(now_us), until_us))"
        text = [f"def bound_queue({arguments}):", time]
        text += [
            f"    {name}_low, {name}_high = intervals.whole(({name}_low, {name}_high))"
            for name, kind in self.numbers.items()
            if kind == "int64"
        ]
        text += [f"    {step}" for line in self.lines if not line.per_row for step in self._steps(line)]
        text += ["    for index in range(len(rows)):", "        row = numpy.uint64(rows[index])"]
        text += [f"        {step}" for line in self.lines if line.per_row for step in self._steps(line)]
        low, _ = self._pair(ast.Name(self.result))
        return "\n".join([*text, f"        out[index] = -numpy.inf if {low} != {low} else {low}"]) + "\n"

    def _steps(self, line: Line) -> list[str]:
        if line.reduces and line.reduces != "cubes":
            raise _Unknown
        if line.fixed:
            return [f"{line.name} = {line.text}"]
        bounds = self._bounds(line)
        if line.kind == "int64":
            bounds = f"intervals.whole({bounds})"
        return [f"{line.name}_low, {line.name}_high = {bounds}"]

    def _bounds(self, line: Line) -> str:
        if line.reduces:
            return self._call("cubes", [ast.Name(line.uses[0])])
        tree = ast.parse(line.text, mode="eval").body
        if isinstance(tree, ast.Subscript):
            return self._share(tree)
        if isinstance(tree, ast.IfExp):
            return self._call("chosen", [tree.test, tree.body, tree.orelse])
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Attribute) or tree.keywords:
            raise _Unknown
        name = tree.func.attr
        if name in ON_TRUTHS:
            truths = all(isinstance(term, ast.Name) and self.kinds.get(term.id) == "bool" for term in tree.args)
            name = ON_TRUTHS[name] if truths else ""
        return self._call(name, tree.args)

    def _share(self, tree: ast.Subscript) -> str:
        """Of somebody's share of usage: it does not shrink while bounds hold (core/shortlist.py), but may grow."""
        index = {term.id for term in ast.walk(tree.slice) if isinstance(term, ast.Name)}
        if ast.unparse(tree.value) != "jobs.usage_share" or index & self.changing or self.numbers:
            raise _Unknown
        return f"intervals.share({ast.unparse(tree)}, len(jobs.usage_share))"

    def _call(self, name: str, terms: list[ast.expr]) -> str:
        if name.startswith("_") or not hasattr(intervals, name):
            raise _Unknown
        return f"intervals.{name}({', '.join(number for term in terms for number in self._pair(term))})"

    def _pair(self, term: ast.expr) -> tuple[str, str]:
        if isinstance(term, ast.Name) and term.id in self.changing:
            return f"{term.id}_low", f"{term.id}_high"
        if isinstance(term, ast.Name) and term.id not in self.kinds:
            raise _Unknown  # the length of the queue
        number = f"numpy.float64({ast.unparse(term)})"
        return number, number


def hold(bound: ScoreEntry, function: Callable[..., Any], parameters: tuple[float, ...]) -> bool:
    """Whether no score of various jobs is below its bound, with shares of usage that grow."""
    for seed in range(8):
        jobs, usage, rows = various_jobs(seed, 200)
        now_us, window_us = int(jobs[SUBMIT].max()), 10 ** (seed + 4)
        least = bound.scores(jobs, usage, rows, now_us, np.array([*parameters, now_us + window_us], float))
        more = np.maximum(usage.shape[1] - 1 - usage[1], 0.0)
        for step in range(9):
            later = np.array([usage[0], usage[1] + more * (step / 8)])
            with np.errstate(all="ignore"):
                found = function(columns_of(jobs, later), rows, now_us + step * window_us // 8, *parameters)
            if not (np.where(np.isnan(found), np.inf, found) >= least).all():
                return False
    return True
