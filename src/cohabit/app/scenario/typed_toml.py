"""Read TOML files into typed tables; every error is one sentence with the file and the key."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cohabit import trusted
from cohabit.model.errors import InputError

T = TypeVar("T")
_PLAIN_TYPES = {
    "`object`": "a table", "`array`": "a list", "`str`": "text", "`int`": "a whole number", "`float`": "a number",
    "`bool`": "true or false", "`null`": "nothing",
}  # fmt: skip


def read_typed(path: Path, tables: type[T], described: str) -> T:
    """Read a file of settings; refuse it if another account can change it, because its settings are obeyed.

    `described`: the page that explains the keys.
    """
    refuse_untrusted(path)
    data = read_toml(path)
    refuse_unknown(data, tables, str(path))
    return typed(data, tables, str(path), f"see {described}")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a file as plain data."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("there is no such file", str(path), "check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = (getattr(error, "strerror", None) or "it is not UTF-8 text").lower()
        raise InputError(f"cannot be read: {reason}", str(path), "give a TOML file") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not valid TOML: {error}", str(path), "correct that line") from error


def typed(data: Any, tables: type[T], where: str, fix: str) -> T:
    """Convert plain data to tables."""
    try:
        return msgspec.convert(data, tables)
    except msgspec.ValidationError as error:
        message, _, key = str(error).partition(" - at ")
        for name, word in _PLAIN_TYPES.items():
            message = message.replace(name, word)
        place = f"{where}: {key.strip('`$.') or 'top level'}"
        raise InputError(message[:1].lower() + message[1:], place, fix) from error


def refuse_unknown(data: dict[str, Any], tables: Any, where: str, place: str = "") -> None:
    """Refuse a key that the tables do not have, and suggest the nearest one."""
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(tables)}
    for key, value in data.items():
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(fields)}"
            raise InputError(f"unknown key {place + key!r}", where, hint)
        inner = fields[key]
        if isinstance(value, dict) and _is_table(inner):
            refuse_unknown(value, inner, where, f"{place}{key}.")
        kind = getattr(inner, "__args__", (None,))[0]
        for number, element in enumerate(value if isinstance(value, list) else (), start=1):
            if isinstance(element, dict) and _is_table(kind):
                refuse_unknown(element, kind, f"{where}, {key} {number}", f"{place}{key}.")


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


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
