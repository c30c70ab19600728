"""The kernels as the Python they are written in: no test of a rule has to wait for a compiler.

The modules are loaded a second time, beside those that the rest of the tests use; tests/core/test_plain_kernels.py
checks that both forms give the same schedules.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

import cohabit.core

ROOM = "cohabit.core.kernels"
DOOR = "cohabit.compiled"


def _loaded() -> dict[str, ModuleType]:
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name == DOOR or name.startswith(ROOM)}
    wanted = os.environ.get("COHABIT_KERNELS")
    os.environ["COHABIT_KERNELS"] = "plain"
    try:
        files = (Path(cohabit.core.__file__).parent / "kernels").glob("[a-z]*.py")
        found = {file.stem: importlib.import_module(f"{ROOM}.{file.stem}") for file in files}
        return found | {"compiled": sys.modules[DOOR]}
    finally:
        os.environ.pop("COHABIT_KERNELS")
        if wanted is not None:
            os.environ["COHABIT_KERNELS"] = wanted
        for name in [name for name in sys.modules if name == DOOR or name.startswith(ROOM)]:
            del sys.modules[name]
        sys.modules.update(kept)
        for name in (DOOR, ROOM):  # the packages around them name them, too
            package, _, last = name.rpartition(".")
            if name in kept:
                setattr(sys.modules[package], last, kept[name])
            elif hasattr(sys.modules[package], last):
                delattr(sys.modules[package], last)


_KERNELS = _loaded()


def kernel(name: str) -> ModuleType:
    """Return a module of core/kernels that needs no compiler."""
    return _KERNELS[name]
