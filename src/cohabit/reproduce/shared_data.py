"""Public data that is not part of the package: in the folder of the environment, or in `shared` beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

SHARED = "COHABIT_SHARED"


def shared_file(relative: str, folder: str = "") -> Path | None:
    """Return the file, or None if it does not exist."""
    named = folder or os.environ.get(SHARED, "")
    folders = [Path(named)] if named else [parent / "shared" for parent in Path(__file__).resolve().parents]
    return next((one / relative for one in folders if (one / relative).is_file()), None)
