"""A TOML file into typed tables; whatever is wrong with it is one sentence with the file and the key."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from cohabit.model.errors import InputError

T = TypeVar("T")


def read_typed(path: Path, tables: type[T], described: str) -> T:
    """`described`: the page that explains the keys."""
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
