"""Read a site file (TOML) into typed tables; every error is one sentence with the file and the key."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

import msgspec

from cohabit import trusted
from cohabit.model.errors import InputError

T = TypeVar("T")


def read_typed(path: Path, tables: type[T], described: str) -> T:
    """Read a site file; refuse it if another account can change it, because its settings are obeyed.

    `described`: the page that explains the keys.
    """
    refuse_untrusted(path)
    try:
        return msgspec.toml.decode(path.read_bytes(), type=tables)
    except OSError as error:
        raise InputError(f"cannot be read: {(error.strerror or str(error)).lower()}", str(path)) from error
    except msgspec.ValidationError as error:
        message, _, key = str(error).partition(" - at ")
        where = f"{path}: {key.strip('`$.') or 'top level'}"
        raise InputError(message[:1].lower() + message[1:], where, f"see {described}") from error
    except msgspec.DecodeError as error:
        raise InputError(f"is not valid TOML: {error}", str(path)) from error


def refuse_untrusted(path: Path, closed: int = 0) -> None:
    """Refuse a file that another account could change; `closed`: also one with any of these mode bits."""
    if doubt := trusted.doubt_of(path, closed=closed):
        raise InputError(f"is not obeyed: {doubt.what}", doubt.where, doubt.fix)


def refuse_for_root(*paths: Path, also: Collection[int] = ()) -> None:
    """Refuse the same for root only; ordinary accounts may trust such files, e.g. tables of numbers, at their own risk.

    `also`: accounts from which root accepts files, too.
    """
    for path in paths if os.geteuid() == 0 else ():
        if doubt := trusted.doubt_of(path, also=also):
            raise InputError(f"is not used by root: {doubt.what}", doubt.where, doubt.fix)
