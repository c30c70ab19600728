"""The byte scanner for Standard Workload Format bodies: lines of numbers to int64 columns, compiled.

It knows where fields begin, what a number is and what a comment is; it never interprets a field. Times
(`TIME_FIELDS`) come out in microseconds, everything else as whole numbers. Compiled through
cohabit.compiled, like every kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import PLAIN, compiled
from cohabit.model.errors import InputError
from cohabit.model.workload import Ints

FIELDS = 18
FEWEST_FIELDS = 9  # up to the requested time; below that a line cannot be understood
FIELD_NAMES = (
    "", "job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time",
    "used memory", "requested processors", "requested time", "requested memory", "status", "user", "group",
    "executable", "queue", "partition", "preceding job", "think time",
)  # fmt: skip
TIME_FIELDS = (2, 3, 4, 6, 9, 18)

_NEWLINE, _TAB, _RETURN, _SPACE, _SEMICOLON = 10, 9, 13, 32, 59
_PLUS, _MINUS, _POINT, _ZERO, _NINE, _UPPER_E, _LOWER_E = 43, 45, 46, 48, 57, 69, 101
_READ, _NOT_A_NUMBER, _NUMBER_TOO_LARGE, _TOO_FEW_FIELDS = 0, 1, 2, 3
_MOST_FIELDS, _SHORT_LINES, _LONG_LINES, _ROUNDED = 0, 1, 2, 3  # places in the tally
_LARGEST = 2**62
_UTF8_MARK = (0xEF, 0xBB, 0xBF)

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class ScannedFields:
    """The wanted fields by number (a missing value is -1, in seconds where the field is a time), and the oddities."""

    columns: dict[int, Ints]
    comments: list[str]
    short_lines: int
    long_lines: int
    rounded_numbers: int


def scan_fields(blocks: Iterable[Bytes], fields: Sequence[int], source: str) -> ScannedFields:
    """Read blocks of whole lines; a line that cannot be understood raises InputError naming line and field."""
    slots = np.full(FIELDS + 1, -1, np.int64)
    slots[list(fields)] = np.arange(len(fields))
    decimals = np.zeros(FIELDS + 1, np.int64)
    decimals[list(TIME_FIELDS)] = 6
    tally = np.zeros(4, np.int64)
    parts: list[list[Ints]] = [[] for _ in fields]
    comments: list[str] = []
    lines_before = 0
    for block in blocks:
        if lines_before == 0 and tuple(block[:3].tolist()) == _UTF8_MARK:
            block = block[3:]
        read: Any = block.tobytes() if PLAIN else block  # numpy's uint8 numbers would overflow
        most_lines = _count_newlines(read) + 1
        rows = np.empty((len(fields), most_lines), np.int64)
        spans = np.empty((most_lines, 2), np.int64)
        status, filled, line, field, remarks = _scan_block(read, slots, decimals, rows, spans, tally)
        cut_short = bool(len(block)) and block[-1] != _NEWLINE
        if status != _READ or (cut_short and field and field < (tally[_MOST_FIELDS] or FIELDS)):
            raise _complaint(status, f"{source}, line {lines_before + line}", field, cut_short)
        comments += [block[start:end].tobytes().decode("utf-8", "replace") for start, end in spans[:remarks].tolist()]
        for slot, part in enumerate(parts):
            part.append(rows[slot, :filled].copy())
        lines_before += line
    columns = {}
    for slot, field in enumerate(fields):
        columns[field] = np.concatenate(parts[slot]) if parts[slot] else np.empty(0, np.int64)
        parts[slot].clear()  # one column at a time is held twice, never all of them
    return ScannedFields(columns, comments, int(tally[_SHORT_LINES]), int(tally[_LONG_LINES]), int(tally[_ROUNDED]))


def _complaint(status: int, where: str, field: int, cut_short: bool) -> InputError:
    if cut_short:
        return InputError("the last line is cut short", where, "the file is truncated: copy or download it again")
    if status == _TOO_FEW_FIELDS:
        what = f"has {field} field{'s' if field > 1 else ''} where a job has {FIELDS}"
        return InputError(what, where, "repair or remove the line")
    place = f"{where}, field {field} ({FIELD_NAMES[field]})"
    what = "is not a number" if status == _NOT_A_NUMBER else "is too large a number"
    return InputError(what, place, "a Standard Workload Format line is 18 numbers; comments begin with ;")


@compiled
def _count_newlines(block: Bytes) -> int:
    newlines = 0
    for byte in block:
        if byte == _NEWLINE:
            newlines += 1
    return newlines


@compiled
def _scan_block(
    block: Bytes, slots: Ints, decimals: Ints, rows: Ints, spans: Ints, tally: Ints
) -> tuple[int, int, int, int, int]:
    """Fill `rows` (one row per wanted field) and `spans` (comment lines).

    Returns the status, jobs read, lines seen, fields on the line it stopped at (the bad field, if one is
    bad) and comment lines seen.
    """
    end = len(block)
    at = 0
    line = 0
    filled = 0
    remarks = 0
    field = 0
    while at < end:
        line += 1
        field = 0
        line_start = at
        while at < end and block[at] != _NEWLINE:
            byte = block[at]
            if byte in (_SPACE, _TAB, _RETURN):
                at += 1
                continue
            if byte == _SEMICOLON or field == FIELDS:
                is_comment = byte == _SEMICOLON
                while at < end and block[at] != _NEWLINE:
                    at += 1
                if is_comment and field == 0:
                    spans[remarks, 0] = line_start
                    spans[remarks, 1] = at
                    remarks += 1
                elif not is_comment:
                    tally[_LONG_LINES] += 1
                break
            field += 1
            number_start = at
            at += byte == _MINUS
            digits_start = at
            value = 0
            while at < end:
                digit = block[at] ^ _ZERO  # 0 to 9 for the bytes of the ten digits, more for every other byte
                if digit > 9:
                    break
                value = value * 10 + int(digit)
                at += 1
            if digits_start < at <= digits_start + 12 and (at == end or block[at] <= _SPACE):  # nearly every number
                if byte == _MINUS:
                    value = -value
                if decimals[field]:
                    value *= 1_000_000
            else:
                value, at, status, rounded = _read_number(block, number_start, end, decimals[field])
                if status != _READ:
                    return status, filled, line, field, remarks
                tally[_ROUNDED] += rounded
            if slots[field] >= 0:
                rows[slots[field], filled] = value
        has_newline = at < end
        at += 1
        if field == 0:
            continue
        if field < FIELDS:
            if field < FEWEST_FIELDS:
                return _TOO_FEW_FIELDS, filled, line, field, remarks
            tally[_SHORT_LINES] += 1
            for missing in range(field + 1, FIELDS + 1):
                if slots[missing] >= 0:
                    rows[slots[missing], filled] = -(10 ** decimals[missing])
        filled += 1
        if has_newline and field > tally[_MOST_FIELDS]:
            tally[_MOST_FIELDS] = field
    return _READ, filled, line, field, remarks


@compiled
def _read_number(block: Bytes, at: int, end: int, decimals: int) -> tuple[int, int, int, int]:
    """The number at `at` times 10**decimals, where it ends, a status, and 1 if a fraction had to be rounded away."""
    negative = block[at] == _MINUS
    if negative or block[at] == _PLUS:
        at += 1
    mantissa = 0
    exponent = 0
    digits = 0
    while at < end and _ZERO <= block[at] <= _NINE:
        if mantissa < 10**17:
            mantissa = mantissa * 10 + (block[at] - _ZERO)
        else:
            exponent += 1
        digits += 1
        at += 1
    is_whole = at >= end or block[at] <= _SPACE or block[at] == _SEMICOLON
    if not is_whole:
        if block[at] == _POINT:
            at += 1
            while at < end and _ZERO <= block[at] <= _NINE:
                if mantissa < 10**17:
                    mantissa = mantissa * 10 + (block[at] - _ZERO)
                    exponent -= 1
                digits += 1
                at += 1
        if at < end and (block[at] == _LOWER_E or block[at] == _UPPER_E) and digits:
            at += 1
            shrink = at < end and block[at] == _MINUS
            if at < end and (block[at] == _MINUS or block[at] == _PLUS):
                at += 1
            power = 0
            first = at
            while at < end and _ZERO <= block[at] <= _NINE:
                power = min(power * 10 + (block[at] - _ZERO), 1000)
                at += 1
            if at == first:
                return 0, at, _NOT_A_NUMBER, 0
            exponent += -power if shrink else power
        if at < end and block[at] > _SPACE and block[at] != _SEMICOLON:
            return 0, at, _NOT_A_NUMBER, 0
    if digits == 0:
        return 0, at, _NOT_A_NUMBER, 0
    exponent += decimals
    rounded = 0
    while exponent > 0 and mantissa != 0:
        if mantissa > _LARGEST // 10:
            return 0, at, _NUMBER_TOO_LARGE, 0
        mantissa *= 10
        exponent -= 1
    if exponent < 0:
        whole = mantissa
        while exponent < -1 and whole != 0:
            rounded |= whole % 10 != 0
            whole //= 10
            exponent += 1
        rounded |= whole % 10 != 0
        mantissa = (whole + 5) // 10
    if decimals:
        rounded = 0  # a time finer than a microsecond is not reported
    return (-mantissa if negative else mantissa), at, _READ, rounded
