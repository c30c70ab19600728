"""Accounts and controllers for attacks."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.accounts import Account, two_accounts
from tests.attack.controllers import RootController, controller


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Acting as other accounts needs root."""
    needs_root = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("useradd") is None, reason="needs root, useradd")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(needs_root)


@pytest.fixture(scope="session")
def accounts() -> Iterator[tuple[Account, Account]]:
    """Two ordinary accounts."""
    with two_accounts() as both:
        yield both


@pytest.fixture(scope="session")
def ann(accounts: tuple[Account, Account]) -> Account:
    """One of them; usually the attacker."""
    return accounts[0]


@pytest.fixture(scope="session")
def bob(accounts: tuple[Account, Account]) -> Account:
    """The other; usually the victim."""
    return accounts[1]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other accounts can pass."""
    made = Path(tempfile.mkdtemp(prefix="cohabit-attack-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def root_up(folder: Path) -> Iterator[RootController]:
    """`cohabit up`, typed by root, in a fresh place."""
    with controller(folder) as one:
        yield one
