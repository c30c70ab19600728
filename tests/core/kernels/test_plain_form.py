"""The second loading of the kernels leaves the first one alone."""

from __future__ import annotations

import importlib
import sys

import cohabit.core
from tests.core.kernels.plain import kernel


def test_other_tests_go_on_with_the_kernels_they_have() -> None:
    usual = importlib.import_module("cohabit.core.kernels.easy")
    assert usual is sys.modules["cohabit.core.kernels.easy"]
    assert usual is not kernel("easy")
    assert cohabit.core.kernels.easy is usual
    assert usual.Ladder is importlib.import_module("cohabit.core.kernels.ladder").Ladder


def test_these_kernels_are_plain_functions() -> None:
    assert kernel("compiled").PLAIN
    assert type(kernel("easy").shadow_of).__name__ == "function"
