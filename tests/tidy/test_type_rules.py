"""mypy --strict with few exceptions, each for a reason written beside it in pyproject.toml."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from source_tree import ROOT, Module, modules

LOOSER = {
    "check_untyped_defs", "disallow_incomplete_defs", "disallow_untyped_calls", "disallow_untyped_decorators",
    "disallow_untyped_defs",
}  # fmt: skip


@pytest.fixture(scope="module")
def mypy_settings() -> dict[str, Any]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return dict(settings["tool"]["mypy"])


def overrides_for_us(settings: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry for entry in settings["overrides"] if any(name.startswith("cohabit") for name in entry["module"])]


def test_types_are_strict(mypy_settings: dict[str, Any]) -> None:
    assert mypy_settings["strict"] is True
    assert not [entry for entry in mypy_settings["overrides"] if entry.get("ignore_errors")]


def test_only_kernels_outside_the_core_go_untyped(mypy_settings: dict[str, Any]) -> None:
    (entry,) = overrides_for_us(mypy_settings)
    assert set(entry) - {"module"} == LOOSER
    kernels = {dotted(module) for module in modules() if "@compiled" in module.text}
    assert set(entry["module"]) <= kernels
    assert not [name for name in entry["module"] if name.startswith("cohabit.core")]
    assert mypy_settings["untyped_calls_exclude"] == entry["module"]


def dotted(module: Module) -> str:
    return module.path.removeprefix("src/").removesuffix(".py").replace("/", ".")
