"""Write files whole or not at all: readers never see half a table; an unwritable folder is a one-sentence error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from cohabit.model.errors import InputError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write into that takes the place of `path` only when the block ends without an exception."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as stream:
            yield stream
        os.replace(temporary, target)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            f"cannot be written: {reason}", where=str(target), fix="choose a folder you may write to"
        ) from error
    finally:
        with suppress(OSError):  # its folder is not a folder, or not ours: then there is nothing to remove
            temporary.unlink(missing_ok=True)
