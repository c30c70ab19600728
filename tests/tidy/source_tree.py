"""The project as text and syntax trees, for the tests that look at its shape."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "cohabit"


@dataclass(frozen=True)
class Module:
    """One Python file."""

    path: str  # from the root of the project, with forward slashes
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All of the tree."""
        return tuple(ast.walk(self.tree))

    @property
    def room(self) -> str:
        """The package directly under cohabit that it lives in, or its own name for a module at the top."""
        return Path(self.path).relative_to("src/cohabit").parts[0].removesuffix(".py")

    def at(self, node: ast.AST) -> str:
        """Where to look, in the form editors understand."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


@cache
def python_file(path: Path) -> Module:
    """One file, read and parsed once however many tests look at it."""
    return Module(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


@cache
def python_files(*folders: str) -> tuple[Module, ...]:
    """All Python files below these folders."""
    return tuple(python_file(path) for path in sorted(path for name in folders for path in (ROOT / name).rglob("*.py")))


def modules() -> tuple[Module, ...]:
    """The package itself."""
    return python_files("src/cohabit")


def imported_names(module: Module) -> Iterator[tuple[ast.stmt, str]]:
    """Every imported dotted name with its statement; `from a import b` counts as a.b. Relative imports are skipped."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield node, f"{node.module}.{alias.name}"


def begins_with(name: str, *prefixes: str) -> bool:
    """Whether a dotted name is one of these or lies inside one."""
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def call_name(node: ast.AST) -> str:
    """The dotted name of what is called or read: "np.random.rand"; empty if it is not a plain name."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join(reversed([*parts, node.id]))


@cache
def committed_text_files() -> tuple[tuple[str, str], ...]:
    """Path and content of every text file that is or could be committed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if listed.returncode == 0:
        names = [name for name in listed.stdout.decode().split("\0") if name]
    else:  # an unpacked archive without git
        folders = ("src", "tests", "docs", "scripts", "requirements", "benchmarks", "scenarios", ".ci")
        names = [str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).rglob("*")]
    found = []
    for name in sorted(names):
        path = ROOT / name
        if path.is_file() and "__pycache__" not in name:
            content = path.read_bytes()
            if b"\0" not in content[:8192]:
                found.append((name, content.decode("utf-8", errors="replace")))
    return tuple(found)
