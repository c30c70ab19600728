"""What decides must not reach for a clock, a file or a die; nobody prints but the command line."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from source_tree import Module, begins_with, call_name, imported_names, modules, python_files

PURE_ROOMS = ("core", "policy", "optimise")
IMPURE_MODULES = (
    "asyncio", "concurrent", "datetime", "logging", "multiprocessing", "os", "random", "secrets", "shutil", "socket",
    "subprocess", "tempfile", "threading", "time", "uuid",
)  # fmt: skip
FILE_CALLS = {"open", "input"}
FILE_METHODS = {"read_text", "write_text", "read_bytes", "write_bytes", "tofile"}
# Members of numpy.random that hold a stream of their own; all others share hidden global state.
STREAMS = {"BitGenerator", "Generator", "PCG64", "PCG64DXSM", "Philox", "SFC64", "SeedSequence", "default_rng"}


def calls(module: Module) -> Iterator[tuple[ast.Call, str]]:
    for node in module.nodes:
        if isinstance(node, ast.Call):
            yield node, call_name(node.func)


def pure_modules() -> list[Module]:
    return [module for module in modules() if module.room in PURE_ROOMS]


def test_only_the_command_line_prints() -> None:
    found = [
        f"{module.at(node)} prints"
        for module in modules()
        for node, name in calls(module)
        if name in ("print", "pprint") and module.room != "cli"
    ]
    assert not found


def test_deciding_code_imports_nothing_of_the_outside() -> None:
    found = [
        f"{module.at(node)} imports {name}: time, randomness and the world are parameters"
        for module in pure_modules()
        for node, name in imported_names(module)
        if begins_with(name, *IMPURE_MODULES)
    ]
    assert not found


def test_deciding_code_opens_no_files() -> None:
    found = [
        f"{module.at(node)} calls {ast.unparse(node.func)}"
        for module in pure_modules()
        for node, name in calls(module)
        if name in FILE_CALLS or (isinstance(node.func, ast.Attribute) and node.func.attr in FILE_METHODS)
    ]
    assert not found


def test_deciding_code_makes_no_random_streams() -> None:
    found = [
        f"{module.at(node)} calls {name}: a stream is handed in and kept in the state"
        for module in pure_modules()
        for node, name in calls(module)
        if begins_with(name, "np.random", "numpy.random") or name.endswith("default_rng")
    ]
    assert not found


def test_nobody_uses_hidden_randomness() -> None:
    found = []
    for module in python_files("src", "tests", "benchmarks"):
        if "rand" not in module.text and "default_rng" not in module.text:
            continue
        for node in module.nodes:
            name = call_name(node) if isinstance(node, ast.Attribute) else ""
            member = name.removeprefix("numpy.random.").removeprefix("np.random.")
            if member != name and member.split(".")[0] not in STREAMS:
                found.append(f"{module.at(node)} uses {name}: make a stream with numpy.random.default_rng(seed)")
        for call, name in calls(module):
            if name.split(".")[-1] == "default_rng" and not call.args and not call.keywords:
                found.append(f"{module.at(call)} calls default_rng() without a seed")
        for statement, name in imported_names(module):
            if begins_with(name, "random") and module.path.startswith("src/"):
                found.append(f"{module.at(statement)} imports {name}")
            if name.startswith("numpy.random.") and name.split(".")[2] not in STREAMS:
                found.append(f"{module.at(statement)} imports {name}")
    assert not found


@pytest.mark.parametrize("fast", ["fastmath", "error_model", "parallel"])
def test_no_kernel_trades_exactness_for_speed(fast: str) -> None:
    """Journals replay byte for byte on every machine: no fast-math, no loops cut up between threads."""
    found = [
        f"{module.at(node)} passes {fast}"
        for module in modules()
        for node, _ in calls(module)
        if any(keyword.arg == fast for keyword in node.keywords)
    ]
    assert not found
