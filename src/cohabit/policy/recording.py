"""An order function recorded: the numpy operations it does, written out as loops over the queue for numba to compile.

It serves functions in which jobs depend on each other (sums and means over the queue, its length) and functions numba
does not understand (dictionaries, loops over tables, functions of other modules). The function is called with stand-ins
for columns, rows and time that note what numpy is asked to do with them; what Python does around them is then done for
good. Where it asks whether something is so (an `if` on the time, or on the length of the queue) it is called again for
the other answer. A function that looks at single rows, or asks for anything not known here, is not recorded. Nothing is
guessed: recorded twice it must read the same, and `agrees` holds it to the function's own scores.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import ScoreEntry
from cohabit.core.columns import CORES, ELIGIBLE, JOB_COLUMNS, LIMIT, NODES, QOS, SEQ, SUBMIT, USER, Columns, columns_of
from cohabit.policy.stand_ins import Beyond, Column, Line, Noted, Numpy, Rows, Tape


def for_queue(function: Callable[..., Any], parameters: tuple[float, ...]) -> str | None:
    """Source of a function `score_queue` that writes the scores of all rows; None: it cannot be recorded."""
    if not isinstance(function, FunctionType):
        return None
    try:
        first, again = (_Writer(function, parameters).source() for _ in range(2))
    except Exception:  # the function's own, too: it was written for arrays
        return None
    return first if first == again else None


def _record(function: FunctionType, parameters: tuple[float, ...], answers: tuple[bool, ...]) -> tuple[Tape, str]:
    """Call the function with stand-ins; what it noted, and the name of its result."""
    tape = Tape(answers)
    rows = Rows(tape)
    rows.count = Noted(tape, "count", False, 3)
    jobs, usage, chosen = _various_jobs(0, 3)
    columns = columns_of(jobs, usage)
    stand_ins = Columns(*(Column(tape, name, rows, getattr(columns, name), chosen) for name in Columns._fields))  # type: ignore[arg-type]
    numbers = [Noted(tape, f"p{index}", False, value) for index, value in enumerate(parameters)]

    def length(value: Any) -> Any:
        if isinstance(value, Rows) or (isinstance(value, Noted) and value.per_row):
            return rows.count
        return builtins.len(value)

    known = {"len": length, **function.__globals__}
    known.update({name: Numpy(rows.count) for name, value in known.items() if value is np})
    copied = FunctionType(function.__code__, known, function.__name__, function.__defaults__, function.__closure__)
    result = copied(stand_ins, rows, Noted(tape, "now_us", False, 10**13), *numbers)
    if tape.spoilt or not isinstance(result, Noted) or not result.per_row or result.tape is not tape:
        raise Beyond
    return tape, result.name


class _Writer:
    """The recording as a function: a loop for everything that takes all rows, and one for the scores."""

    def __init__(self, function: FunctionType, parameters: tuple[float, ...]) -> None:
        self.function, self.parameters = function, parameters

    def source(self) -> str:
        names = [f"p{index}" for index in range(len(self.parameters))]
        head = f"def score_queue({', '.join(['jobs', 'rows', 'now_us', *names, 'out'])}):"
        return "\n    ".join([head, "count = len(rows)", *self._path((), 0, {})]) + "\n"

    def _path(self, answers: tuple[bool, ...], done: int, stored: dict[str, str]) -> list[str]:
        """What follows these answers, from line `done` on; stored: values an earlier loop has left in an array."""
        tape, result = _record(self.function, self.parameters, answers)
        branch = tape.branches[len(answers)] if len(tape.branches) > len(answers) else None
        lines, text = tape.lines[: branch.after if branch else None], []
        for line in lines[done:]:
            if line.reduces:
                text += _reduction(lines, line, stored)
            elif not line.per_row:
                text.append(f"{line.name} = {line.text}")
        if branch is None:
            return text + _loop(lines, result, f"out[index] = {result}", stored)
        for question, answer in ((f"if {branch.name}:", True), ("else:", False)):
            inner = self._path((*answers, answer), len(lines), dict(stored))
            text += [question, *(f"    {line}" for line in inner)]
        return text


def _reduction(lines: list[Line], line: Line, stored: dict[str, str]) -> list[str]:
    name, value, how, fractions = line.name, line.uses[0], line.reduces, line.text == "float64"
    if how in ("max", "min"):
        larger = f"{name} = {value} if index == 0 else numpy.{how}imum({name}, {value})"
        return [f"{name} = numpy.{line.text}(0)", *_loop(lines, value, larger, stored)]
    if how == "sum" and not fractions:
        return [f"{name} = 0", *_loop(lines, value, f"{name} += {value}", stored)]
    text = [f"{name}_all = numpy.empty(count)", *_loop(lines, value, f"{name}_all[index] = {value}", stored)]
    if fractions:
        stored[value] = f"{name}_all[index]"
    return [*text, f"{name} = sum_of({name}_all, {not fractions})" + (" / count" if how == "mean" else "")]


def _loop(lines: list[Line], needed: str, last: str, stored: dict[str, str]) -> list[str]:
    """Over all rows: what `needed` is computed from, then `last`."""
    names, kept = {needed}, []
    for line in reversed(lines):
        if line.name in names and line.per_row:
            known = stored.get(line.name)
            names.update(() if known else line.uses)
            kept.append(f"    {line.name} = {known or line.text}")
    return ["for index in range(count):", "    row = numpy.uint64(rows[index])", *reversed(kept), f"    {last}"]


def agrees(entry: ScoreEntry, function: Callable[..., Any], parameters: tuple[float, ...]) -> bool:
    """Whether the compiled form scores various jobs as the function does, to the last bit."""
    for seed, count in enumerate((1, 2, 7, 40, 300, 1000)):
        jobs, usage, rows = _various_jobs(seed, count)
        now_us = int(jobs[SUBMIT].max()) + 10 ** (2 * seed)
        with np.errstate(all="ignore"):
            expected = np.asarray(function(columns_of(jobs, usage), rows, now_us, *parameters), float)
        if not np.array_equal(entry.scores(jobs, usage, rows, now_us, parameters), expected, equal_nan=True):
            return False
    return True


def _various_jobs(seed: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """A job table, usage per user, and the rows of `count` jobs in it."""
    room = 3 * count
    jobs = np.zeros((JOB_COLUMNS, room), np.int64)
    jobs[NODES] = 1 + _scattered(seed, 1, room) % (2, 2000)[seed % 2]
    jobs[CORES] = jobs[NODES] * (1 + seed % 4)
    jobs[LIMIT] = 1 + _scattered(seed, 2, room) % 10**11 // (1, 10**6)[seed % 2]
    jobs[SUBMIT] = np.sort(_scattered(seed, 3, room) % 10 ** (13 - seed))
    jobs[ELIGIBLE] = jobs[SUBMIT] + _scattered(seed, 4, room) % 100
    jobs[SEQ], jobs[QOS] = np.arange(room), _scattered(seed, 5, room) % 100
    jobs[USER] = _scattered(seed, 6, room) % 6 - 1
    usage = (_scattered(seed, 7, 12) / 2.0**61).reshape(2, 6)
    return jobs, usage, np.sort(np.argsort(_scattered(seed, 8, room))[:count])


def _scattered(seed: int, which: int, count: int) -> NDArray[np.int64]:
    """Whole numbers all over 63 bits, the same every time: here nothing may be left to chance."""
    bits = (np.arange(count, dtype=np.uint64) + np.uint64(1000 * seed + which)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return (bits >> np.uint64(1)).astype(np.int64)
