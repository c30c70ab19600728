"""An order that looks at the whole queue by a few numbers (a mean, a maximum, its length), taken in two steps.

The first step makes the numbers of all rows; the second scores any rows given these, so that a pass need not score
everybody. And it has bounds: as long as each number stays between two others, and for a while, no score is lower
(policy/bounds.py, core/shortlist.py). An order that ranks the queue, asks questions or looks at usage is not taken so.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import NO_MEMORY, compile_bounds, compile_given, compile_numbers
from cohabit.core.columns import SUBMIT
from cohabit.core.protocols import Given
from cohabit.policy.bounds import given_numbers
from cohabit.policy.recording import agrees, needed_for, numbers_of_queue, record, various_jobs
from cohabit.policy.stand_ins import Line

MOST_NUMBERS = 8


def in_two_steps(function: Callable[..., Any], parameters: tuple[float, ...], origin: str) -> Given | None:
    """The order compiled so; None: it cannot be, or it looks at no number of the queue."""
    if not isinstance(function, FunctionType):
        return None
    tape, result = record(function, parameters, ())
    numbers = {} if tape.branches else _numbers(tape.lines, result)
    if not 0 < len(numbers) <= MOST_NUMBERS:
        return None
    count, lines = len(parameters), needed_for([result], tape.lines, numbers)
    bound = given_numbers(tape.lines, result, count, numbers)
    gather = numbers_of_queue(function, parameters, numbers)
    found = Given(
        compile_numbers(origin, *gather, count, len(numbers)),
        compile_given(origin, _scores(lines, result, count, numbers), count, list(numbers.values())),
        compile_bounds(origin, bound, count + 2 * len(numbers)),
        len(numbers),
    )
    steps = _TwoSteps(found, parameters)
    return found if agrees(steps, function, parameters) and _holds(steps) else None  # type: ignore[arg-type]


def _numbers(lines: list[Line], result: str) -> dict[str, str]:
    """What is made of all rows that the scores need, by name, and its type; none where it is more than numbers."""
    made = {line.name: line.kind for line in lines if line.reduces and not line.per_row} | {"count": "int64"}
    rest = needed_for([result], lines, made)
    used = {name for line in rest for name in line.uses}
    found = {name: kind for name, kind in made.items() if name in used}
    known = all(kind in ("float64", "int64") for kind in found.values())
    return found if known and all(line.reduces in ("", "cubes") for line in rest) else {}


def _scores(lines: list[Line], result: str, parameters: int, numbers: dict[str, str]) -> str:
    """The second step: `score_given`."""
    names = [f"p{index}" for index in range(parameters)]
    text = [f"def score_given({', '.join(['jobs', 'rows', 'now_us', *names, *numbers, 'out'])}):"]
    text += [f"    {line.name} = {line.text}" for line in lines if not line.per_row]
    text += ["    for index in range(len(rows)):", "        row = numpy.uint64(rows[index])"]
    for line in lines:
        if line.per_row:
            how = f"powers.cube({line.uses[0]})" if line.reduces else line.text
            text.append(f"        {line.name} = {how}")
    return "\n".join([*text, f"        out[index] = {result}"]) + "\n"


class _Case(NamedTuple):
    jobs: NDArray[np.int64]
    usage: NDArray[np.float64]
    rows: NDArray[np.int64]
    now_us: int


class _TwoSteps:
    """Both steps, called as one compiled order is."""

    def __init__(self, given: Given, parameters: tuple[float, ...]) -> None:
        self.given, self.parameters = given, parameters
        self.memory, self.numbers = given.gather.memory, given.gather.numbers

    def gathered(self, case: _Case, memory: NDArray[np.float64]) -> NDArray[np.float64]:
        """The numbers of this queue, and as they are in memory."""
        out = np.zeros(max(2 * self.given.numbers, len(case.rows)))
        self.given.gather.write(*case, memory, out)
        return out[: 2 * self.given.numbers].reshape(2, -1)

    def scores(
        self, jobs: NDArray[Any], usage: NDArray[Any], rows: NDArray[Any], now_us: int, memory: NDArray[np.float64]
    ) -> NDArray[Any]:
        """Of all these rows."""
        _, raw = self.gathered(_Case(jobs, usage, rows, now_us), memory)
        return self.given.score.scores(jobs, usage, rows, now_us, np.array([*self.parameters, *raw, NO_MEMORY]))


def _holds(steps: _TwoSteps) -> bool:
    """Whether no score of various jobs is below its bound while time and the queue go on."""
    parameters, forgetful = steps.parameters, steps.given.gather.numbers(steps.parameters)
    for seed in range(8):
        jobs, usage, rows = various_jobs(seed, 200)
        now_us, window_us = int(jobs[SUBMIT].max()), 10 ** (seed + 4)
        queues = [_Case(jobs, usage, rows[10 * step :], now_us + step * window_us // 8) for step in range(9)]
        gathered = [steps.gathered(case, forgetful) for case in queues]
        values = np.array([numbers for numbers, _ in gathered])
        low, high = values.min(axis=0), values.max(axis=0)
        ends = np.array([*parameters, *low, *high, now_us + window_us], float)
        least = steps.given.bound.scores(jobs, usage, rows, now_us, ends)
        for case, (_, raw) in zip(queues, gathered, strict=True):
            found = steps.given.score.scores(*case._replace(rows=rows), np.array([*parameters, *raw]))
            if not (np.where(np.isnan(found), np.inf, found) >= least).all():
                return False
    return True
