"""Policies from source: a module of the package by its name, or a file anywhere by its path."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType


def load_source(origin: str) -> ModuleType:
    """Import a policy by module name, or by the path of a file outside the package."""
    if not origin.endswith(".py"):
        return importlib.import_module(origin)
    return load_file(origin, "cohabit_policy_" + hashlib.blake2b(origin.encode(), digest_size=6).hexdigest())


class _FromSource(SourceFileLoader):
    """Reads no bytecode: a __pycache__ beside the file may belong to another user."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the file as it is now."""
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def load_file(origin: str, name: str) -> ModuleType:
    """Return the module of this name; load it from this file the first time."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, origin, loader=_FromSource(name, origin))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]  # the next import fails in the same way and does not find half a module
        raise
    return module
