"""The scheduler of one machine without a handwritten file: `cohabit up` creates the site file and keeps it.

The file stays in the place and may be edited: the next start goes on with all jobs under other settings, and says so.
They are never changed silently, so an option that contradicts the file is refused.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from cohabit.app.scenario.typed_toml import refuse_untrusted
from cohabit.live.controller.place import Place, check_root, make_folder
from cohabit.model.errors import InputError
from cohabit.whole_files import replacing

POLICY = "cohabit"
BESIDE = {  # keys beside a bundle: on one server jobs get the cores they ask for, side by side
    "cohabit": (
        'unknown = "cores"  # programs without a profile share cores; "alone": they run alone and are measured',
        'partition = "none"  # or "guarantee": the cache is divided, and every job has ways of its own',
    )
}
HEAD = "# Written by `cohabit up`; docs/live-reference.md describes every key. Once a job was taken, nodes stay."


def site_file(place: Path, nodes: str | None, policy: str | None, listen: str | None, root_jobs: bool = False) -> Path:
    """Return the site file of this place: the existing one if it says the same, else a new one."""
    path = Place(place).site
    wanted = {"nodes": None if nodes is None else _nodes(nodes), "policy": policy, "listen": listen}
    check_root(place)
    if path.exists():
        refuse_untrusted(path)
        _same(path, wanted, root_jobs)
        return path
    _check(policy, listen)
    lines = [
        HEAD,
        f"nodes = {_toml(wanted['nodes'] or 'machine')}",
        'place = "."',
        "[policy]",
        f"name = {_toml(policy or POLICY)}",
        *BESIDE.get(policy or POLICY, ()),
    ]
    if root_jobs:
        lines += ["[launcher]", "uids = [0]"]
    if listen is not None:
        lines += ["[api]", f"listen = {_toml(listen)}"]
    _make(place)
    with replacing(path) as stream:
        stream.write("\n".join([*lines, ""]).encode())
    return path


def _nodes(text: str) -> int | str:
    if text in ("machine", "l3"):
        return text
    if not text.isdigit() or not 1 <= int(text) <= 1_000_000:
        fix = "give a number, machine, or l3 for one per L3 cache"
        raise InputError(f"{text!r} is not a number of nodes", "--nodes", fix)
    return int(text)


def _check(policy: str | None, listen: str | None) -> None:
    """Refuse invalid options early, before anything is written."""
    if listen is not None:
        from cohabit.live.api.settings import ApiSettings

        host, _, port = listen.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise InputError(f"{listen!r} is not an address", "--listen", "write HOST:PORT, such as 127.0.0.1:7000")
        ApiSettings(host=host, port=int(port))  # raises if the address is wrong
    if policy is not None:
        from cohabit.app.scenario.policies import build
        from cohabit.app.scenario.tables import PolicyConfig

        build(PolicyConfig(name=policy))  # likewise


def _same(path: Path, wanted: dict[str, Any], root_jobs: bool) -> None:
    try:
        found = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", str(path)) from error
    there = {
        "nodes": found.get("nodes", 1),
        "policy": _table(found, "policy").get("name"),
        "listen": _table(found, "api").get("listen"),
    }
    if root_jobs and 0 not in _table(found, "launcher").get("uids", []):
        raise InputError("does not list uid 0", str(path), "add [launcher] uids = [0], or choose another --place")
    for key, value in wanted.items():
        if value is not None and value != there[key]:
            was = f"{key} = {there[key]}" if there[key] is not None else f"no {key}"
            raise InputError(f"says {was}, not {value}", str(path), "edit it, or choose another --place")


def _table(found: dict[str, Any], key: str) -> dict[str, Any]:
    table = found.get(key, {})
    return table if isinstance(table, dict) else {}


def _make(place: Path) -> None:
    """Create a place; others reach its socket and cannot write into it."""
    try:
        make_folder(place)
        check_root(place)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be used: {reason}", os.fspath(place), "choose a folder with --place") from error


def _toml(value: int | str) -> str:
    import json

    return str(value) if isinstance(value, int) else json.dumps(value)
