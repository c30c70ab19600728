"""The one door to numba: every compiled kernel in the project is decorated with `compiled` from here.

Compiled code is kept on disk in a folder named after the content of all kernel sources. numba itself
notices a change in the decorated file only, not in a function it calls from another file; with a folder
per content an edit or an upgrade can never run yesterday's machine code. No fast-math: journals must
replay byte for byte on x86-64 and arm64.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.cpython.unsafe.numbers import trailing_zeros

__all__ = ["compiled", "trailing_zeros"]

_KERNEL_SOURCES = (
    "compiled.py", "core/columns.py", "core/fair_share.py", "core/kernels.py", "core/ladder.py", "core/profile.py",
    "sim/fast.py", "trace/scan.py",
)  # fmt: skip

Function = TypeVar("Function", bound=Callable[..., Any])


def _cache_folder() -> Path:
    package = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=8)
    for name in _KERNEL_SOURCES:
        digest.update((package / name).read_bytes())
    digest.update(f"{numba.__version__} {platform.machine()} {platform.python_version()}".encode())
    home = os.environ.get("COHABIT_CACHE") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "cohabit" / "kernels" / digest.hexdigest()


numba.config.CACHE_DIR = str(_cache_folder())


def compiled(function: Function) -> Function:
    """Compile on first use and keep the machine code on disk; the function stays an ordinary function to its callers."""
    return numba.njit(cache=True)(function)  # type: ignore[no-any-return]
