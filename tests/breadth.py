"""How wide a property is searched: `make test` draws a fifth of the examples that `make test-all` does."""

from __future__ import annotations

import os

WIDE = bool(os.environ.get("COHABIT_WIDE"))
LEAST = 8


def examples(wide: int) -> int:
    """For `settings(max_examples=...)`: `wide` examples in `make test-all`."""
    return wide if WIDE else max(wide // 5, min(wide, LEAST))
