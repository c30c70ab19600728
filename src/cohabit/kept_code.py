"""Machine code on disk, and how numba reads it at every start with as little of itself as that takes.

It is kept in a folder named after the content of all kernel sources. numba itself notices a change in the decorated
file only, not in a function it calls from another file; with a folder per content an edit or an upgrade can never run
yesterday's machine code, wherever the sources lie. Orders (compiled.py) have a file each there, named after what it
contains. So nothing is asked about single files, of which numba would look up each for every function in it.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# numba loads yaml at every start for a file of settings nobody here has, and scipy to look at its version; hidden,
# unless somebody needs them already.
_HIDDEN = [name for name in ("yaml", "scipy") if name not in sys.modules]
sys.modules.update(dict.fromkeys(_HIDDEN))  # type: ignore[arg-type]
import numba  # noqa: E402
from llvmlite import binding as llvm  # noqa: E402
from numba.core import caching, codegen, environment  # noqa: E402
from numba.core.runtime import nrtdynmod, rtsys  # noqa: E402

for _name in _HIDDEN:
    del sys.modules[_name]

_KERNEL_SOURCES = (
    "compiled.py", "core/columns.py", "core/conservative.py", "core/fair_share.py", "core/few_scores.py",
    "core/given_numbers.py", "core/idle_nodes.py", "core/intervals.py", "core/kernels.py", "core/ladder.py",
    "core/library.py", "core/overrunning.py", "core/passing.py", "core/powers.py", "core/profile.py",
    "core/promises.py", "core/ranks.py", "core/reservations.py", "core/scoring.py", "core/shortlist.py",
    "core/sorting.py", "core/sums.py", "exercise/branchy.py", "exercise/graph_walk.py", "exercise/random_access.py",
    "optimise/annealing.py", "optimise/arrivals.py", "optimise/clusters.py",
    "optimise/division.py", "optimise/estimates.py", "optimise/joining.py", "optimise/law.py", "optimise/blossom.py",
    "optimise/larger_groups.py", "optimise/memo.py", "optimise/occupancy.py", "predict/trees.py", "sim/fast.py",
    "trace/scan.py",
)  # fmt: skip

PACKAGE = Path(__file__).parent
UNUSED_S = 30 * 86_400


def cache_folder() -> Path:
    """Where this version's machine code is kept."""
    digest = hashlib.blake2b(digest_size=8)
    for name in _KERNEL_SOURCES:
        digest.update((PACKAGE / name).read_bytes())
    digest.update(f"{numba.__version__} {platform.machine()} {platform.python_version()}".encode())
    home = os.environ.get("COHABIT_CACHE") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "cohabit" / "kernels" / digest.hexdigest()


def _usable_cache() -> str:
    """The cache folder; where it cannot be written, a private one that goes with the process, slow every time."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            with contextlib.suppress(OSError):
                os.utime(folder)  # it is in use
            return str(folder)
    except OSError:
        pass
    private = tempfile.mkdtemp(prefix="cohabit-kernels-")
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    return private


numba.config.CACHE_DIR = _usable_cache()


class _Folder(caching._CacheLocator):  # type: ignore[misc]
    """Where numba keeps one of our functions; those of others are none of our business."""

    def __init__(self, function: Any, file: str) -> None:
        of_an_order = file.startswith(f"{numba.config.CACHE_DIR}{os.sep}")
        beside = os.path.dirname(os.path.relpath(file, numba.config.CACHE_DIR if of_an_order else PACKAGE))
        self.path = os.path.join(numba.config.CACHE_DIR, "code", beside)
        self.line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        ours = py_file.startswith((f"{PACKAGE}{os.sep}", f"{numba.config.CACHE_DIR}{os.sep}"))
        return cls(py_func, py_file) if ours else None

    def ensure_cache_path(self) -> None:
        os.makedirs(self.path, exist_ok=True)

    def get_cache_path(self) -> str:
        return self.path

    def get_source_stamp(self) -> str:
        return "see the folder's name"

    def get_disambiguator(self) -> str:
        return str(self.line)


def _load_kept_code(cache: Any, signature: Any, target: Any) -> Any:
    """Machine code from disk, without loading first all that numba can compile: a fifth of a second at every start.

    numba loads it by itself before it compiles anything. Code that does not fit, whoever damaged it, is as good as
    none: it is made again.
    """
    rtsys.initialize(target)
    try:
        return cache._load_overload(signature, target)
    except Exception:
        with contextlib.suppress(OSError):
            cache.flush()
        return None


def _library_of_kept_code(generator: Any, kept: tuple[str, str, tuple[bytes, bytes]]) -> Any:
    """Machine code as it was kept; the form in which others can be compiled with it is read only by those who ask."""
    name, _, (code, linkable) = kept
    library = generator.create_library(name)
    library.enable_object_caching()
    library._set_compiled_object(code)
    library._finalize_final_module()
    find = generator._engine.get_function_address
    library.get_pointer_to_function = lambda symbol: find(symbol) if symbol.encode() in code else 0
    library._get_module_for_linking = lambda: llvm.parse_bitcode(linkable)
    return library


def _counting_of_references(context: Any) -> Any:
    """numba's own few functions for it, which it compiles at every start, kept as well."""
    generator = context.codegen()
    processor = hashlib.blake2b(repr(generator.magic_tuple()).encode(), digest_size=8).hexdigest()
    kept = [Path(numba.config.CACHE_DIR) / f"references-{processor}.{kind}" for kind in ("o", "bc")]
    if all(path.exists() for path in kept):
        code, linkable = (path.read_bytes() for path in kept)
        return _library_of_kept_code(generator, ("nrt", "object", (code, linkable)))
    module, library = nrtdynmod.create_nrt_module(context)
    library.enable_object_caching()
    library.add_ir_module(module)
    library.finalize()
    with contextlib.suppress(OSError):  # a full disk: the next start compiles them again
        for path, content in zip(kept, library.serialize_using_object_code()[2], strict=True):
            draft = path.with_suffix(f".{os.getpid()}")
            draft.write_bytes(content)
            draft.replace(path)
    return library


def _environment(module: str, constants: Any, name: str) -> Any:
    """What machine code knows of Python; modules of numba that were only compiled from are not loaded for it."""
    found = environment.lookup_environment(name)
    if found is None:
        unused = module.startswith("numba.") and module not in sys.modules
        known = {"__name__": module} if unused else vars(importlib.import_module(module))
        found = environment.Environment._memo[name] = environment.Environment(known)
        found.consts[:] = constants
        found.env_name = name
    return found


environment._rebuild_env = _environment
caching.CacheImpl._locator_classes = [_Folder, *caching.CacheImpl._locator_classes]
caching.Cache.load_overload = _load_kept_code
codegen.JITCodeLibrary._unserialize = _library_of_kept_code
nrtdynmod.compile_nrt_functions = _counting_of_references


def is_warm(kernel: str = "fast.drive") -> bool:
    """Whether the kernels have been compiled before, on this machine and for this version."""
    return any(Path(str(numba.config.CACHE_DIR)).rglob(f"{kernel}*.nbc"))


def forget_unused() -> None:
    """Removes the machine code of other versions that nobody has started for a month."""
    own = cache_folder()
    for other in own.parent.glob("*"):
        with contextlib.suppress(OSError):  # somebody else forgets it just now
            if other != own and other.stat().st_mtime < time.time() - UNUSED_S:
                shutil.rmtree(other)
