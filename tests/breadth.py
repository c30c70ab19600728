"""How wide a property is searched: `make test` draws a fifth of the examples that `make test-all` does."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

WIDE = bool(os.environ.get("COHABIT_WIDE"))
LEAST = 8
T = TypeVar("T")


def few(wide: Sequence[T], short: int) -> Sequence[T]:
    """For `parametrize`: all of them in `make test-all`, else so many, spread over the whole."""
    return wide if WIDE else [wide[index * len(wide) // short] for index in range(min(short, len(wide)))]


def examples(wide: int) -> int:
    """For `settings(max_examples=...)`: `wide` examples in `make test-all`."""
    return wide if WIDE else max(wide // 5, min(wide, LEAST))
