"""Keep machine code on disk and let numba read it at every start while loading as little of numba as possible.

The machine code of a module is in a folder named after the content of the module and of all modules of this package
that it imports. numba itself notices a change in the decorated file only, not in a function that it calls from another
file; with a folder per content an edit or an upgrade never runs outdated machine code, wherever the sources are, and
recompiles only what it affects. A process whose sources were replaced after it had loaded them has folders of its own.
Orders (compiled_numba.py) have a file each, named after what it contains.

Machine code is executed and its index is unpickled, so it is read only from folders that no other account can change
(trusted.py). Root's folder is for all accounts: others read what is there and keep the rest in their own. A process
that can write to neither, such as one that gave up root's rights, keeps what it compiles in memory.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import importlib
import os
import platform
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from cohabit import trusted
from cohabit.compiled import LOADED_S

# numba loads yaml at every start for a settings file that is not used here, and scipy to check its version; both are
# hidden unless they are already loaded.
_HIDDEN = [name for name in ("yaml", "scipy") if name not in sys.modules]
sys.modules.update(dict.fromkeys(_HIDDEN))  # type: ignore[arg-type]
import numba  # noqa: E402
from llvmlite import binding as llvm  # noqa: E402
from numba.core import caching, codegen, environment  # noqa: E402
from numba.core.runtime import nrtdynmod, rtsys  # noqa: E402

for _name in _HIDDEN:
    del sys.modules[_name]

PACKAGE = Path(__file__).parent
UNUSED_S = 30 * 86_400
SHARED = Path("/var/cache")  # root's folder for all accounts lies there
_IMPORT = re.compile(r"^\s*from cohabit(?:\.([\w.]+))? import (\([^)]*\)|[^\n(]*)", re.MULTILINE)
_TYPES_ONLY = re.compile(r"^if TYPE_CHECKING:\n(?:    .*\n|\n)+", re.MULTILINE)


@functools.cache
def _imported_by(file: Path) -> frozenset[Path]:
    """The files of this package that a file imports."""
    found = set()
    for room, names in _IMPORT.findall(_TYPES_ONLY.sub("", file.read_text())):
        place = PACKAGE.joinpath(*room.split(".")) if room else PACKAGE
        parts = [name.split()[0] for name in names.strip("() \n").split(",") if name.strip() and "#" not in name]
        found |= {place.with_suffix(".py"), *(place / f"{part}.py" for part in parts)}
    return frozenset(one for one in found if one.is_file())


@functools.cache
def digest_of(*files: Path) -> str:
    """Return a digest of these files and of all that they import, recursively."""
    seen, waiting = set[Path](), [*files]
    while waiting:
        file = waiting.pop()
        if file not in seen:
            seen.add(file)
            waiting += _imported_by(file)
    digest = hashlib.blake2b(digest_size=8)
    if any(file.stat().st_ctime > LOADED_S for file in seen):  # this process may have older functions: for it alone
        digest.update(f"{os.getpid()} {LOADED_S}".encode())
    for file in sorted(seen):
        digest.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _in(home: Path) -> Path:
    """The folder of machine code in a cache, for this numba, Python and processor, and for how numba is asked."""
    words = f"{numba.__version__} {platform.machine()} {platform.python_version()} ".encode()
    asked = (PACKAGE / "compiled_numba.py").read_bytes()
    return home / "cohabit" / "kernels" / hashlib.blake2b(words + asked, digest_size=8).hexdigest()


def _named_cache() -> str:
    """The cache that the environment names; empty: none."""
    return os.environ.get("COHABIT_CACHE") or os.environ.get("XDG_CACHE_HOME") or ""


def cache_folder() -> Path:
    """Return where this account keeps machine code."""
    usual = SHARED if os.geteuid() == 0 else Path(os.path.expanduser("~")) / ".cache"
    return _in(Path(_named_cache() or usual))


def _make(folder: Path) -> None:
    """Make a folder and its parents. Others cannot write to it, whatever the umask is, and can read what is root's."""
    if not folder.is_dir():
        _make(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o755)
            if os.geteuid() == 0:
                folder.chmod(0o755)


def _usable_cache() -> str:
    """The cache folder; where it cannot be used, a private one that goes with the process, slow every time."""
    if os.environ.get("COHABIT_CACHE_READ_ONLY"):  # root's rights were given up, and this account keeps no code
        folder = _in(Path(_named_cache() or SHARED))
        usable = folder.is_dir() and trusted.doubt_in(folder) is None
        return str(folder) if usable else _private_cache()
    folder = cache_folder()
    with contextlib.suppress(OSError):
        if doubt := trusted.doubt_of(folder):
            return _private_cache(doubt)
        _make(folder)
        if doubt := trusted.doubt_in(folder):
            return _private_cache(doubt)
        if os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
            with contextlib.suppress(OSError):
                os.utime(folder)  # marks it as in use
            return str(folder)
    return _private_cache()


def _private_cache(doubt: trusted.Doubt | None = None) -> str:
    if doubt is not None:
        said = f"machine code is not kept in {doubt.where}: {doubt.what}; {doubt.fix}"
        sys.stderr.write(f"cohabit: {said}\n")
    private = tempfile.mkdtemp(prefix="cohabit-kernels-")
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    return private


def _kernels() -> str:
    """The folder in which machine code is looked for first: root's folder if it can be trusted, else our own."""
    if os.geteuid() != 0 and not _named_cache():
        shared = _in(SHARED)
        if (shared / "code").is_dir() and trusted.doubt_in(shared) is None:
            return str(shared)
    return str(numba.config.CACHE_DIR)


numba.config.CACHE_DIR = _usable_cache()  # where machine code is written to
KERNELS = _kernels()


def order_file(name: str) -> Path:
    """The file of an order. A process that may not write to its cache any more makes another cache."""
    if not os.access(numba.config.CACHE_DIR, os.W_OK | os.X_OK, effective_ids=True):
        numba.config.CACHE_DIR = _private_cache()
    kept, own = (Path(folder) / "orders" / name for folder in (KERNELS, numba.config.CACHE_DIR))
    if kept.exists():
        return kept
    _make(own.parent)
    return own


@contextlib.contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Write a file of the cache, whole or not at all; as readable as its folder, writable only by its owner."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644), "wb") as stream:
            if os.geteuid() == 0:
                os.fchmod(stream.fileno(), 0o644)
            yield stream
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _folder_of(file: Path) -> str:
    """The folder of a module's machine code, below that of all machine code."""
    return f"{file.relative_to(PACKAGE).with_suffix('').as_posix().replace('/', '.')}-{digest_of(file)}"


class _Folder(caching._CacheLocator):  # type: ignore[misc]
    """The place where numba keeps one of our functions; functions of other packages are not handled."""

    def __init__(self, function: Any, file: str, root: str) -> None:
        self.beside = _folder_of(Path(file)) if root == str(PACKAGE) else os.path.dirname(os.path.relpath(file, root))
        self.first = KERNELS if root == str(PACKAGE) else root
        self.line = function.__code__.co_firstlineno
        with contextlib.suppress(OSError):
            os.utime(self.get_cache_path())  # it is in use

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        for root in (str(PACKAGE), KERNELS, numba.config.CACHE_DIR):
            if py_file.startswith(f"{root}{os.sep}"):
                return cls(py_func, py_file, root)
        return None

    def ensure_cache_path(self) -> None:
        _make(Path(self.own_path()))

    def own_path(self) -> str:
        """The folder to which machine code is written."""
        return os.path.join(numba.config.CACHE_DIR, "code", self.beside)

    def get_cache_path(self) -> str:
        return os.path.join(self.first, "code", self.beside)

    def get_source_stamp(self) -> str:
        return "see the folder's name"

    def get_disambiguator(self) -> str:
        return str(self.line)


def _load_kept_code(cache: Any, signature: Any, target: Any) -> Any:
    """Machine code from disk, without loading first all that numba can compile: a fifth of a second at every start.

    numba loads it by itself before it compiles anything. Code that does not fit or is damaged is compiled again.
    """
    rtsys.initialize(target)
    for file in _files_of(cache) if cache._enabled else ():
        try:
            found = file.load(cache._index_key(signature, target.codegen()))
            if found is not None:
                return cache._impl.rebuild(target, found)
        except Exception:
            with contextlib.suppress(OSError):
                file.flush()
    return None


def _keep_code(cache: Any, signature: Any, data: Any) -> None:
    """Machine code to disk; where that fails (a full disk, rights given up) it stays in memory."""
    with contextlib.suppress(OSError):
        if cache._enabled and cache._impl.check_cachable(data):
            cache._impl.locator.ensure_cache_path()
            _files_of(cache)[-1].save(cache._index_key(signature, data.codegen), cache._impl.reduce(data))


def _files_of(cache: Any) -> list[Any]:
    """The files that may have a function's machine code, in the order to look; it is written to the last."""
    where = cache._impl.locator
    if not isinstance(where, _Folder) or where.own_path() == cache._cache_path:
        return [cache._cache_file]
    own = caching.IndexDataCacheFile(where.own_path(), cache._impl.filename_base, where.get_source_stamp())
    return [cache._cache_file, own]


def _library_of_kept_code(generator: Any, kept: tuple[str, str, tuple[bytes, bytes]]) -> Any:
    """Machine code as it was kept; the form that other code can be compiled with is read only on request."""
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
    for folder in dict.fromkeys((KERNELS, numba.config.CACHE_DIR)):
        kept = [Path(folder) / f"references-{processor}.{kind}" for kind in ("o", "bc")]
        with contextlib.suppress(OSError):
            code, linkable = (path.read_bytes() for path in kept)
            return _library_of_kept_code(generator, ("nrt", "object", (code, linkable)))
    module, library = nrtdynmod.create_nrt_module(context)
    library.enable_object_caching()
    library.add_ir_module(module)
    library.finalize()
    with contextlib.suppress(OSError):  # a full disk, rights given up: the next start compiles them again
        for path, content in zip(kept, library.serialize_using_object_code()[2], strict=True):
            with writing(path) as stream:
                stream.write(content)
    return library


def _environment(module: str, constants: Any, name: str) -> Any:
    """Modules and constants for machine code; modules of numba that were only compiled from are not loaded."""
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
caching.Cache.save_overload = _keep_code
caching.IndexDataCacheFile._open_for_write = lambda _, path: writing(Path(path))
codegen.JITCodeLibrary._unserialize = _library_of_kept_code
nrtdynmod.compile_nrt_functions = _counting_of_references


def is_warm(kernel: str = "trace_driver.drive_by_ladder") -> bool:
    """Return whether a kernel, by the names of its module and function, has been compiled before on this machine."""
    module = kernel.partition(".")[0]
    for file in PACKAGE.rglob(f"{module}.py"):
        for folder in {KERNELS, numba.config.CACHE_DIR}:
            if any(Path(folder, "code", _folder_of(file)).glob(f"{kernel}-*.nbc")):
                return True
    return False


def forget_unused() -> None:
    """Remove machine code that no process has used for a month."""
    for folder in (*cache_folder().parent.glob("*"), *cache_folder().glob("code/*")):
        with contextlib.suppress(OSError):  # another process is removing it
            if folder != cache_folder() and folder.stat().st_mtime < time.time() - UNUSED_S:
                shutil.rmtree(folder)
