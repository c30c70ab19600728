"""The tables of broken rules are up to date: every line is still there, once, and every test that is asked exists."""

from __future__ import annotations

from tests.core_mutations import MODULES, source_of
from tests.mutations import MUTANTS, ROOT


def test_every_line_that_is_broken_occurs_once() -> None:
    core = [(source_of(name), one.line) for name, about in MODULES.items() for one in about.lines]
    others = [(ROOT / "src" / "cohabit" / one.file, one.line) for one in MUTANTS]
    wrong = [
        f"{file.relative_to(ROOT)} has {file.read_text().count(line)} times {line!r}"
        for file, line in core + others
        if file.read_text().count(line) != 1
    ]
    assert not wrong


def test_every_change_is_one() -> None:
    assert not [one for about in MODULES.values() for one in about.lines if one.line == one.becomes]


def test_every_module_of_the_core_has_three() -> None:
    core = ROOT / "src" / "cohabit" / "core"
    names = {file.relative_to(core).with_suffix("").as_posix() for file in core.rglob("*.py")}
    assert set(MODULES) == {name for name in names if not name.endswith("__init__")}
    assert not [name for name, about in MODULES.items() if len(about.lines) < 3]


def test_every_test_that_is_asked_exists() -> None:
    asked = {test.partition("::")[0] for about in MODULES.values() for test in about.tests}
    assert not [file for file in asked if not (ROOT / file).is_file()]
