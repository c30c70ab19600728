"""The formatter lays out the package. Only tables of data at module level keep a layout of their own."""

from __future__ import annotations

import ast

from source_tree import Module, modules

SKIP = "# fmt: skip"


def table_lines(module: Module) -> set[int]:
    """The lines of assignments at module level that compute nothing."""
    computing = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    return {
        line
        for node in module.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and not any(isinstance(inner, computing) for inner in ast.walk(node))
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def wrongly_skipped(module: Module) -> list[str]:
    if SKIP not in module.text and "# fmt: off" not in module.text:
        return []
    tables = table_lines(module)
    return [
        f"{module.path}:{number} is not a table of data: let the formatter lay it out"
        for number, line in enumerate(module.text.splitlines(), start=1)
        if (line.rstrip().endswith(SKIP) and number not in tables) or line.strip() == "# fmt: off"
    ]


def test_only_tables_of_data_skip_the_formatter() -> None:
    assert not [problem for module in modules() for problem in wrongly_skipped(module)]


def test_the_rule_notices_a_squeezed_function() -> None:
    squeezed = Module("src/cohabit/a.py", "def f(a,\n      b):  # fmt: skip\n    return a\n")
    table = Module("src/cohabit/a.py", "A = (\n    1, 2,\n)  # fmt: skip\n")
    assert wrongly_skipped(squeezed)
    assert not wrongly_skipped(table)
