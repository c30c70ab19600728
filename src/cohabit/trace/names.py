"""Names as small codes: the user, program and partition columns of a workload and their name tables.

Reading turns numbers or texts into int32 codes with a sorted table; nothing here knows what a name means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cohabit.model.workload import Ints

Codes = NDArray[np.int32]
UNKNOWN = -1
_TABLE_LIMIT = 10_000_000  # numbers below this are coded by a lookup table, larger ones by sorting


def codes_of_numbers(numbers: Ints, known_names: Mapping[int, str]) -> tuple[Codes, list[str]]:
    """Codes in order of the numbers; a negative one is unknown; names are the digits unless `known_names` has one."""
    stated = numbers >= 0
    if not stated.any():
        return np.full(len(numbers), UNKNOWN, np.int32), []
    if int(numbers.max()) < _TABLE_LIMIT:
        occurs = np.zeros(int(numbers.max()) + 1, np.bool_)
        occurs[numbers[stated]] = True
        code_of = (np.cumsum(occurs) - 1).astype(np.int32)
        distinct = np.flatnonzero(occurs)
        codes = np.where(stated, code_of[np.where(stated, numbers, 0)], np.int32(UNKNOWN))
    else:
        distinct, inverse = np.unique(numbers[stated], return_inverse=True)
        codes = np.full(len(numbers), UNKNOWN, np.int32)
        codes[stated] = inverse
    names = [known_names.get(number, str(number)) for number in distinct.tolist()]
    return codes.astype(np.int32, copy=False), names


def codes_of_texts(texts: Sequence[str]) -> tuple[Codes, list[str]]:
    """Codes in alphabetical order of the texts; an empty text is unknown."""
    names = sorted(set(texts) - {""})
    code_of = {name: code for code, name in enumerate(names)}
    code_of[""] = UNKNOWN
    return np.fromiter((code_of[text] for text in texts), np.int32, len(texts)), names


def numbers_of_codes(codes: Codes, names: Sequence[str]) -> tuple[Ints, dict[int, str]]:
    """The opposite of `codes_of_numbers`: a number per row, and the names that differ from their number."""
    if all(_is_plain_number(name) for name in names) and len(set(names)) == len(names):
        numbers = np.array([int(name) for name in names] + [UNKNOWN], np.int64)
        return numbers[codes], {}
    numbers = np.array([*range(1, len(names) + 1), UNKNOWN], np.int64)
    return numbers[codes], dict(enumerate(names, start=1))


def job_id_column(ids: Sequence[str]) -> NDArray[np.int64] | NDArray[np.object_]:
    """int64 where every id is a plain number, else the texts themselves."""
    if all(_is_plain_number(one) for one in ids):
        return np.array([int(one) for one in ids], np.int64)
    return np.array(ids, np.object_)


def _is_plain_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18 and (text == "0" or text[0] != "0")
