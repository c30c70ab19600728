"""Every path that a docstring, a comment or a document names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATH = re.compile(r"(?<![\w/.<{~$-])((?:[a-z_0-9]+/)+[a-z_0-9]+\.(?:py|toml|sh|lua|md|json|csv))(?![\w/])")
ROOMS = [ROOT, ROOT / "src", ROOT / "src" / "cohabit", ROOT / "docs", ROOT / "tests"]
SUPERSEDED = ("0003-", "0006-")  # they say so themselves
MADE_BY_COMMANDS = re.compile(r"^(out|runs|logs|results|site|jobs|etc|my)/")
TO_BE_MADE = {"src/cohabit/policy/order/narrow.py", "reference/architecture.md"}  # by a reader, by `make docs`


def texts() -> list[Path]:
    found = [path for room in ("src", "tests", "benchmarks") for path in (ROOT / room).rglob("*.py")]
    found += [path for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if path.name != "CHANGELOG.md"]
    return [path for path in found if not path.name.startswith(SUPERSEDED)]


def named(path: Path) -> list[str]:
    """Paths in the words of a file: of a Python file in its comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        text = "\n".join(re.findall(r'"""[\s\S]*?"""|#[^\n]*', text))
    return [name for name in PATH.findall(text) if not MADE_BY_COMMANDS.match(name) and name not in TO_BE_MADE]


def exists(name: str, beside: Path) -> bool:
    return any((room / name).exists() for room in (*ROOMS, *beside.parents[:3]))


@pytest.mark.parametrize("room", ["src", "tests", "benchmarks", "docs", ""])
def test_named_paths_exist(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in texts()
        if (path.relative_to(ROOT).parts[0] == room or (not room and path.parent == ROOT))
        for name in named(path)
        if not exists(name, path)
    ]
    assert not wrong
