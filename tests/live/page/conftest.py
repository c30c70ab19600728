"""One browser for the tests of a module; it is closed with the module, because its loop would disturb other tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cohabit.live.api.settings import ApiSettings
from tests.live.api.serving import Server, served
from tests.live.page.browsing import Tab, chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium."""
    with chromium() as one:
        yield one


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A real scheduler of two nodes, with a socket only: the page's door is opened when it is asked for."""
    with served(ApiSettings()) as one:
        yield one


@pytest.fixture
def tab(browser: Browser) -> Iterator[Callable[..., Tab]]:
    """Opens tabs; each of them must have had nothing to complain about."""
    opened: list[Tab] = []

    def new(**options: Any) -> Tab:
        opened.append(Tab(browser, **options))
        return opened[-1]

    yield new
    for one in opened:
        one.close()
        assert not one.wrong


def link_of(server: Server) -> str:
    """A link that opens once."""
    answer = server.ask("POST", "/v1/page/link", {})
    assert answer.status == 201, answer
    return str(answer.body["url"])


@pytest.fixture(scope="session")
def runs() -> Iterator[tuple[Path, Path, Path]]:
    """Three finished runs: sharing, exclusive, and two domains."""
    place = Path(tempfile.mkdtemp(prefix="cohabit-runs-"))
    calls: list[tuple[str, str, list[str]]] = [
        ("spread", "sharing.toml", []), ("exclusive", "sharing.toml", ["--policy", "ce-easy"]),
        ("coupled", "coupled.toml", []),
    ]  # fmt: skip
    for name, scenario, options in calls:
        command = [sys.executable, "-m", "cohabit.cli", "simulate", str(ROOT / "scenarios" / scenario), *options]
        subprocess.run([*command, "--out", str(place / name)], check=True, capture_output=True, timeout=300)
    yield place / "spread", place / "exclusive", place / "coupled"
    shutil.rmtree(place)
