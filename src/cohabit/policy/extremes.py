"""The largest or smallest of all rows where it can be had from one of them.

The longest wait is that of the job that came first: subtracting, dividing by a number and their like keep the order of
what they are done to, also when rounded. So the extreme of such a value belongs to an extreme of the column it is made
of, which is kept from one pass to the next (core/sums.py). A function of a mathematical library keeps the order, too,
but for its error: there only those are asked who are near the extreme.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from cohabit.policy.stand_ins import Line

KEEP_THE_ORDER = ("add", "subtract", "negative", "multiply", "divide", "sqrt", "maximum", "minimum", "float64")
RISING = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "arctan", "arcsinh", "cbrt", "tanh")
NOT_BELOW_SOMETHING = ("sqrt", "log", "log2", "log10", "log1p")
ROOM = 2.0**-44  # a part of a result, more than any library errs by
FARTHEST, ENDLESS = 2**40, 2**62
MEMORY = 8  # numbers it keeps


class Extreme(NamedTuple):
    """How it is made."""

    column: Line
    steps: list[Line]  # from the column to the value, each made of the one before
    largest: bool  # whether it belongs to the largest of the column
    inexact: bool  # whether the last step is a library's
    sound: bool  # whether all rows have numbers


def extreme(lines: list[Line], line: Line) -> Extreme | None:
    """Of a line that `reduces` to max or min; None: all rows must be computed."""
    known, value = {one.name: one for one in lines}, line.uses[0]
    largest, steps, inexact, sound = line.reduces == "max", list[Line](), False, True
    while value in known and known[value].per_row and not known[value].reduces:
        made = known[value]
        if made.text.startswith("jobs.") and made.text.endswith("[row]"):
            return Extreme(made, steps, largest, inexact, sound) if made.kind == "int64" else None
        tree = ast.parse(made.text, mode="eval").body
        called = tree.func if isinstance(tree, ast.Call) else None
        if (
            not isinstance(tree, ast.Call)
            or not isinstance(called, ast.Attribute)
            or not isinstance(called.value, ast.Name)
        ):
            return None
        changing = [isinstance(term, ast.Name) and term.id in known and known[term.id].per_row for term in tree.args]
        if called.value.id != "numpy" or sum(changing) != 1:
            return None
        if called.attr in RISING and not steps:
            inexact = True
        elif called.attr not in KEEP_THE_ORDER or not _is_sure(called.attr, tree.args, changing, made.kind):
            return None
        if called.attr == "negative" or (called.attr == "subtract" and changing[-1]):
            largest = not largest
        others = [term for term, one in zip(tree.args, changing, strict=True) if not one]
        sound &= called.attr not in NOT_BELOW_SOMETHING and all(map(_is_finite, others))
        steps.insert(0, made)
        (value,) = (
            term.id for term, one in zip(tree.args, changing, strict=True) if one and isinstance(term, ast.Name)
        )
    return None


def _is_finite(term: ast.expr) -> bool:
    return isinstance(term, ast.Constant) or (isinstance(term, ast.Name) and term.id == "now_us")


def _is_sure(does: str, terms: list[ast.expr], changing: list[bool], kind: str) -> bool:
    """Products, quotients and limits by a number above zero; whole numbers are not multiplied, they could overflow."""
    if does not in ("multiply", "divide", "maximum", "minimum"):
        return True
    other = terms[1 - changing.index(True)]
    positive = isinstance(other, ast.Constant) and isinstance(other.value, int | float) and 1e-100 < other.value < 1e100
    return positive and (does not in ("multiply", "divide") or kind == "float64") and (does != "divide" or changing[0])


def source(found: Extreme, name: str, least: bool, first: int) -> list[str]:
    """What computes it; `least`: the smallest is wanted; `first`: where in the memory's head it has room."""
    column, value = found.column, found.steps[-1].name if found.steps else found.column.name
    sign, steps = 1 if found.largest else -1, [f"{step.name} = {step.text}" for step in found.steps]

    def at_the_end(side: int, place: int) -> list[str]:
        numbers = column.text.removesuffix("[row]")
        return [f"{column.name} = sums.extreme_of({numbers}, rows, {side}, memory, {place})", *steps]

    text = [] if found.sound else [*at_the_end(-sign, first + 4), f"{name}_none = {value} != {value}"]
    text += [*at_the_end(sign, first), f"{name} = {value}"]
    if found.inexact:
        text += _asked(found, name, value, sign, "<" if least else ">", steps)
    if not found.sound:  # what has no number stands at an end, and then there is none for all
        text += [f"if {name}_none:", f"    {name} = numpy.nan"]
    return text


def _asked(found: Extreme, name: str, value: str, sign: int, better: str, steps: list[str]) -> list[str]:
    """Ask all who are so near the end that the library may not tell the difference; all, if it never does."""
    column, room = found.column, f"{'+' if better == '<' else '-'} abs({name}) * {ROOM}"
    return [
        f"{name}_end, {name}_far = {column.name}, 1",
        f"while {name}_far < {ENDLESS}:",
        f"    {column.name} = {name}_end - {sign} * {name}_far",
        *(f"    {step}" for step in steps),
        f"    if {name} {room} {better} {value}:",
        "        break",
        f"    {name}_far = 16 * {name}_far if {name}_far < {FARTHEST} else {ENDLESS}",
        "for index in range(count):",
        "    row = numpy.uint64(rows[index])",
        f"    {column.name} = {column.text}",
        f"    if {sign} * ({name}_end - {column.name}) < {name}_far:",
        *(f"        {step}" for step in steps),
        f"        {name} = {value} if {value} {better} {name} else {name}",
    ]  # fmt: skip
