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
import math
from collections.abc import Callable, Container, Iterable
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import EMPTY, MEMORY_HEAD, ScoreEntry
from cohabit.core.columns import CORES, ELIGIBLE, JOB_COLUMNS, LIMIT, NODES, QOS, SEQ, SUBMIT, USER, Columns, columns_of
from cohabit.policy import extremes
from cohabit.policy.indexing import Chosen
from cohabit.policy.quotients import fits, quotients
from cohabit.policy.recorded_numpy import NumberType, RecordedMath, RecordedNumpy
from cohabit.policy.settled import with_modules
from cohabit.policy.stand_ins import Beyond, Column, Line, Noted, Rows, Tape
from cohabit.policy.whole_queue import Different, Sorted

SUMS = ("sum", "mean", "float_sum")
# What is made of all rows, by the kernel that makes it: of the values and their places in a sort, and of the values
OF_A_SORT = {
    "below": "ranks.below_of({}, False)", "upto": "ranks.below_of({}, True)",
    "sorted": "ranks.sorted_of({})",
}  # fmt: skip
OF_CHOSEN = {
    "sum_of_chosen": "sums.sum_of({0}, {1})", "mean_of_chosen": "sums.sum_of({0}, {1}) / len({0})",
    "max_of_chosen": "sums.most_of({0}, 1.0)", "min_of_chosen": "sums.most_of({0}, -1.0)",
}  # fmt: skip
AT_A_PLACE = {"median": "middle_of", "quantile": "quantile_of", "at": "at"}
SIMPLE = [
    f"numpy.{name}"
    for name in ("add", "subtract", "multiply", "divide", "negative", "absolute", "square", "sqrt", "float64")
]
PER_ROW = {
    "cubes": "{0}_cubes = powers.cubes({0}_all)", "running": "{0}_running = sums.running({0}_all)",
    "totals": "{0}_totals = ranks.totals_of({0}_all, {0}_weights)",
}  # fmt: skip


class Recorded(NamedTuple):
    """A function `score_queue` that writes the scores of all rows, and how many numbers per row it remembers."""

    source: str
    memory: int


def for_queue(function: Callable[..., Any], parameters: tuple[float, ...]) -> Recorded | None:
    """The function recorded; None: it cannot be."""
    if not isinstance(function, FunctionType):
        return None
    try:
        first, again = (_Writer(function, parameters).recorded() for _ in range(2))
    except Exception:  # the function's own, too: it was written for arrays
        return None
    return first if first == again else None


def numbers_of_queue(function: FunctionType, parameters: tuple[float, ...], numbers: dict[str, str]) -> Recorded:
    """The same for numbers made of all rows, by name and type: their values, and then what they are in memory."""
    return _Writer(function, parameters, numbers).recorded()


def record(function: FunctionType, parameters: tuple[float, ...], answers: tuple[bool, ...]) -> tuple[Tape, str]:
    """Call the function with stand-ins; what it noted, and the name of its result."""
    tape = Tape(answers)
    rows, tape.count = Rows(tape), Noted(tape, "count", False, 3)
    jobs, usage, chosen = various_jobs(0, 3)
    columns = columns_of(jobs, usage)
    stand_ins = Columns(*(Column(tape, name, rows, getattr(columns, name), chosen) for name in Columns._fields))  # type: ignore[arg-type]
    numbers = [Noted(tape, f"p{index}", False, value) for index, value in enumerate(parameters)]
    tape.fixed.update(number.name for number in numbers)

    def length(value: Any) -> Any:
        if isinstance(value, Rows | Different | Sorted | Chosen) or (isinstance(value, Noted) and value.per_row):
            return value.size
        return builtins.len(value)

    python = {"len": length, "int": NumberType(tape, int), "float": NumberType(tape, float)}
    copied = with_modules(function, ((np, RecordedNumpy(tape)), (math, RecordedMath(tape))), python)
    result = copied(stand_ins, rows, Noted(tape, "now_us", False, 10**13), *numbers)
    if tape.spoilt or not isinstance(result, Noted) or not result.per_row or result.tape is not tape:
        raise Beyond
    return tape, result.name


class _Writer:
    """The recording as a function: a loop for everything that takes all rows, and one for the scores.

    What is the same in every pass is computed once for every row and remembered, and so are the places of a sort.
    """

    def __init__(
        self, function: FunctionType, parameters: tuple[float, ...], numbers: dict[str, str] | None = None
    ) -> None:
        self.function, self.parameters, self.numbers = function, parameters, numbers
        # what computes a value that stays the same, by its name, or whose values it numbers
        self.once: dict[str, list[str] | str] = {}
        self.types: dict[str, str] = {}
        self.sorts = self.hints = 0  # sorts that are kept, and numbers in the head that tell of the last pass

    def recorded(self) -> Recorded:
        names = [f"p{index}" for index in range(len(self.parameters))]
        head = f"def score_queue({', '.join(['jobs', 'rows', 'now_us', *names, 'memory', 'out'])}):"
        text = self._path((), 0, {})
        whole = "\n".join(text)
        text = [line for line in text if " = ranks.order_of(" not in line or f"{line.split()[0]}[" in whole]
        if self.hints >= MEMORY_HEAD:
            raise Beyond
        lines = ["count, capacity = len(rows), len(jobs.nodes)", *self._remembered(), *text]
        return Recorded("\n    ".join([head, *lines]) + "\n", max(len(self.once) + 2 * self.sorts, min(self.hints, 1)))

    def _remembered(self) -> list[str]:
        """Compute what stays the same, once for all rows; without a memory, for these rows in every call."""
        if not self.once:
            return []
        views, text, steps = [], list[str](), dict[str, None]()
        for place, (name, how) in enumerate(self.once.items()):
            first = f"{MEMORY_HEAD} + {2 * self.sorts + place} * capacity"
            views.append(f"{name}_once = memory[{first} : {first} + capacity].view(numpy.{self.types[name]})")
            if isinstance(how, str):
                text += [*_for_everybody(steps), f"    ranks.number({how}_once, rows, everybody, {name}_once)"]
                steps = {}
            else:
                steps.update(dict.fromkeys([*how, f"{name}_once[row] = {name}"]))
        return [
            *views,
            f"if memory[0] <= {EMPTY}:",
            f"    everybody = memory[0] == {EMPTY}",
            *text,
            *_for_everybody(steps),
            f"    memory[0] = {EMPTY} + everybody",
        ]

    def _path(self, answers: tuple[bool, ...], done: int, stored: dict[str, str]) -> list[str]:
        """What follows these answers, from line `done` on; stored: values an earlier loop has left in an array."""
        tape, result = record(self.function, self.parameters, answers)
        branch = tape.branches[len(answers)] if len(tape.branches) > len(answers) else None
        lines, text = tape.lines[: branch.after if branch else None], []
        if self.numbers is not None:
            lines = needed_for(self.numbers, lines)
        for line in lines[done:]:
            if line.reduces:
                text += self._of_all(lines, line, stored)
            elif not line.per_row:
                text.append(f"{line.name} = {line.text}")
        if self.numbers is not None:
            return text + _written(self.numbers)
        if branch is None:
            return text + self._loop(lines, result, f"out[index] = {result}", stored)
        for question, answer in ((f"if {branch.name}:", True), ("else:", False)):
            inner = self._path((*answers, answer), len(lines), dict(stored))
            text += [question, *(f"    {line}" for line in inner)]
        return text

    def _of_all(self, lines: list[Line], line: Line, stored: dict[str, str]) -> list[str]:
        """What is made of all rows."""
        name, value, how, fractions = line.name, line.uses[0], line.reduces, line.text == "float64"
        if how == "dense":  # once for all
            return []
        if how in OF_CHOSEN:
            return self._of_chosen(lines, line, stored)
        if how in OF_A_SORT:
            stored[name] = f"{name}_{how}[index]"
            return [f"{name}_{how} = {OF_A_SORT[how].format(f'{value}_all, {value}_places')}"]
        kept = extremes.extreme(lines, line) if how in ("max", "min") else None
        if kept is not None and self.hints + extremes.MEMORY < MEMORY_HEAD // 2:
            first, self.hints = self.hints + 1, self.hints + extremes.MEMORY
            return extremes.source(kept, name, how == "min", first)
        if how in ("max", "min") and not fractions:
            larger = f"{name} = {value} if index == 0 else numpy.{how}imum({name}, {value})"
            return [f"{name} = numpy.{line.text}(0)", *self._loop(lines, value, larger, stored)]
        if how == "sum" and not fractions:
            return [f"{name} = 0", *self._loop(lines, value, f"{name} += {value}", stored)]
        kind = "float64" if how in SUMS else line.text
        before = stored.get(value, "")
        if fractions and before.endswith("_all[index]"):  # an earlier loop has left it
            text = [f"{name}_all = {before.removesuffix('[index]')}"]
        else:
            text = [f"{name}_all = numpy.empty(count, numpy.{kind})"]
            text += self._loop(lines, value, f"{name}_all[index] = {value}", stored)
        if fractions:
            stored[value] = f"{name}_all[index]"
        if how in SUMS:
            return [*text, f"{name} = sums.sum_of({name}_all, {not fractions})" + (" / count" if how == "mean" else "")]
        if how == "totals":
            text += [f"{name}_weights = numpy.empty(count, numpy.float64)"]
            text += self._loop(lines, line.uses[1], f"{name}_weights[index] = {line.uses[1]}", stored)
        if how in ("max", "min"):
            return [*text, f"{name} = sums.most_of({name}_all, {1.0 if how == 'max' else -1.0})"]
        if how in AT_A_PLACE:
            first, self.hints = self.hints + 1, self.hints + 2  # who it was, and its neighbour
            more = "".join(f"{one}, " for one in line.uses[1:])
            return [*text, f"{name} = ranks.{AT_A_PLACE[how]}({name}_all, rows, {more}memory, {first})"]
        if how in PER_ROW:
            stored[name] = f"{name}_{how}[index]"
            return [*text, PER_ROW[how].format(name)]
        return text if how == "kept" else text + self._sorted(lines, line, stored)

    def _of_chosen(self, lines: list[Line], line: Line, stored: dict[str, str]) -> list[str]:
        """What is made of those for whom something is so."""
        name, (value, chosen) = line.name, line.uses
        both = self._steps(lines, value, stored)
        both = _over_all([*both, *(step for step in self._steps(lines, chosen, stored) if step not in both)])
        return [
            f"{name}_all, {name}_chosen = numpy.empty(count, numpy.float64), 0",
            *both,
            f"    {name}_all[{name}_chosen] = {value}",
            f"    {name}_chosen += {chosen}",
            f"{name} = {OF_CHOSEN[line.reduces].format(f'{name}_all[:{name}_chosen]', line.text != 'float64')}",
        ]

    def _sorted(self, lines: list[Line], line: Line, stored: dict[str, str]) -> list[str]:
        """What needs the places of all rows in a sort."""
        name, how = line.name, line.reduces
        self.sorts, self.hints = self.sorts + 1, self.hints + 1
        first = f"{MEMORY_HEAD} + {2 * (self.sorts - 1)} * capacity"
        fixed = any(one.name == line.uses[0] and one.fixed for one in lines)
        stored[name] = f"{name}_{how}[index]"
        remembered = f"{name}_all, rows, {fixed}, memory, {self.hints}, {first}, capacity"
        if how == "sizes":
            return [f"{name}_sizes, {name}_different = ranks.sizes_of({remembered})"]
        return [f"{name}_places = ranks.places_of({remembered})", f"{name}_order = ranks.order_of({name}_places)"]

    def _loop(self, lines: list[Line], needed: str, last: str, stored: dict[str, str]) -> list[str]:
        """Over all rows: what `needed` is computed from, then `last`."""
        plain, known = self._steps(lines, needed, stored), quotients(lines)
        divided = [step.split()[0] for step in plain if " = numpy.divide(" in step and step.split()[0] in known]
        if not divided or not all(_is_simple(step) for step in plain):
            return _over_all([*plain, f"    {last}"])
        text = self._looked_up(lines, plain, stored)
        plain = self._steps(lines, needed, stored)
        parts, quick, questions = list[str](), dict[str, str](), list[str]()
        for name in divided:
            dividend, divisor, signed, sure = known[name]
            parts.append(f"{name}_part = numpy.divide(1.0, numpy.float64({divisor}))")
            does = "signed_quotient" if signed else "quotient"
            numbers = f"numpy.float64({dividend}), numpy.float64({divisor}), {name}_part"
            quick[name] = f"    {name} = powers.{does}({numbers})"
            questions += [] if sure else [fits(divisor)]
        fast = [*parts, *_over_all([*(quick.get(step.split()[0], step) for step in plain), f"    {last}"])]
        if not questions:
            return [*text, *fast]
        slow = _over_all([*plain, f"    {last}"])
        question = f"if {' and '.join(dict.fromkeys(questions))}:"
        return [*text, question, *(f"    {line}" for line in fast), "else:", *(f"    {line}" for line in slow)]

    def _looked_up(self, lines: list[Line], steps: list[str], stored: dict[str, str]) -> list[str]:
        """A loop of its own for what is looked up by row: in others the compiler handles several numbers at once."""
        names = {step.split()[0] for step in steps if step.endswith("[row]")}
        kinds = {line.name: "float64" if line.kind == "float64" else "int64" for line in lines if line.name in names}
        arrays = [f"{name}_at = numpy.empty(count, numpy.{kind})" for name, kind in kinds.items()]
        found = [f"    {name}_at[index] = {step.split()[2]}" for step in steps if (name := step.split()[0]) in names]
        stored.update({name: f"{name}_at[index]" for name in names})
        return [*arrays, *_over_all(found)] if names else []

    def _steps(self, lines: list[Line], needed: str, stored: dict[str, str]) -> list[str]:
        names, kept = {needed}, []
        for line in reversed(lines):
            if line.name in names and line.per_row and line.reduces != "kept":
                known = stored.get(line.name)
                if known is None and line.fixed and line.uses:  # more than a column
                    known = self._once(lines, line)
                names.update(() if known else line.uses)
                kept.append(f"    {line.name} = {known or line.text}")
        return kept[::-1]

    def _once(self, lines: list[Line], line: Line) -> str:
        """Where the value is remembered."""
        if line.name not in self.once:
            self.types[line.name] = "float64" if line.kind == "float64" else "int64"
            self.once[line.name] = self._numbered(lines, line) if line.reduces == "dense" else self._alone(lines, line)
        return f"{line.name}_once[row]" + (" != 0" if line.kind == "bool" else "")

    def _numbered(self, lines: list[Line], line: Line) -> str:
        """Whose values are numbered."""
        (key,) = (one for one in lines if one.name == line.uses[0])
        self._once(lines, key)
        return key.name

    def _alone(self, lines: list[Line], line: Line) -> list[str]:
        """What computes it for one row."""
        names, steps = {line.name}, []
        for one in reversed(lines):
            if one.name in names:
                numbered = one.reduces == "dense"
                names.update(() if numbered else one.uses)
                steps.append(f"{one.name} = {self._once(lines, one) if numbered else one.text}")
        return steps[::-1]


def needed_for(names: Iterable[str], lines: list[Line], given: Container[str] = ()) -> list[Line]:
    """The lines these values are made of, as far as they are not given."""
    needed, found = set(names), list[Line]()
    for line in reversed(lines):
        if line.name in needed and line.name not in given:
            needed.update(line.uses)
            found.insert(0, line)
    return found


def _written(numbers: dict[str, str]) -> list[str]:
    text = [f"out[{place}] = {name}" for place, name in enumerate(numbers)]
    for place, (name, kind) in enumerate(numbers.items(), len(numbers)):
        text.append(f"{'out.view(numpy.int64)' if kind == 'int64' else 'out'}[{place}] = {name}")
    return text


def _is_simple(step: str) -> bool:
    """Whether the compiler handles several at once: arithmetic, and what is looked up."""
    _, _, text = step.strip().partition(" = ")
    return text.endswith(("[row]", "[index]")) or text.partition("(")[0] in SIMPLE


def _over_all(steps: list[str]) -> list[str]:
    return ["for index in range(count):", "    row = numpy.uint64(rows[index])", *steps]


def _for_everybody(steps: dict[str, None]) -> list[str]:
    if not steps:
        return []
    head = ["for index in range(capacity if everybody else count):"]
    head += ["    row = numpy.uint64(index if everybody else rows[index])"]
    return [f"    {line}" for line in (*head, *(f"    {step}" for step in steps))]


def agrees(entry: ScoreEntry, function: Callable[..., Any], parameters: tuple[float, ...]) -> bool:
    """Whether the compiled form scores various jobs as the function does, to the last bit, also with a memory."""
    forgetful = entry.numbers(parameters)
    for seed, count in enumerate((1, 2, 7, 40, 300, 1000, 30, 9)):
        jobs, usage, rows = various_jobs(seed, count)
        if seed > 5:  # many are alike, or all, and some ask for no time
            jobs[LIMIT], jobs[SUBMIT], jobs[QOS] = jobs[LIMIT] % (10 - seed), jobs[SUBMIT] % 2, jobs[QOS] % 2
        if seed > 6:
            jobs[:] = jobs[:, :1]
        now_us = int(jobs[SUBMIT].max()) + 10 ** (2 * seed)
        if not _agrees_on(entry, function, parameters, forgetful, (jobs, usage, rows, now_us)):
            return False
    return entry.memory == 0 or all(_agrees_again(entry, function, parameters, rising) for rising in (False, True))


def _agrees_again(entry: ScoreEntry, function: Callable[..., Any], parameters: tuple[float, ...], rising: bool) -> bool:
    """The same from pass to pass, in a queue in which some come and more go, while users use more."""
    jobs, usage, rows = various_jobs(6, 200)
    remembering, room = entry.numbers(parameters, jobs.shape[1], rising), jobs.shape[1]
    rows = np.arange(len(rows)) if rising else rows
    others = np.delete(np.arange(room), rows)
    while len(rows):
        now_us = int(jobs[SUBMIT].max()) + 10**7 * (room - len(others))
        if not _agrees_on(entry, function, parameters, remembering, (jobs, usage, rows, now_us)):
            return False
        come, others, usage = others[:7], others[7:], usage * 1.125
        rows = np.concatenate([rows[_scattered(len(others), 9, len(rows)) % 19 > 0], come])[1:]
    return True


def _agrees_on(
    entry: ScoreEntry,
    function: Callable[..., Any],
    parameters: tuple[float, ...],
    numbers: NDArray[np.float64],
    case: tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64], int],
) -> bool:
    jobs, usage, rows, now_us = case
    with np.errstate(all="ignore"):
        expected = np.asarray(function(columns_of(jobs, usage), rows, now_us, *parameters), float)
    return np.array_equal(entry.scores(jobs, usage, rows, now_us, numbers), expected, equal_nan=True)


def various_jobs(seed: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
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
